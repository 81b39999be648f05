"""Max-length and max-length-bytes. They count ready messages and their bodies, never what consumers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import Message
from warren.broker.queue.deadletter import REASON_MAXLEN
from warren.broker.queue.errands import Budget, Errand
from warren.broker.queue.expiry import BATCH

if TYPE_CHECKING:
    from warren.broker.queue.fifo import FifoQueue

# Messages that a piece takes, each about a unit.
_PIECE: Final[i64] = 100
# What a message takes out that comes while the rest is taken out: more than it brings.
_WHILE_TRIMMED: Final[i64] = 2


def is_full_for(queue: FifoQueue, message: Message) -> bool:
    """Would this message be one too many? Asked before it is taken in, by the reject-publish modes."""
    options = queue.options
    backing = queue.backing
    if options.max_length >= 0 and backing.length + 1 > options.max_length:
        return True
    return options.max_bytes >= 0 and backing.body_bytes + message.body_size > options.max_bytes


def drop_excess(queue: FifoQueue) -> bool:
    """drop-head: the oldest go until the limits hold, the newest among them if it alone is too big. True if any had
    to go."""
    limit = _WHILE_TRIMMED if queue.is_trimmed else BATCH
    dropped = drop_some(queue, limit)
    if dropped == limit:
        _trim_later(queue)
    return dropped > 0


def apply_limits(queue: FifoQueue) -> None:
    """Those of a policy, which may have been set over a long queue."""
    if queue.node.monitor.trim(queue, BATCH) == BATCH:
        _trim_later(queue)


def _trim_later(queue: FifoQueue) -> None:
    if not queue.is_trimmed:
        queue.is_trimmed = True
        queue.node.errands.add(Trim(queue))


def drop_some(queue: FifoQueue, limit: i64) -> i64:
    options = queue.options
    if options.rejects_when_full:
        return 0
    dropped: i64 = 0
    backing = queue.backing
    max_length = options.max_length
    max_bytes = options.max_bytes
    while dropped < limit and (
        backing.length > 0
        and ((max_length >= 0 and backing.length > max_length) or (max_bytes >= 0 and backing.body_bytes > max_bytes))
    ):
        entry = backing.fetch()
        if entry is None:
            break
        dropped += 1
        queue.remove(entry, REASON_MAXLEN)
    return dropped


class Trim(Errand):
    """The rest of what is in the way of a limit, no faster than it can be buried."""

    def __init__(self, queue: FifoQueue) -> None:
        super().__init__()
        self._queue = queue

    def step(self, budget: Budget) -> bool:
        queue = self._queue
        while budget.left > 0 and not queue.deleted and not queue.node.dead_letters.is_crowded(queue):
            dropped = queue.node.monitor.trim(queue, _PIECE)
            budget.spend(_PIECE)
            if dropped < _PIECE:
                queue.is_trimmed = False
                return True
        return queue.deleted

    def failed(self) -> bool:
        # The next that is too many begins anew.
        self._queue.is_trimmed = False
        return True
