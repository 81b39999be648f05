"""basic.publish once more, step by step, for publishes that somebody watches: journeys and the firehose.

The steps are those of publish.py, done by the same functions; here each is noted before the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.frames import body_of, content_frames, properties_span
from warren.amqp.properties import PropertyPeek, decode_properties, encode_properties, peek_properties
from warren.broker import checks, publish
from warren.broker.exchanges.base import Envelope
from warren.broker.explain import explain
from warren.broker.firehose import trace_publish
from warren.broker.journey import Awaited, Journey
from warren.broker.message import NEVER, Delivery, Message
from warren.broker.queue import Queue
from warren.broker.stream import Stream
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.channel import Channel
    from warren.broker.publish import Target
    from warren.broker.tracer import Tracer


def publish_watched(channel: Channel, arguments: bytes, content: bytes, body_size: i64, asked: bool) -> None:
    """`asked`: the message itself asks for its journey."""
    node = channel.connection.node
    journey: Journey | None = None
    if asked or (node.journeys.is_on() and node.journeys.wants(publish.names_in(arguments)[0])):
        journey = node.journeys.begin(channel.vhost.name, channel.connection.name, channel.user)
    tracer = node.tracer
    if tracer is not None:
        content = _with_context(channel, arguments, content, tracer)
    try:
        _walk(channel, arguments, content, body_size, journey)
    except AmqpError as error:
        if journey is not None:
            journey.note("refused", f"{error.code} {error.name}: {error.explanation}")
            journey.outcome = "refused"
        if tracer is not None:
            tracer.publish_ended(f"{error.code} {error.name}")
        raise
    if tracer is not None:
        tracer.publish_ended("")


def _with_context(channel: Channel, arguments: bytes, content: bytes, tracer: Tracer) -> bytes:
    """The content with the headers that the tracer wants in it."""
    start, end = properties_span(content)
    properties = decode_properties(content, start, end)
    exchange, key = publish.names_in(arguments)
    headers = tracer.publish_started(channel.vhost.name, exchange, key, properties.headers)
    if headers is None:
        return content
    properties.headers = headers
    frame_max = channel.connection.frame_max
    return content_frames(channel.number, encode_properties(properties), body_of(content), frame_max)


def _walk(channel: Channel, arguments: bytes, content: bytes, body_size: i64, journey: Journey | None) -> None:
    node = channel.connection.node
    if journey is not None:
        _note_arrival(channel, content, body_size, journey)
    if body_size > node.settings.max_message_size:
        checks.refuse_size(body_size, node.settings.max_message_size)
    target = publish.target_of(channel, arguments)
    message = Message(target.origin, content, channel.number, body_size)
    if journey is not None:
        _note_target(channel, target, body_size, journey)
    peek = peek_properties(content, publish.FLAGS_AT, publish.header_end(content))
    headers = content[peek.headers_start : peek.headers_end] if peek.headers_end > 0 else b""
    seqno = publish.read_properties(channel, message, peek, headers)
    if journey is not None:
        _note_properties(message, peek, seqno, journey)
    for key in message.origin.keys:
        checks.topic_permission(channel, target.exchange, key)
    if peek.user_id is not None:
        checks.user_id(channel, peek.user_id)
    queues = publish.route_to(channel, target, message, peek)
    if node.tracer is not None:
        node.tracer.routed([queue.name for queue in queues])
    if journey is not None:
        _note_route(channel, target, message, peek, queues, journey)
    target.exchange.published_in += 1
    target.exchange.published_out += len(queues)
    channel.counters.published += 1
    if channel.vhost.tracing:
        trace_publish(channel, message, queues)
    _deliver(channel, Delivery(message, channel, target.mandatory, seqno), queues, journey)


def _note_arrival(channel: Channel, content: bytes, body_size: i64, journey: Journey) -> None:
    node = channel.connection.node
    journey.body_size = body_size
    journey.note("reader", f"{len(content)} bytes of content on channel {channel.number} of {channel.connection.name}")
    interceptor = node.interceptors.get("basic.publish")
    if interceptor is not None:
        journey.note("interceptor", f"{type(interceptor).__name__} saw it first")
    else:
        journey.note("interceptor", "none")
    journey.note("size", f"a body of {body_size} bytes, at most {node.settings.max_message_size}")


def _note_target(channel: Channel, target: Target, body_size: i64, journey: Journey) -> None:
    exchange = target.exchange
    journey.exchange = exchange.name
    journey.routing_key = target.origin.keys[0]
    shown = exchange.name or "the default exchange"
    journey.note("permission", f"user '{channel.user}' may write to {shown} in vhost '{channel.vhost.name}'")
    journey.note("exchange", f"{shown} is a {exchange.type} exchange, and not internal")


def _note_properties(message: Message, peek: PropertyPeek, seqno: i64, journey: Journey) -> None:
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


def _note_route(
    channel: Channel, target: Target, message: Message, peek: PropertyPeek, queues: list[Queue], journey: Journey
) -> None:
    journey.queues = [queue.name for queue in queues]
    names = ", ".join(journey.queues)
    stage = journey.note("route", f"to {names}" if names else "to no queue")
    envelope = Envelope(message.origin.keys, message.properties().headers)
    envelope.correlation_id = peek.correlation_id or ""
    envelope.message_id = peek.message_id or ""
    began = journey.stopwatch()
    stage.steps = explain(channel.vhost.exchanges, target.exchange, envelope)
    journey.leave_out(began)


class _Before:
    """What a queue had counted before the message came."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.sequence: i64 = queue.next_sequence
        self.delivered: i64 = queue.counters.delivered + queue.counters.delivered_no_ack
        self.refused: i64 = queue.counters.rejected_publishes
        self.published: i64 = queue.counters.published
        self.length: i64 = queue.backing.length


