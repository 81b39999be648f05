"""What clients say about messages they hold: ack, nack, reject, recover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Budget
from warren.broker.queue.held import Return, Settlement
from warren.errors import PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.session.answers import Transaction
    from warren.broker.session.channel import Channel

ACK: Final = 0
REJECT: Final = 1
REQUEUE: Final = 2


def ack_one(channel: Channel, tag: i64) -> None:
    """The hot case: one tag, no transaction."""
    entry = channel.unacked.take(tag)
    if entry is None:
        raise _unknown(tag)
    channel.counters.acked += 1
    queue = entry.queue
    if not entry.is_gone():
        queue.node.monitor.ack(entry)
        if has_use_for_consumers(queue):
            channel.connection.drain_soon(queue)
    if channel.prefetch != 0:
        channel.drain_soon()


def has_use_for_consumers(queue: Queue) -> bool:
    """Whether a consumer that can take again makes a difference. Decorators hear of it also where nothing waits."""
    return queue.backing.length > 0 or len(queue.decorators) > 0


def settle(channel: Channel, tag: i64, multiple: bool, outcome: int) -> None:
    if not multiple and channel.transaction is None:
        if outcome == ACK:
            ack_one(channel, tag)
        else:
            _settle_one(channel, tag, outcome)
        return
    unacked = channel.unacked
    # As RabbitMQ does: the very tag must be outstanding, not only some below it.
    if not unacked.has(tag) and (tag != 0 or not multiple):
        raise _unknown(tag)
    last = unacked.next - 1 if tag == 0 else tag
    first = unacked.low if multiple else tag
    node = channel.connection.node
    errand: Settlement
    if channel.transaction is not None:
        errand = TransactionSettlement(channel, channel.transaction, first, last, outcome)
    elif outcome == REQUEUE:
        returning = ClientReturn(channel, first, last, b"")
        returning.failed_there = True
        errand = returning
    else:
        errand = ClientSettlement(channel, first, last, outcome)
    node.errands.begin(errand, channel.connection)


def _settle_one(channel: Channel, tag: i64, outcome: int) -> None:
    entry = channel.unacked.take(tag)
    if entry is None:
        raise _unknown(tag)
    apply(entry, outcome)
    if channel.prefetch != 0:
        channel.drain_soon()


class ClientSettlement(Settlement):
    """Acked or rejected up to a tag."""

    def __init__(self, channel: Channel, first: i64, last: i64, outcome: int) -> None:
        super().__init__(channel.connection.node, channel.unacked, first, last)
        self._channel = channel
        self._outcome = outcome
        self._rejected_in: Queue | None = None
        # It is settled, also if the channel should close before this is done.
        channel.settled_to = self.last

    def settle(self, tag: i64, entry: Entry) -> i64:
        channel = self._channel
        if self._outcome == ACK:
            channel.counters.acked += 1
        if not self.is_gone(entry):
            queue = entry.queue
            if self._outcome == ACK:
                self.yard.monitor.ack(entry)
            else:
                self._rejected_in = queue
                self.yard.monitor.reject(entry)
            if has_use_for_consumers(queue):
                channel.connection.drain_soon(queue)
        return 1

    def has_to_wait(self) -> bool:
        """Letters leave the line no faster than it is worked off, so they should not come faster."""
        return self._rejected_in is not None and self.yard.dead_letters.is_crowded(self._rejected_in)

    def pause(self) -> None:
        channel = self._channel
        if channel.prefetch != 0 and not channel.is_closed:
            channel.drain_soon()

    def done(self) -> None:
        self._channel.settled_to = 0

    def failed(self) -> bool:
        self.done()
        return True


class TransactionSettlement(Settlement):
    """The same until the commit, which decides about it."""

    def __init__(self, channel: Channel, transaction: Transaction, first: i64, last: i64, outcome: int) -> None:
        super().__init__(channel.connection.node, channel.unacked, first, last)
        self._channel = channel
        self._transaction = transaction
        self._outcome = outcome

    def walk(self, budget: Budget) -> bool:
        # What a channel has not committed when it closes goes back with the rest.
        return self._channel.is_closed or super().walk(budget)

    def settle(self, tag: i64, entry: Entry) -> i64:
        self._transaction.settle(tag, entry, self._outcome)
        return 1

    def done(self) -> None:
        pass


class ClientReturn(Return):
    """Given back by a channel that goes on."""

    def __init__(self, channel: Channel, first: i64, last: i64, answer: bytes) -> None:
        connection = channel.connection
        super().__init__(connection.node, channel.unacked, first, last, [], connection, answer)
        self._channel = channel
        channel.settled_to = self.last

    def done(self) -> None:
        self._channel.settled_to = 0
        super().done()
        if self._channel.prefetch != 0:
            self._channel.drain_soon()

    def failed(self) -> bool:
        # What is left of it goes back with the channel.
        self._channel.settled_to = 0
        return super().failed()


def signed(tag: int) -> i64:
    """Tags are unsigned on the wire. Those beyond the range of i64 become negative, which no delivery's tag is."""
    return tag if tag < 1 << 63 else tag - (1 << 64)


def _unknown(tag: i64) -> PreconditionFailed:
    shown = int(tag)
    return PreconditionFailed(f"unknown delivery tag {shown if shown >= 0 else shown + (1 << 64)}")


def apply(entry: Entry, outcome: int) -> None:
    if entry.is_gone():
        return
    queue = entry.queue
    monitor = queue.node.monitor
    if outcome == ACK:
        monitor.ack(entry)
    elif outcome == REJECT:
        monitor.reject(entry)
    else:
        entry.failed = True
        monitor.requeue(queue, [entry])
    if has_use_for_consumers(queue):
        monitor.drain(queue)


def recover(channel: Channel, answer: bytes) -> None:
    """Everything unacked on the channel goes back, whoever holds it."""
    node = channel.connection.node
    node.errands.begin(ClientReturn(channel, 0, channel.unacked.next - 1, answer), channel.connection)
