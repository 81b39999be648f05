"""What a channel in confirm mode or in a transaction knows of its publishes until they are answered for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.broker.queue.awaiting import Awaiting
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue
from warren.broker.session.observer import Delivery

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel


class AwaitingAnswer(Awaiting):
    """The answer to a publish or a commit, by its number on the channel."""

    def __init__(self, position: i64, channel: Channel, seqno: i64) -> None:
        super().__init__(position)
        self.channel = channel
        self.seqno: i64 = seqno

    def reached(self) -> None:
        self.channel.sync_reached(self.seqno)


class Transaction:
    """As a channel knows it; transaction.py has the rest."""

    def __init__(self) -> None:
        # While a commit waits for the disk, the sequence numbers that it waits for.
        self.pending: dict[int, list[Queue]] = {}
        self.committing = False

    def next_seqno(self) -> i64:
        raise NotImplementedError

    def publish(self, delivery: Delivery) -> None:
        raise NotImplementedError

    def settle(self, tag: i64, entry: Entry, outcome: int) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def rollback(self) -> None:
        raise NotImplementedError

    def confirmed(self, seqno: i64) -> None:
        raise NotImplementedError

    def refused(self, seqno: i64) -> None:
        raise NotImplementedError

    def queue_failed(self, queue: Queue) -> None:
        raise NotImplementedError

    def sync_reached(self, seqno: i64) -> None:
        raise NotImplementedError

    def abandon(self) -> list[Entry]:
        """The channel closes: what was acked but not committed goes back with the rest."""
        raise NotImplementedError
