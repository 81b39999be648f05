"""tx: publishes are routed when they come and delivered at commit; acks wait beside them; rollback undoes both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp import replies
from warren.broker import publish, settle
from warren.broker.message import Delivery, Entry
from warren.errors import PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.channel import Channel
    from warren.broker.journey import Journey
    from warren.broker.queue import Queue


class Transaction:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._publishes: list[tuple[Delivery, list[Queue]]] = []
        self._settlements: list[tuple[int, Entry, int]] = []
        # While a commit waits for the disk, the sequence numbers that it waits for.
        self.pending: dict[int, list[Queue]] = {}
        self.committing = False
        self._refused = False
        self._seqno: i64 = 0
        # By their numbers, the publishes that are traced.
        self.journeys: dict[int, Journey] = {}

    def next_seqno(self) -> i64:
        self._seqno += 1
        return self._seqno

    def publish(self, delivery: Delivery, queues: list[Queue]) -> None:
        self._publishes.append((delivery, queues))

    def take(self) -> list[tuple[Delivery, list[Queue]]]:
        """What was checked and routed since the last commit; from now on it is the caller's to deliver."""
        publishes, self._publishes = self._publishes, []
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
        publishes = self.take()
        settlements = self._take_settlements()
        self._refused = False
        self.committing = True
        journeys, self.journeys = self.journeys, {}
        for delivery, queues in publishes:
            journey = journeys.get(delivery.seqno) if journeys else None
            if journey is not None:
                channel.connection.node.watch_commit(channel, delivery, queues, journey)
            else:
                publish.deliver_to_queues(channel, delivery, queues)
        for _, entry, outcome in settlements:
            settle.apply(entry, outcome)
        if settlements and channel.prefetch != 0:
            channel.drain_soon()
        channel.connection.node.dead_letters.run()
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
        self._publishes = []
        self._end_journeys("rolled back")
        for tag, entry, _ in self._take_settlements():
            self.channel.unacked.put_back(tag, entry)
        self.channel.connection.send(replies.tx_rollback_ok(self.channel.number))

    def _end_journeys(self, outcome: str) -> None:
        for journey in self.journeys.values():
            journey.note("transaction", outcome)
            journey.outcome = outcome
        self.journeys = {}

    def abandon(self) -> list[Entry]:
        """The channel closes: what was acked but not committed goes back with the rest."""
        self._end_journeys("never committed")
        return [entry for _, entry, _ in self._settlements]
