"""tx: publishes are routed when they come and delivered at commit; acks wait beside them; rollback undoes both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp.constants import TX_COMMIT
from warren.amqp.methods import TxCommitOk, TxRollbackOk
from warren.broker.consume import settle
from warren.broker.publish.burial import bury_dead_letters
from warren.broker.publish.republish import WIDE, FanOut
from warren.broker.publish.routed import deliver_routed, fan_out_of
from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Budget, Errand
from warren.broker.session.answers import Transaction
from warren.broker.session.observer import Delivery
from warren.errors import PreconditionFailed, SoftError

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.session.channel import Channel

# Bytes of memory that a message of a transaction takes besides its body.
_EACH: Final[i64] = 512
# What it costs to deliver one, by itself and for each queue.
_PUBLISH_UNITS: Final[i64] = 2


class ChannelTransaction(Transaction):
    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel
        self._publishes: list[Delivery] = []
        # What they take, bodies and a little for each.
        self._held: i64 = 0
        self._settlements: list[tuple[int, Entry, int]] = []
        self._refused = False
        # Some of a commit has still to happen.
        self._is_underway = False
        self._seqno: i64 = 0

    def next_seqno(self) -> i64:
        self._seqno += 1
        return self._seqno

    def publish(self, delivery: Delivery) -> None:
        self._publishes.append(delivery)
        if delivery.observer is not None:
            delivery.observer.held()
        size = delivery.message.body_size + _EACH
        self._held += size
        self.channel.connection.count_unfinished(size)

    def _take_publishes(self) -> list[Delivery]:
        publishes, self._publishes = self._publishes, []
        self.channel.connection.count_unfinished(-self._held)
        self._held = 0
        return publishes

    def settle(self, tag: i64, entry: Entry, outcome: int) -> None:
        self._settlements.append((tag, entry, outcome))
        # Its place in the channel's prefetch is free at the commit, not before.
        if entry.consumer is not None:
            self.channel.unacked.consumed += 1

    def release(self, entry: Entry) -> None:
        """It is decided about: the place that it had in the channel's prefetch is free."""
        if entry.consumer is not None:
            self.channel.unacked.consumed -= 1

    def commit(self) -> None:
        """Deliver, settle, and answer once every message is where a confirm would say it is."""
        channel = self.channel
        publishes = self._take_publishes()
        settlements, self._settlements = self._settlements, []
        self._refused = False
        self.committing = True
        self._is_underway = True
        channel.connection.node.errands.begin(Commit(self, publishes, settlements), channel.connection)

    def committed(self, has_settled: bool) -> None:
        """All of it has happened, and is to become durable."""
        self._is_underway = False
        channel = self.channel
        node = channel.connection.node
        bury_dead_letters(node, channel.connection)
        if has_settled and node.store.position > node.store.synced:
            channel.await_sync(self.next_seqno(), [])
        self._finish()

    def confirmed(self, seqno: i64) -> None:
        self.pending.pop(seqno, None)

    def refused(self, seqno: i64) -> None:
        self.pending.pop(seqno, None)
        self._refused = True

    def queue_failed(self, queue: Queue) -> None:
        for queues in self.pending.values():
            if queue in queues:
                self._refused = True
        for _, entry, _ in self._settlements:
            if entry.queue is queue:
                entry.lost = True

    def sync_reached(self, seqno: i64) -> None:
        self.pending.pop(seqno, None)
        self._finish()

    def _finish(self) -> None:
        if self.pending or self._is_underway or not self.committing:
            return
        self.committing = False
        if self._refused:
            raise PreconditionFailed("partial tx completion")
        self.channel.answer(TxCommitOk())

    def rollback(self) -> None:
        self._abandon_publishes("rolled back")
        connection = self.channel.connection
        connection.node.errands.begin(Rollback(self), connection)

    def put_back(self) -> bool:
        """The last that was settled is held again; False when there is none."""
        if not self._settlements:
            return False
        tag, entry, _ = self._settlements.pop()
        self.release(entry)
        self.channel.unacked.put_back(tag, entry)
        return True

    def _abandon_publishes(self, how: str) -> None:
        for delivery in self._take_publishes():
            if delivery.observer is not None:
                delivery.observer.abandoned(how)

    def abandon(self) -> list[Entry]:
        """The channel closes: what was acked but not committed goes back with the rest."""
        self._abandon_publishes("never committed")
        settlements, self._settlements = self._settlements, []
        return [entry for _, entry, _ in settlements]


class Commit(Errand):
    """In the order in which it came: first what was published, then what was settled. Others see it half done, and a
    channel that closes meanwhile changes nothing about it.
    """

    def __init__(
        self, transaction: ChannelTransaction, publishes: list[Delivery], settlements: list[tuple[int, Entry, int]]
    ) -> None:
        super().__init__()
        self._transaction = transaction
        # Last first: what is done need not be kept.
        self._publishes = publishes
        self._publishes.reverse()
        self._settlements = settlements
        self._settlements.reverse()
        self._has_settled = len(settlements) > 0
        self._wide: FanOut | None = None
        self._failures: i64 = transaction.channel.connection.node.monitor.failures

    def step(self, budget: Budget) -> bool:
        channel = self._transaction.channel
        while True:
            if self._wide is not None:
                if not self._wide.step(budget):
                    return False
                self._wide = None
            if not self._publishes and not self._settlements:
                break
            if budget.left <= 0:
                return False
            if self._publishes:
                budget.spend(self._publish(channel, self._publishes.pop()))
            else:
                budget.spend(self._settle(self._settlements.pop()))
        if self._has_settled and channel.prefetch != 0 and not channel.is_closed:
            channel.drain_soon()
        try:
            self._transaction.committed(self._has_settled)
        except SoftError as error:
            channel.fail(error, TX_COMMIT)
        return True

    def _publish(self, channel: Channel, delivery: Delivery) -> i64:
        if delivery.observer is not None:
            delivery.observer.committed()
        if len(delivery.queues) > WIDE:
            self._wide = fan_out_of(channel, delivery)
        else:
            deliver_routed(channel, delivery)
        return _PUBLISH_UNITS * (1 + min(len(delivery.queues), WIDE))

    def _settle(self, settlement: tuple[int, Entry, int]) -> i64:
        _, entry, outcome = settlement
        self._transaction.release(entry)
        if entry.queue.failed_at <= self._failures:
            settle.apply(entry, outcome)
        return 1


class Rollback(Errand):
    def __init__(self, transaction: ChannelTransaction) -> None:
        super().__init__()
        self._transaction = transaction

    def step(self, budget: Budget) -> bool:
        while budget.left > 0:
            if not self._transaction.put_back():
                channel = self._transaction.channel
                if not channel.is_closed:
                    channel.answer(TxRollbackOk())
                return True
            budget.spend(1)
        return False
