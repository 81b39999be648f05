"""What clients say about messages they hold: ack, nack, reject, recover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry
from warren.errors import PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
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
    if outcome == ACK and not multiple and channel.transaction is None:
        ack_one(channel, tag)
        return
    tags = _tags(channel, tag, multiple)
    if channel.transaction is not None:
        for one in tags:
            held = channel.unacked.take(one)
            if held is not None:
                channel.transaction.settle(one, held, outcome)
        return
    entries: list[Entry] = []
    for one in tags:
        entry = channel.unacked.take(one)
        if entry is not None:
            entries.append(entry)
    if outcome == ACK:
        channel.counters.acked += len(entries)
    settle_entries(channel, entries, outcome)
    if channel.prefetch != 0:
        channel.drain_soon()


def _tags(channel: Channel, tag: i64, multiple: bool) -> list[int]:
    """The outstanding tags that are meant; one that is not outstanding is an error."""
    unacked = channel.unacked
    if not multiple:
        if not unacked.has(tag):
            raise _unknown(tag)
        return [tag]
    if tag == 0:
        return unacked.tags()
    # As RabbitMQ does: the very tag must be outstanding, not only some below it.
    if not unacked.has(tag):
        raise _unknown(tag)
    return unacked.tags_up_to(tag)


def signed(tag: int) -> i64:
    """Tags are unsigned on the wire. Those beyond the range of i64 become negative, which no delivery's tag is."""
    return tag if tag < 1 << 63 else tag - (1 << 64)


def _unknown(tag: i64) -> PreconditionFailed:
    shown = int(tag)
    return PreconditionFailed(f"unknown delivery tag {shown if shown >= 0 else shown + (1 << 64)}")


def settle_entries(channel: Channel, entries: list[Entry], outcome: int) -> None:
    if outcome == REQUEUE:
        for entry in entries:
            entry.failed = True
        channel.connection.node.monitor.requeue_all(entries)
        return
    for entry in entries:
        apply(entry, outcome)
        if has_use_for_consumers(entry.queue):
            channel.connection.drain_soon(entry.queue)


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


def recover(channel: Channel) -> None:
    """Everything unacked on the channel goes back, whoever holds it."""
    channel.connection.node.monitor.requeue_all(channel.unacked.take_all())
