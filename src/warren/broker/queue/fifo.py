"""A queue whose messages leave it: takes them in, hands them to consumers, keeps the rest in order.

The invariant: either nothing is ready, or no consumer can take anything. A publish therefore looks for a consumer
only when nothing waits, and whatever lets a consumer take again (an ack, a flushed socket) calls `drain`.
Limits, TTL, consumers and dead letters are in limits.py, expiry.py, consumer.py and deadletter.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import NEVER, Message
from warren.broker.queue.backing import Backing
from warren.broker.queue.browser import Browser, feed_browsers
from warren.broker.queue.consumer import Consumer, Consumers
from warren.broker.queue.deadletter import REASON_DELIVERY_LIMIT, REASON_EXPIRED, REASON_MAXLEN, REASON_REJECTED
from warren.broker.queue.declaration import Declaration
from warren.broker.queue.entry import Entry
from warren.broker.queue.exact_expiry import ExactExpiry
from warren.broker.queue.expiry import (
    AGAIN_MS,
    BATCH,
    AckTimeout,
    ExpiryTimer,
    arm_expiry,
    drop_expired,
    expiry_of,
    is_expired,
)
from warren.broker.queue.limits import apply_limits, drop_excess, is_full_for
from warren.broker.queue.outcome import DELIVERED, DISCARDED, DISPLACING, REFUSED, TAKEN
from warren.broker.queue.priority import PriorityBacking
from warren.broker.queue.queue import Queue
from warren.broker.queue.retry import Retry
from warren.broker.rules.queue_settings import QUORUM
from warren.broker.rules.setting_kinds import integer

if TYPE_CHECKING:
    from warren.broker.queue.yard import Yard

# What all queues together hand out of what was ready in a turn: small messages by the tens of thousands would fit into
# what a connection may have on its way out.
HAND_OUT: Final[i64] = 6000


class FifoQueue(Queue):
    def __init__(self, node: Yard, vhost: str, declared: Declaration) -> None:
        arguments = declared.arguments
        self.max_priority: i64 = integer(arguments["x-max-priority"]) if "x-max-priority" in arguments else 0
        super().__init__(node, vhost, declared)
        # Those of its consumers that only get copies.
        self.browsers: list[Browser] = []
        # More must go than a limit takes out at once.
        self.is_trimmed = False
        self.next_sequence: i64 = self.backing.last_sequence + 1
        # True once any entry may have an expiry: queues without TTL never look at heads or timers.
        self.has_expiring = self.backing.has_expiring
        # Made when something first expires: it knows the queue, so a queue that has one is found only by the collector.
        self._expiry_timer: ExpiryTimer | None = None
        if self.has_expiring:
            # Recovered: what expired meanwhile goes at once, also when nobody comes to look.
            node.timers.schedule(self.expiry_timer(), node.now)
        self.exact_expiry: ExactExpiry | None = None
        # What came back and waits for its next try; None while the queue lets nothing wait.
        self.retry: Retry | None = None
        # How often messages came back is asked for: by consumers, a limit or the time that they wait.
        self.counts_returns = False
        self._adopt_options(0)

    def _open_backing(self) -> Backing:
        if self.max_priority == 0:
            return super()._open_backing()
        return PriorityBacking([self.node.store.open(self, level) for level in range(self.max_priority + 1)])

    def expiry_timer(self) -> ExpiryTimer:
        if self._expiry_timer is None:
            self._expiry_timer = ExpiryTimer(self)
        return self._expiry_timer

    # -- publishing ------------------------------------------------------------------------------------------------

    def publish(self, message: Message) -> i64:
        options = self.options
        if options.rejects_when_full and options.has_length_limit and is_full_for(self, message):
            return self._refuse(message)
        if self.deduplication is not None:
            return self._publish_once(message, self.deduplication)
        return self._take(message)

    def _take(self, message: Message) -> i64:
        options = self.options
        self.counters.published += 1
        backing = self.backing
        if backing.length == 0 and self.consumers.count > 0 and self.returning == 0:
            consumer = self.consumers.next_able()
            if consumer is not None:
                self._deliver_straight(consumer, message)
                return DELIVERED
        if options.ttl == 0 and options.dead_letter_exchange is None:
            backing.discard(message)
            return DISCARDED
        entry = self._entry(message)
        backing.publish(entry)
        if self.browsers:
            self.node.drain_soon(self)
        outcome: i64 = TAKEN
        if options.has_length_limit and drop_excess(self):
            outcome = DISPLACING
        if self.has_expiring:
            # Whatever this message is like: one that had to go for it may have left another at the head.
            arm_expiry(self)
            if self.exact_expiry is not None:
                self.exact_expiry.add(entry)
        return outcome

    def _entry(self, message: Message) -> Entry:
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        ttl = self.options.ttl
        if ttl == NEVER and message.ttl == NEVER:
            return Entry(message, self, sequence, NEVER)
        # Also when a consumer takes it at once: it may come back.
        self.has_expiring = True
        return Entry(message, self, sequence, expiry_of(self.node.now, ttl, message.ttl))

    def _deliver_straight(self, consumer: Consumer, message: Message) -> None:
        entry = self._entry(message)
        if consumer.no_ack:
            self.backing.discard(message)
        else:
            self.backing.publish_delivered(entry)
        self._hand_over(consumer, entry)
        if self.decorators:
            self.tell_of_ability()

    def _refuse(self, message: Message) -> i64:
        self.counters.rejected_publishes += 1
        if self.options.overflow == "reject-publish-dlx":
            self.node.dead_letters.add(self, self._entry(message), REASON_MAXLEN, False)
        return REFUSED

    # -- delivering ------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        if self.backing.length > 0 and self.returning == 0:
            self._hand_out()
        if self.decorators:
            self.tell_of_ability()

    def _hand_out(self) -> None:
        backing = self.backing
        node = self.node
        now = node.now
        expired: i64 = 0
        while backing.length > 0:
            consumer = self.consumers.next_able()
            if consumer is None:
                break
            if node.handed_out >= HAND_OUT:
                node.drain_later(self)
                break
            node.handed_out += 1
            entry = backing.fetch()
            if entry is None:
                break
            if is_expired(entry, now):
                self.remove(entry, REASON_EXPIRED)
                expired += 1
                if expired == BATCH:
                    node.drain_later(self)
                    break
                continue
            self._hand_over(consumer, entry)
            if consumer.no_ack:
                backing.settle(entry)
        if self.has_expiring:
            arm_expiry(self)
        if self.browsers:
            feed_browsers(self)

    def _hand_over(self, consumer: Consumer, entry: Entry) -> None:
        unacked = consumer.channel.unacked
        counters = self.counters
        if self.node.watches_deliveries:
            self.node.watch_delivery(consumer.channel, self, entry)
        if entry.redelivered:
            counters.redelivered += 1
        if consumer.no_ack:
            counters.delivered_no_ack += 1
            consumer.send(entry, unacked.skip())
            return
        counters.delivered += 1
        entry.consumer = consumer
        consumer.unacked += 1
        self.hold(entry)
        tag = unacked.add(entry)
        consumer.send(entry, tag)
        if self.options.consumer_timeout > 0:
            self._watch_ack(consumer, entry, tag)

    def _watch_ack(self, consumer: Consumer, entry: Entry, tag: i64) -> None:
        timeout = self.options.consumer_timeout
        self.node.timers.schedule(AckTimeout(consumer.channel, entry, tag, timeout), self.node.now + timeout)

    def get(self) -> Entry | None:
        self.last_used = self.node.now
        if self.has_expiring:
            drop_expired(self)
            if self.is_behind():
                return None
        entry = self.backing.fetch()
        if entry is None:
            self.counters.got_empty += 1
            return None
        if entry.redelivered:
            self.counters.redelivered += 1
        if self.has_expiring:
            arm_expiry(self)
        return entry

    def is_behind(self) -> bool:
        head = self.backing.peek() if self.has_expiring else None
        return head is not None and is_expired(head, self.node.now)

    # -- settling --------------------------------------------------------------------------------------------------

    def ack(self, entry: Entry) -> None:
        self._release(entry)
        self.counters.acked += 1
        self.backing.settle(entry)

    def reject(self, entry: Entry) -> None:
        """Dead-lettered where there is somewhere to go."""
        self._release(entry)
        if not entry.is_copy:
            self.remove(entry, REASON_REJECTED)

    def requeue(self, entries: list[Entry]) -> None:
        """Each to its own place, marked as handed out before."""
        limit = self.options.delivery_limit
        for entry in entries:
            self._release(entry)
            if entry.is_copy:
                continue
            entry.redelivered = True
            if self.node.is_stopping:
                # Counted, a message that is worked on for long would die of restarts.
                self.put_back(entry)
                continue
            entry.returns += 1
            if limit >= 0 and entry.returns > limit:
                self.remove(entry, REASON_DELIVERY_LIMIT)
            else:
                if self.counts_returns:
                    self.backing.came_back(entry)
                if self.retry is None or not self.retry.takes(entry):
                    self.put_back(entry)
            entry.failed = False
        if self.options.has_length_limit:
            drop_excess(self)
        if self.has_expiring:
            drop_expired(self)
        self.drain()

    def put_back(self, entry: Entry) -> None:
        super().put_back(entry)
        if self.exact_expiry is not None:
            self.exact_expiry.add(entry)

    def _release(self, entry: Entry) -> None:
        self.unacked -= 1
        self.unacked_bytes -= entry.message.body_size
        consumer = entry.consumer
        if consumer is not None:
            consumer.unacked -= 1
            entry.consumer = None

    def expire(self) -> None:
        if self.exact_expiry is not None:
            # First whose time was over first, not the head.
            self.exact_expiry.drop(self.node.now)
        if self.exact_expiry is None or self.exact_expiry.has_failed:
            arm_expiry(self)

    def remove(self, entry: Entry, reason: str) -> None:
        """And to the dead-letter exchange if there is one."""
        if self.options.dead_letter_exchange is None:
            self.backing.settle(entry)
            return
        self.node.dead_letters.add(self, entry, reason, True)

    def is_held_up(self) -> bool:
        return self.node.dead_letters.is_crowded(self)

    # -- counting --------------------------------------------------------------------------------------------------

    def newest(self) -> i64:
        return self.next_sequence - 1

    def count(self) -> i64:
        return self.backing.length + self.unacked + self.waiting()

    def waiting(self) -> i64:
        return 0 if self.retry is None else self.retry.count

    def is_keeping_up(self) -> bool:
        return self.consumers.count > 0 and self.backing.length == 0

    # -- consumers -------------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        if isinstance(consumer, Browser):
            self.browsers.append(consumer)
        super().add_consumer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        if isinstance(consumer, Browser) and consumer in self.browsers:
            self.browsers.remove(consumer)
        super().remove_consumer(consumer)

    # -- policy and time -------------------------------------------------------------------------------------------

    def apply_policy(self, policy: str | None, operator_policy: str | None, definition: dict[str, object]) -> None:
        super().apply_policy(policy, operator_policy, definition)
        self._adopt_options(0)
        if self.options.has_length_limit:
            apply_limits(self)

    def _adopt_options(self, earliest: i64) -> None:
        """What exists only where an option asks for it; nothing expires before `earliest`."""
        if self.options.exact_ttl and self.exact_expiry is None:
            self.exact_expiry = ExactExpiry(self, earliest)
        if self.options.retry_min > 0 and self.retry is None:
            self.retry = Retry(self)
        self.counts_returns = self.type == QUORUM or self.options.delivery_limit >= 0 or self.retry is not None

    def restart(self) -> None:
        super().restart()
        self.consumers.dismiss()
        self.consumers = Consumers()
        self.browsers.clear()
        self.exclusive_consumer = None
        self._reopen()
        self.has_expiring = self.backing.has_expiring
        again = self.node.now + AGAIN_MS
        if self.has_expiring:
            # Not at once: if that is what failed, it may fail again.
            self.node.timers.schedule(self.expiry_timer(), again)
        if self.exact_expiry is not None:
            self.node.timers.cancel(self.exact_expiry)
            self.exact_expiry = None
        if self.retry is not None:
            self.node.timers.cancel(self.retry)
            self.retry = None
        self._adopt_options(again)

    def close(self) -> None:
        super().close()
        if self._expiry_timer is not None:
            self.node.timers.cancel(self._expiry_timer)
            self._expiry_timer = None
        if self.exact_expiry is not None:
            self.node.timers.cancel(self.exact_expiry)
        if self.retry is not None:
            self.node.timers.cancel(self.retry)
