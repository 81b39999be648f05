"""Time in a queue: message TTL at the head, x-expires of idle queues, acknowledgement timeouts.

Only the head of a queue expires, as in RabbitMQ: a short-lived message behind a long-lived one waits for its turn.
A message past its time is never delivered, whether or not the timer has fired yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import NEVER
from warren.broker.queue.deadletter import REASON_EXPIRED
from warren.broker.queue.entry import Entry
from warren.broker.timers import UNSET, Timer
from warren.errors import PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.fifo import FifoQueue
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.recipient import Recipient

# What one firing, one publish or one delivery takes out, if the turn has as much left for it: a unit for each. Others
# have their turn before the rest.
BATCH: Final[i64] = 1000
# After which something that failed is tried again.
AGAIN_MS: Final[i64] = 1000


def expiry_of(now: i64, queue_ttl: i64, message_ttl: i64) -> i64:
    """The stamp an entry gets when it enters: the sooner of the queue's TTL and its own."""
    if queue_ttl == NEVER:
        return now + message_ttl
    if message_ttl == NEVER:
        return now + queue_ttl
    return now + min(queue_ttl, message_ttl)


def is_expired(entry: Entry, now: i64) -> bool:
    return entry.expires_at != NEVER and entry.expires_at <= now


def drop_expired(queue: FifoQueue) -> None:
    """Some of them: if a million expire at once, the timer takes the rest a batch at a time."""
    backing = queue.backing
    now = queue.node.now
    budget = queue.node.errands.budget
    left = 0 if queue.is_held_up() else min(BATCH, budget.left)
    head = backing.peek()
    while head is not None and is_expired(head, now) and left > 0:
        backing.fetch()
        queue.remove(head, REASON_EXPIRED)
        budget.spend(1)
        left -= 1
        head = backing.peek()


def arm_expiry(queue: FifoQueue) -> None:
    """See to it that the timer fires no later than the head expires. Early is harmless: it arms itself anew."""
    head = queue.backing.peek()
    if head is None or head.expires_at == NEVER:
        return
    if head.expires_at <= queue.node.now:
        drop_expired(queue)
        head = queue.backing.peek()
        if head is None or head.expires_at == NEVER:
            return
    # Overdue: at once, but in a firing of its own.
    due = max(head.expires_at, queue.node.now + 1)
    timer = queue.expiry_timer()
    if timer.due == UNSET or due < timer.due:
        queue.node.timers.schedule(timer, due)


class ExpiryTimer(Timer):
    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def fire(self, now: i64) -> None:
        self.queue.node.monitor.expire(self.queue)


class IdleTimer(Timer):
    """x-expires: the queue goes when nobody has used it for so long, with all it holds, dead-lettering nothing."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def fire(self, now: i64) -> None:
        queue = self.queue
        if queue.deleted or queue.consumers.count > 0 or queue.options.expires < 0:
            return
        if now - queue.last_used < queue.options.expires:
            queue.arm_idle()
            return
        queue.node.expire_queue(queue)


class AckTimeout(Timer):
    """A consumer that sits on a delivery for longer than the queue allows loses its channel."""

    def __init__(self, channel: Recipient, entry: Entry, tag: i64, timeout: i64) -> None:
        super().__init__()
        self.channel = channel
        self.entry = entry
        self.tag: i64 = tag
        self.timeout: i64 = timeout

    def fire(self, now: i64) -> None:
        channel = self.channel
        if channel.is_closed or not channel.unacked.holds(self.tag, self.entry):
            return
        channel.fail(
            PreconditionFailed(
                f"delivery acknowledgement on channel {channel.number} timed out. "
                f"Timeout value used: {self.timeout} ms. "
                "This timeout value can be configured, see consumers doc guide to learn more"
            )
        )
