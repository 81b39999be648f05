"""tx: publishes are routed when they come and delivered at commit; acks wait beside them; rollback undoes both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp import replies
from warren.broker.consume import settle
from warren.broker.publish import publish
from warren.broker.publish.burial import bury_dead_letters
from warren.broker.queue.entry import Entry
from warren.broker.session.answers import Transaction
from warren.broker.session.observer import Delivery
from warren.errors import PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.session.channel import Channel

# Bytes of memory that a message of a transaction takes besides its body.
_EACH: Final[i64] = 512


class ChannelTransaction(Transaction):
    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel
        self._publishes: list[Delivery] = []
        # What they take, bodies and a little for each.
        self._held: i64 = 0
        self._settlements: list[tuple[int, Entry, int]] = []
        self._refused = False
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

    def _take_settlements(self) -> list[tuple[int, Entry, int]]:
        settlements, self._settlements = self._settlements, []
        for _, entry, _ in settlements:
            if entry.consumer is not None:
                self.channel.unacked.consumed -= 1
        return settlements

    def commit(self) -> None:
        """Deliver, settle, and answer once every message is where a confirm would say it is."""
        channel = self.channel
        publishes = self._take_publishes()
        settlements = self._take_settlements()
        self._refused = False
        self.committing = True
        for delivery in publishes:
            if delivery.observer is not None:
                delivery.observer.committed()
            publish.deliver_routed(channel, delivery)
        for _, entry, outcome in settlements:
            settle.apply(entry, outcome)
        if settlements and channel.prefetch != 0:
            channel.drain_soon()
        bury_dead_letters(channel.connection.node)
        store = channel.connection.node.store
        if settlements and store.position > store.synced:
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
        if self.pending or not self.committing:
            return
        self.committing = False
        if self._refused:
            raise PreconditionFailed("partial tx completion")
        self.channel.connection.send(replies.tx_commit_ok(self.channel.number))

    def rollback(self) -> None:
        self._abandon_publishes("rolled back")
        for tag, entry, _ in self._take_settlements():
            self.channel.unacked.put_back(tag, entry)
        self.channel.connection.send(replies.tx_rollback_ok(self.channel.number))

    def _abandon_publishes(self, how: str) -> None:
        for delivery in self._take_publishes():
            if delivery.observer is not None:
                delivery.observer.abandoned(how)

    def abandon(self) -> list[Entry]:
        """The channel closes: what was acked but not committed goes back with the rest."""
        self._abandon_publishes("never committed")
        return [entry for _, entry, _ in self._settlements]
