"""What a journey tells of each stage of a publish: the texts, and the facts that they are made of.

Nothing here decides anything about a message; watched.py and rehearsal.py say when a stage is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.properties import PropertyPeek
from warren.broker import checks
from warren.broker.exchanges.base import Envelope, Exchange
from warren.broker.explain import explain
from warren.broker.journey import Awaited, Journey
from warren.broker.message import NEVER, Delivery, Message
from warren.broker.queue import Queue
from warren.broker.schedule import Schedule
from warren.broker.stream import Stream

if TYPE_CHECKING:
    from warren.broker.channel import Channel
    from warren.broker.publish import Target
    from warren.broker.vhost import VHost


def note_arrival(channel: Channel, content: bytes, body_size: i64, journey: Journey) -> None:
    where = f"on channel {channel.number} of {channel.connection.name}"
    pieces = ", in more than one read" if channel.arrival >= 0 else ""
    journey.body_size = body_size
    journey.note("reader", f"{len(content)} bytes of content {where}{pieces}")


def note_size(channel: Channel, body_size: i64, journey: Journey) -> None:
    limit = channel.connection.node.settings.max_message_size
    journey.note("size", f"a body of {body_size} bytes, at most {limit}")


def check_target(vhost: VHost, user: str, name: str, journey: Journey) -> Exchange:
    """Permission, existence, and that clients may publish to it; each is noted once it holds."""
    shown = name or "the default exchange"
    vhost.node.access.check(user, vhost.name, "exchange", name, "write")
    journey.note("permission", f"user '{user}' may write to {shown} in vhost '{vhost.name}'")
    exchange = vhost.exchange(name)
    if exchange.internal:
        checks.refuse_internal(exchange)
    journey.note("exchange", f"{shown} is a {exchange.type} exchange, and not internal")
    return exchange


def note_topic_permission(user: str, exchange: Exchange, keys: list[str], journey: Journey) -> None:
    if exchange.type == "topic":
        shown = " and ".join([f"'{key}'" for key in keys])
        journey.note("topic permission", f"user '{user}' may write with the key {shown}")


def note_properties(message: Message, peek: PropertyPeek, seqno: i64, journey: Journey) -> None:
    facts = ["persistent" if message.persistent else "transient"]
    if message.ttl != NEVER:
        facts.append(f"expires after {message.ttl} ms")
    if message.priority > 0:
        facts.append(f"priority {message.priority}")
    if len(message.origin.keys) > 1:
        facts.append(f"{len(message.origin.keys) - 1} more keys from CC and BCC")
    if seqno > 0:
        facts.append(f"number {seqno} of its channel")
    journey.message_id = peek.message_id or ""
    journey.note("properties", ", ".join(facts))


def note_route(
    channel: Channel, target: Target, message: Message, peek: PropertyPeek, queues: list[Queue], journey: Journey
) -> None:
    journey.queues = [queue.name for queue in queues if not isinstance(queue, Schedule)]
    names = ", ".join(journey.queues)
    text = f"to {names}" if names else ("to no queue yet" if queues else "to no queue")
    stage = journey.note("route", text)
    envelope = Envelope(message.origin.keys, message.properties().headers)
    envelope.correlation_id = peek.correlation_id or ""
    envelope.message_id = peek.message_id or ""
    began = journey.stopwatch()
    stage.steps = explain(channel.vhost.exchanges, target.exchange, envelope)
    journey.leave_out(began)


def limits_of(queue: Queue) -> list[str]:
    """What may happen to any message of this queue."""
    options = queue.options
    facts = []
    if queue.keeps_all:
        return [f"keeps {options.max_bytes} bytes"] if options.max_bytes >= 0 else []
    if options.max_length >= 0:
        facts.append(f"at most {options.max_length} messages ({options.overflow})")
    if options.max_bytes >= 0:
        facts.append(f"at most {options.max_bytes} bytes ({options.overflow})")
    if options.ttl >= 0:
        facts.append(f"messages expire after {options.ttl} ms")
    if options.dead_letter_exchange is not None:
        facts.append(f"dead letters go to '{options.dead_letter_exchange or 'the default exchange'}'")
    return facts


class Before:
    """What a queue had counted before the message came."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.sequence: i64 = queue.next_sequence
        self.delivered: i64 = queue.counters.delivered + queue.counters.delivered_no_ack
        self.refused: i64 = queue.counters.rejected_publishes
        self.published: i64 = queue.counters.published
        self.length: i64 = queue.backing.length

    def is_refused(self) -> bool:
        return self.queue.counters.rejected_publishes > self.refused

    def fate(self) -> str:
        """What the queue did with it, and the limits that it did it under."""
        limits = limits_of(self.queue)
        return "; ".join([self._fate(), *limits])

    def _fate(self) -> str:
        queue = self.queue
        counters = queue.counters
        name = f"'{queue.name}'"
        if self.is_refused():
            return f"{name} is full and refused it"
        if isinstance(queue, Schedule):
            return f"it waits in the schedule of exchange {name}, as number {self.sequence}"
        if counters.published == self.published:
            return f"{name} took it for a duplicate"
        if isinstance(queue, Stream):
            return f"stream {name} took it at offset {queue.log.next_offset - 1}"
        length = queue.backing.length
        if counters.delivered + counters.delivered_no_ack > self.delivered and length <= self.length:
            return f"{name} handed it straight to a consumer"
        if length <= self.length and queue.options.has_length_limit:
            return f"{name} took it as number {self.sequence}, and dropped its head: it may hold no more"
        return f"{name} took it as number {self.sequence}, behind {self.length} others"


def note_answer(
    channel: Channel, delivery: Delivery, queues: list[Queue], before: list[Before], journey: Journey
) -> None:
    """The last of it: where it is in the log, and what its publisher hears."""
    node = channel.connection.node
    if not before:
        # Queues that were deleted between a transaction's publish and its commit leave it without a return.
        is_returned = delivery.mandatory and not queues
        journey.outcome = "returned" if is_returned else "dropped"
        journey.note("answer", "basic.return, 312 NO_ROUTE" if is_returned else "no queue, and not mandatory: dropped")
    is_refused = any(each.is_refused() for each in before)
    is_persistent = delivery.message.persistent
    is_durable = any(each.queue.durable and (is_persistent or each.queue.keeps_all) for each in before)
    if is_durable and node.store.position == 0:
        journey.note("store", "in memory only: this broker has no data folder")
    elif is_durable:
        journey.note("store", f"position {node.store.position} of the log, on disk up to {node.store.synced}")
    if before and not journey.outcome:
        routed = "scheduled" if isinstance(before[0].queue, Schedule) else "routed"
        journey.outcome = "refused" if is_refused else routed
    if delivery.seqno == 0:
        journey.note("confirm", "none was asked for")
    elif is_refused:
        journey.note("confirm", f"basic.nack for number {delivery.seqno}")
    elif is_durable and node.store.position > node.store.synced:
        node.journeys.awaiting.append(Awaited(node.store.position, journey, journey.outcome))
        journey.outcome = "waits for the disk"
    else:
        journey.note("confirm", f"basic.ack for number {delivery.seqno}")
