"""A queue: takes messages in, hands them to consumers, keeps the rest in order.

The invariant: either nothing is ready, or no consumer can take anything. A publish therefore looks for a consumer
only when nothing waits, and whatever lets a consumer take again (an ack, a flushed socket) calls `drain`.
Limits, TTL, consumers and dead letters are in limits.py, expiry.py, consumer.py and deadletter.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.broker.exchanges.base import Destination
from warren.broker.message import NEVER, Message
from warren.broker.metrics import QueueCounters
from warren.broker.queue.backing import Backing
from warren.broker.queue.browser import Browser, feed_browsers
from warren.broker.queue.consumer import Consumer, Consumers
from warren.broker.queue.deadletter import REASON_DELIVERY_LIMIT, REASON_EXPIRED, REASON_MAXLEN, REASON_REJECTED
from warren.broker.queue.deduplication import Deduplication, key_of
from warren.broker.queue.entry import Entry
from warren.broker.queue.exact_expiry import ExactExpiry
from warren.broker.queue.expiry import (
    BATCH,
    AckTimeout,
    ExpiryTimer,
    IdleTimer,
    arm_expiry,
    drop_expired,
    expiry_of,
    is_expired,
)
from warren.broker.queue.limits import drop_excess, is_full_for
from warren.broker.queue.outcome import DELIVERED, DISCARDED, DISPLACING, DUPLICATE, REFUSED, TAKEN
from warren.broker.queue.priority import PriorityBacking
from warren.broker.queue.publishers import Publishers
from warren.broker.queue.retry import Retry
from warren.broker.rules.arguments import QueueOptions
from warren.broker.rules.queue_settings import integer

if TYPE_CHECKING:
    from warren.broker.queue.decorators import QueueDecorator
    from warren.broker.queue.outlet import Outlet
    from warren.broker.queue.yard import Yard


class Queue(Destination):
    def __init__(
        self,
        node: Yard,
        vhost: str,
        name: str,
        type_: str,
        durable: bool,
        auto_delete: bool,
        owner: Outlet | None,
        arguments: Table,
        incarnation: str = "",
    ) -> None:
        super().__init__(vhost, name, False)
        self.node = node
        self.type = type_
        self.durable = durable
        self.auto_delete = auto_delete
        # The connection that declared it exclusive; it dies with that connection.
        self.exclusive_owner = owner
        self.arguments = arguments
        # Tells a queue from one of the same name that was deleted before it.
        self.incarnation = incarnation
        # Everything is kept, also what its publisher called transient.
        self.keeps_all = False
        self.policy: str | None = None
        self.operator_policy: str | None = None
        self.effective_policy: dict[str, object] = {}
        self.options = self._options()
        self.counters = QueueCounters()
        self.consumers = Consumers()
        self.exclusive_consumer: Consumer | None = None
        # Those of its consumers that only get copies.
        self.browsers: list[Browser] = []
        self.single_active = "x-single-active-consumer" in arguments and bool(
            arguments["x-single-active-consumer"].value
        )
        self.max_priority: i64 = integer(arguments["x-max-priority"]) if "x-max-priority" in arguments else 0
        self.deduplication = Deduplication.of(arguments)
        self.decorators: list[QueueDecorator] = []
        # As the decorators were last told.
        self._consumers_can_take = False
        self.backing: Backing = self._open_backing()
        # Those that number what they publish; None as long as none has.
        self.publishers = Publishers.of(self.backing.recalled)
        if self.deduplication is not None:
            self.deduplication.recall(self.backing.recalled)
        self.deleted = False
        self.had_consumers = False
        # More must go than a limit takes out at once.
        self.is_trimmed = False
        self.unacked: i64 = 0
        self.unacked_bytes: i64 = 0
        self.next_sequence: i64 = self.backing.last_sequence + 1
        # True once any entry may have an expiry: queues without TTL never look at heads or timers.
        self.has_expiring = self.backing.has_expiring
        self.expiry_timer = ExpiryTimer(self)
        if self.has_expiring:
            # Recovered: what expired meanwhile goes at once, also when nobody comes to look.
            node.timers.schedule(self.expiry_timer, node.now)
        self.exact_expiry: ExactExpiry | None = None
        # What came back and waits for its next try; None while the queue lets nothing wait.
        self.retry: Retry | None = None
        self._adopt_options()
        self.idle_timer = IdleTimer(self)
        self.last_used: i64 = node.now

    def _open_backing(self) -> Backing:
        if self.max_priority == 0:
            return self.node.store.open(self, 0)
        return PriorityBacking([self.node.store.open(self, level) for level in range(self.max_priority + 1)])

    def expect_results(self) -> None:
        """Bound to a pipeline, which publishes an interrupted batch again under the same ids: each counts once."""
        if self.deduplication is None:
            self.deduplication = Deduplication.of_results()
            self.deduplication.recall(self.backing.recalled)

    # -- publishing ------------------------------------------------------------------------------------------------

    def publish(self, message: Message) -> i64:
        options = self.options
        if options.rejects_when_full and options.has_length_limit and is_full_for(self, message):
            return self._refuse(message)
        if self.deduplication is not None:
            return self._publish_once(message, self.deduplication)
        return self._take(message)

    def _publish_once(self, message: Message, deduplication: Deduplication) -> i64:
        identity = deduplication.identity_of(message)
        if identity is None:
            return self._take(message)
        now = self.node.now
        if deduplication.has_seen(identity, now):
            # The broker already answers for the first copy, so the publisher hears ack, not nack.
            return DUPLICATE
        self.backing.begin_together()
        outcome = self._take(message)
        # Not before: the publisher of a message that broke the queue hears nack, and sends it again.
        if self.keeps(message):
            self.backing.remember(key_of(identity), now)
        else:
            deduplication.note_transient(identity)
        deduplication.note(identity, now, self.node.store.position, self.node.store.synced)
        return outcome

    def keeps(self, message: Message) -> bool:
        """Whether it would still be here after a restart."""
        return self.keeps_all or (message.persistent and self.durable)

    def has_passed(self, publisher: bytes, number: i64) -> bool:
        return self.publishers is not None and self.publishers.has_passed(publisher, number)

    def note_publisher(self, publisher: bytes, number: i64, message: Message) -> None:
        """It has taken the message in."""
        if self.publishers is None:
            self.publishers = Publishers()
        self.publishers.note(publisher, number)
        if self.keeps(message):
            self.backing.remember(publisher, number)

    def notes(self) -> list[tuple[bytes, int]]:
        """All that the store is to remember of it, the oldest first."""
        if self.deduplication is not None:
            found = self.deduplication.notes()
        else:
            # Of a pipeline's results, should it be bound to one again.
            found = list(self.backing.recalled.items())
        return found if self.publishers is None else [*self.publishers.notes(), *found]

    def _take(self, message: Message) -> i64:
        options = self.options
        self.counters.published += 1
        backing = self.backing
        if backing.length == 0 and self.consumers.count > 0:
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
            self._tell_of_ability()

    def _refuse(self, message: Message) -> i64:
        self.counters.rejected_publishes += 1
        if self.options.overflow == "reject-publish-dlx":
            self.node.dead_letters.add(self, self._entry(message), REASON_MAXLEN, False)
        return REFUSED

    # -- delivering ------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Hand out what is ready while somebody can take it."""
        if self.backing.length > 0:
            self._hand_out()
        if self.decorators:
            self._tell_of_ability()

    def _hand_out(self) -> None:
        backing = self.backing
        now = self.node.now
        expired: i64 = 0
        while backing.length > 0:
            consumer = self.consumers.next_able()
            if consumer is None:
                break
            entry = backing.fetch()
            if entry is None:
                break
            if is_expired(entry, now):
                self.remove(entry, REASON_EXPIRED)
                expired += 1
                if expired == BATCH:
                    self.node.drain_later(self)
                    break
                continue
            self._hand_over(consumer, entry)
            if consumer.no_ack:
                backing.settle(entry)
        if self.has_expiring:
            arm_expiry(self)
        if self.browsers:
            feed_browsers(self)

    def _tell_of_ability(self) -> None:
        """Decorators hear when an attempt to deliver has changed whether any consumer can take more."""
        could_take = self._consumers_can_take
        self._consumers_can_take = self.consumers.is_any_able()
        if self._consumers_can_take != could_take:
            self.tell_decorators()

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
        """basic.get: the head, or None. The caller says what becomes of it."""
        self.last_used = self.node.now
        if self.has_expiring:
            drop_expired(self)
        entry = self.backing.fetch()
        while entry is not None and is_expired(entry, self.node.now):
            # More than a batch have expired at once: who asks for one waits for them.
            self.remove(entry, REASON_EXPIRED)
            entry = self.backing.fetch()
        if entry is None:
            self.counters.got_empty += 1
            return None
        if entry.redelivered:
            self.counters.redelivered += 1
        if self.has_expiring:
            arm_expiry(self)
        return entry

    def hold(self, entry: Entry) -> None:
        """It is in a client's hands now."""
        self.unacked += 1
        self.unacked_bytes += entry.message.body_size

    # -- settling --------------------------------------------------------------------------------------------------

    def ack(self, entry: Entry) -> None:
        self._release(entry)
        self.counters.acked += 1
        self.backing.settle(entry)

    def reject(self, entry: Entry) -> None:
        """Rejected for good: dead-lettered where there is somewhere to go."""
        self._release(entry)
        if not entry.is_copy:
            self.remove(entry, REASON_REJECTED)

    def requeue(self, entries: list[Entry]) -> None:
        """Given back: each to its own place, marked as handed out before."""
        limit = self.options.delivery_limit
        for entry in entries:
            self._release(entry)
            if entry.is_copy:
                continue
            entry.redelivered = True
            entry.returns += 1
            if limit >= 0 and entry.returns > limit:
                self.remove(entry, REASON_DELIVERY_LIMIT)
            elif self.retry is None or not self.retry.takes(entry):
                self.put_back(entry)
            entry.failed = False
        if self.options.has_length_limit:
            drop_excess(self)
        if self.has_expiring:
            drop_expired(self)
        self.drain()

    def put_back(self, entry: Entry) -> None:
        self.backing.requeue(entry)
        if self.exact_expiry is not None:
            self.exact_expiry.add(entry)

    def _release(self, entry: Entry) -> None:
        self.unacked -= 1
        self.unacked_bytes -= entry.message.body_size
        consumer = entry.consumer
        if consumer is not None:
            consumer.unacked -= 1
            entry.consumer = None

    def remove(self, entry: Entry, reason: str) -> None:
        """Out of the queue for good, and to the dead-letter exchange if there is one."""
        if self.options.dead_letter_exchange is None:
            self.backing.settle(entry)
            return
        self.node.dead_letters.add(self, entry, reason, True)

    def browse(self, after: i64, limit: i64) -> list[Entry]:
        """What is ready behind the sequence `after`, in order and at most `limit`, left where it is."""
        return self.backing.browse(after, limit)

    def check_purge(self) -> None:
        """Raises where nothing can be purged."""

    # -- consumers -------------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        if self.single_active and self.consumers.active_one() is not None:
            consumer.active = False
        self.consumers.add(consumer)
        self.had_consumers = True
        if isinstance(consumer, Browser):
            self.browsers.append(consumer)
        if consumer.exclusive:
            self.exclusive_consumer = consumer
        self.node.events.consumer("created", consumer)
        self.tell_decorators()

    def remove_consumer(self, consumer: Consumer) -> None:
        if not self.consumers.remove(consumer):
            return
        if isinstance(consumer, Browser):
            self.browsers.remove(consumer)
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.single_active and consumer.active and not self.deleted:
            self._promote()
        self.last_used = self.node.now
        self.arm_idle()
        self.node.events.consumer("deleted", consumer)
        self.tell_decorators()

    def _promote(self) -> None:
        for consumer in self.consumers.all():
            if not isinstance(consumer, Browser):
                consumer.active = True
                self.drain()
                return

    def is_unused_auto_delete(self) -> bool:
        return self.auto_delete and self.had_consumers and self.consumers.count == 0 and not self.deleted

    def tell_decorators(self) -> None:
        self._consumers_can_take = self.consumers.is_any_able()
        for decorator in self.decorators:
            decorator.consumer_state_changed(self)

    # -- policy and time -------------------------------------------------------------------------------------------

    def apply_policy(self, policy: str | None, operator_policy: str | None, definition: dict[str, object]) -> None:
        self.policy = policy
        self.operator_policy = operator_policy
        self.effective_policy = definition
        expires = self.options.expires
        self.options = self._options()
        self._adopt_options()
        if self.options.expires != expires:
            # A queue that was idle before there was a rule has all of its time from now on.
            self.last_used = self.node.now
        if self.options.has_length_limit:
            drop_excess(self)
            arm_expiry(self)
        self.arm_idle()

    def _adopt_options(self) -> None:
        """What exists only where an option asks for it."""
        if self.options.exact_ttl and self.exact_expiry is None:
            self.exact_expiry = ExactExpiry(self)
        if self.options.retry_min > 0 and self.retry is None:
            self.retry = Retry(self)

    def _options(self) -> QueueOptions:
        options = QueueOptions(self.arguments, self.effective_policy, self.type, self.node.settings.delivery_limit)
        if options.consumer_timeout < 0:
            options.consumer_timeout = self.node.settings.consumer_timeout_ms
        return options

    def arm_idle(self) -> None:
        """x-expires: start counting unless somebody consumes."""
        if self.options.expires >= 0 and self.consumers.count == 0 and not self.deleted:
            self.node.timers.schedule(self.idle_timer, self.last_used + self.options.expires)

    def restart(self) -> None:
        """After a failure: begin again with what the store still has."""
        self.consumers = Consumers()
        self.browsers.clear()
        self.exclusive_consumer = None
        self.unacked = 0
        self.unacked_bytes = 0
        if self.deduplication is not None:
            self.deduplication.forget_unsynced(self.node.store.synced)
        self.node.store.release(self)
        self.backing = self._open_backing()
        self.has_expiring = self.backing.has_expiring
        if self.exact_expiry is not None:
            self.node.timers.cancel(self.exact_expiry)
            self.exact_expiry = None
        if self.retry is not None:
            self.node.timers.cancel(self.retry)
            self.retry = None
        self._adopt_options()

    def close(self) -> None:
        """Deleted: nothing fires, nothing is handed out any more."""
        self.deleted = True
        self.node.timers.cancel(self.expiry_timer)
        self.node.timers.cancel(self.idle_timer)
        if self.exact_expiry is not None:
            self.node.timers.cancel(self.exact_expiry)
        if self.retry is not None:
            self.node.timers.cancel(self.retry)
        for decorator in self.decorators:
            decorator.shutdown(self)