def _deliver(channel: Channel, delivery: Delivery, queues: list[Queue], journey: Journey | None) -> None:
    if channel.transaction is not None:
        channel.transaction.publish(delivery, queues)
        if journey is not None:
            journey.note("transaction", "it waits for tx.commit")
            journey.outcome = "in a transaction"
        return
    before = [_Before(queue) for queue in queues] if journey is not None else []
    publish.deliver_to_queues(channel, delivery, queues)
    if journey is not None:
        for each in before:
            journey.note("queue", _fate(each))
        _note_answer(channel, delivery, before, journey)


def _fate(before: _Before) -> str:
    queue = before.queue
    counters = queue.counters
    name = f"'{queue.name}'"
    if counters.rejected_publishes > before.refused:
        limits = f"max-length {queue.options.max_length}, max-length-bytes {queue.options.max_bytes}"
        return f"{name} is full ({limits}) and refused it ({queue.options.overflow})"
    if counters.published == before.published:
        return f"{name} took it for a duplicate"
    if isinstance(queue, Stream):
        return f"stream {name} took it at offset {queue.log.next_offset - 1}"
    if counters.delivered + counters.delivered_no_ack > before.delivered and queue.backing.length <= before.length:
        return f"{name} handed it straight to a consumer"
    if queue.backing.length <= before.length and queue.options.has_length_limit:
        return f"{name} took it as number {before.sequence}, and dropped its head: it may hold no more"
    return f"{name} took it as number {before.sequence}, behind {before.length} others"


def _note_answer(channel: Channel, delivery: Delivery, before: list[_Before], journey: Journey) -> None:
    node = channel.connection.node
    if not before:
        is_returned = delivery.mandatory
        journey.outcome = "returned" if is_returned else "dropped"
        journey.note("answer", "basic.return, 312 NO_ROUTE" if is_returned else "no queue, and not mandatory: dropped")
    is_refused = any(each.queue.counters.rejected_publishes > each.refused for each in before)
    is_persistent = delivery.message.persistent
    is_durable = any(each.queue.durable and (is_persistent or each.queue.keeps_all) for each in before)
    if is_durable:
        journey.note("store", f"position {node.store.position} of the log, on disk up to {node.store.synced}")
    if before and not journey.outcome:
        journey.outcome = "refused" if is_refused else "routed"
    if delivery.seqno == 0:
        journey.note("confirm", "none was asked for")
    elif is_refused:
        journey.note("confirm", f"basic.nack for number {delivery.seqno}")
    elif is_durable and node.store.position > node.store.synced:
        journey.outcome = "waits for the disk"
        node.journeys.awaiting.append(Awaited(node.store.position, journey))
    else:
        journey.note("confirm", f"basic.ack for number {delivery.seqno}")
