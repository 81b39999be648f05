"""What every queue is, whatever becomes of its messages: a name and a declaration, a policy, consumers, counters.

Three kinds build on it: a FifoQueue, whose messages leave it when they are consumed (fifo.py), a Stream, where they
stay, and a Schedule, which nobody consumes and whose messages leave when they are due (schedule.py). Whoever publishes,
consumes, settles or lists asks for a Queue and need not know which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.broker.exchanges.base import Destination
from warren.broker.message import Message
from warren.broker.metrics import QueueCounters
from warren.broker.queue.backing import Backing
from warren.broker.queue.consumer import Consumer, Consumers
from warren.broker.queue.declaration import Declaration
from warren.broker.queue.deduplication import Deduplication
from warren.broker.queue.entry import Entry
from warren.broker.queue.expiry import IdleTimer
from warren.broker.queue.outcome import DUPLICATE
from warren.broker.queue.publishers import Publishers
from warren.broker.rules.arguments import QueueOptions

if TYPE_CHECKING:
    from warren.broker.queue.decorators import QueueDecorator
    from warren.broker.queue.yard import Yard


class Queue(Destination):
    def __init__(self, node: Yard, vhost: str, declared: Declaration) -> None:
        super().__init__(vhost, declared.name, False)
        self.node = node
        self.type = declared.type
        self.durable = declared.durable
        self.auto_delete = declared.auto_delete
        # It dies with that connection.
        self.exclusive_owner = declared.owner
        arguments = declared.arguments
        self.arguments = arguments
        self.incarnation = declared.incarnation
        # Everything is kept, also what its publisher called transient.
        self.keeps_all = False
        # Nobody can name it: what it holds is routed later.
        self.is_schedule = False
        self.policy: str | None = None
        self.operator_policy: str | None = None
        self.effective_policy: dict[str, object] = {}
        self.options = self._options()
        self.counters = QueueCounters()
        self.consumers = Consumers()
        self.exclusive_consumer: Consumer | None = None
        self.single_active = "x-single-active-consumer" in arguments and bool(
            arguments["x-single-active-consumer"].value
        )
        self.deduplication = Deduplication.of(arguments)
        self.decorators: list[QueueDecorator] = []
        # As the decorators were last told.
        self._consumers_can_take = False
        # What it keeps.
        self.backing: Backing = self._open_backing()
        # Those that number what they publish; None as long as none has.
        self.publishers = Publishers.of(self.backing.recalled)
        if self.deduplication is not None:
            self.deduplication.recall(self.backing.recalled)
        self.deleted = False
        self.had_consumers = False
        self.unacked: i64 = 0
        self.unacked_bytes: i64 = 0
        # Channels that are giving back what they held: nothing is handed out before all of it is here.
        self.returning: i64 = 0
        # The how manyth failure of any queue was the last of this one: see Monitor.
        self.failed_at: i64 = 0
        # Made where there is a rule for it: it knows the queue, and a circle is found only by the collector.
        self._idle_timer: IdleTimer | None = None
        self.last_used: i64 = node.now

    def _open_backing(self) -> Backing:
        return self.node.store.open(self, 0)

    # -- what the kinds do each in their way -----------------------------------------------------------------------

    def _take(self, message: Message) -> i64:
        """In, whatever becomes of it: an outcome says."""
        raise NotImplementedError

    def drain(self) -> None:
        """Hand out what is ready while somebody can take it."""
        raise NotImplementedError

    def get(self) -> Entry | None:
        """basic.get: the head, or None. The caller says what becomes of it."""
        raise NotImplementedError

    def is_behind(self) -> bool:
        """There may be something to get: so many have expired that not all in front of it are gone yet."""
        return False

    def check_get(self) -> None:
        """Raises where messages are not handed out one by one."""

    def ack(self, entry: Entry) -> None:
        raise NotImplementedError

    def reject(self, entry: Entry) -> None:
        """Rejected for good."""
        raise NotImplementedError

    def requeue(self, entries: list[Entry]) -> None:
        """Given back."""
        raise NotImplementedError

    def put_back(self, entry: Entry) -> None:
        """To its own place, after all."""
        self.backing.requeue(entry)

    def expire(self) -> None:
        """Let go of what has had its time, a batch of it."""
        raise NotImplementedError

    def remove(self, entry: Entry, reason: str) -> None:
        """Out of the queue for good."""
        raise NotImplementedError

    def is_held_up(self) -> bool:
        """So much that has left it is still under way that it should let go no more."""
        return False

    def browse(self, after: i64, limit: i64) -> list[Entry]:
        """What is ready behind the sequence `after`, in order and at most `limit`, left where it is."""
        return self.backing.browse(after, limit)

    def newest(self) -> i64:
        """The sequence of the message that came last."""
        raise NotImplementedError

    def count(self) -> i64:
        """All that is there: ready, in somebody's hands, or waiting for its next try."""
        raise NotImplementedError

    def waiting(self) -> i64:
        """What waits for its next try: neither ready nor in anybody's hands."""
        return 0

    def is_keeping_up(self) -> bool:
        """Some consumer could take more than there is."""
        raise NotImplementedError

    def hold(self, entry: Entry) -> None:
        """It is in a client's hands now."""
        self.unacked += 1
        self.unacked_bytes += entry.message.body_size

    # -- publishing ------------------------------------------------------------------------------------------------

    def publish(self, message: Message) -> i64:
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
            self.backing.remember(identity, now)
        elif self.durable:
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

    def expect_results(self) -> None:
        """Bound to a pipeline, which publishes an interrupted batch again under the same ids: each counts once."""
        if self.deduplication is None:
            self.deduplication = Deduplication.of_results()
            self.deduplication.recall(self.backing.recalled)

    # -- consumers -------------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        if self.single_active and self.consumers.active_one() is not None:
            consumer.active = False
        self.consumers.add(consumer)
        self.had_consumers = True
        if consumer.exclusive:
            self.exclusive_consumer = consumer
        self.node.events.consumer("created", consumer)
        self.tell_decorators()

    def remove_consumer(self, consumer: Consumer) -> None:
        was_active = consumer.active
        if not self.consumers.remove(consumer):
            return
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.single_active and was_active and not self.deleted:
            self._promote()
        self.last_used = self.node.now
        self.arm_idle()
        self.node.events.consumer("deleted", consumer)
        self.tell_decorators()

    def _promote(self) -> None:
        consumer = self.consumers.first()
        if consumer is not None:
            consumer.active = True
            self.drain()

    def is_unused_auto_delete(self) -> bool:
        return self.auto_delete and self.had_consumers and self.consumers.count == 0 and not self.deleted

    def tell_decorators(self) -> None:
        if self.decorators:
            self._consumers_can_take = self.consumers.is_any_able()
        for decorator in self.decorators:
            decorator.consumer_state_changed(self)

    def tell_of_ability(self) -> None:
        """Decorators hear when an attempt to deliver has changed whether any consumer can take more."""
        could_take = self._consumers_can_take
        self._consumers_can_take = self.consumers.is_any_able()
        if self._consumers_can_take != could_take:
            self.tell_decorators()

    # -- policy and time -------------------------------------------------------------------------------------------

    def apply_policy(self, policy: str | None, operator_policy: str | None, definition: dict[str, object]) -> None:
        self.policy = policy
        self.operator_policy = operator_policy
        self.effective_policy = definition
        expires = self.options.expires
        self.options = self._options()
        if self.options.expires != expires:
            # A queue that was idle before there was a rule has all of its time from now on.
            self.last_used = self.node.now
        self.arm_idle()

    def _options(self) -> QueueOptions:
        settings = self.node.settings
        shared = self.node.plain_options
        key = (self.type, settings.delivery_limit, settings.consumer_timeout_ms)
        # Most queues ask for nothing, and then there is nothing in which they differ.
        is_plain = not self.arguments and not self.effective_policy
        if is_plain and key in shared:
            return shared[key]
        options = QueueOptions(self.arguments, self.effective_policy, self.type, settings.delivery_limit)
        if options.consumer_timeout < 0:
            options.consumer_timeout = settings.consumer_timeout_ms
        if is_plain:
            shared[key] = options
        return options

    def arm_idle(self) -> None:
        """x-expires: start counting unless somebody consumes."""
        if self.options.expires >= 0 and self.consumers.count == 0 and not self.deleted:
            if self._idle_timer is None:
                self._idle_timer = IdleTimer(self)
            self.node.timers.schedule(self._idle_timer, self.last_used + self.options.expires)

    def restart(self) -> None:
        """After a failure: begin again with what the store still has, and without consumers."""
        self.unacked = 0
        self.unacked_bytes = 0
        if self.deduplication is not None:
            self.deduplication.forget_unsynced(self.node.store.synced)

    def _reopen(self) -> None:
        self.node.store.release(self)
        self.backing = self._open_backing()

    def close(self) -> None:
        """Deleted: nothing fires, nothing is handed out any more."""
        self.deleted = True
        if self._idle_timer is not None:
            self.node.timers.cancel(self._idle_timer)
            self._idle_timer = None
        for decorator in self.decorators:
            decorator.shutdown(self)
