"""Credit flow: reader -> channel -> queue -> store. Who cannot keep up slows down who sends, never who consumes.

A channel may have INITIAL messages with a queue that the queue has not granted back; a large one counts for several.
In this broker a queue handles a message in the same turn, so it grants at once and nobody ever waits, except while the
store is behind: then queues defer their grants, the channel's credit runs out, and its connection stops reading from
its socket (state `flow`). Once the store has caught up, all that is owed is granted. A queue that dies owes nothing:
its credit is released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.session.channel import Channel

# RabbitMQ's credit_flow_default_credit.
INITIAL: Final = 400
# A message costs one, and one more for each so many bytes: large ones must not wait for the disk by the gigabyte.
CREDIT_BYTES: Final[i64] = 16384


class Credit:
    """What one channel has spent with queues that have not granted it back."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._spent: dict[Queue, int] = {}
        self.exhausted: i64 = 0

    def spend(self, queue: Queue, size: i64) -> None:
        node = self.channel.connection.node
        before = self._spent.get(queue, 0)
        spent = before + INITIAL if node.store.is_swamped() else before + 1 + int(size // CREDIT_BYTES)
        self._spent[queue] = spent
        node.in_debt[self] = True
        if before < INITIAL <= spent:
            self.exhausted += 1
            self.channel.connection.throttle()

    def grant_all(self) -> None:
        self._spent.clear()
        self.exhausted = 0
        self.channel.connection.unthrottle()

    def release(self, queue: Queue) -> None:
        """The queue died."""
        spent = self._spent.pop(queue, 0)
        if spent >= INITIAL:
            self.exhausted -= 1
            self.channel.connection.unthrottle()
