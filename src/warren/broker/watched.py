"""basic.publish once more, step by step, for publishes that somebody watches: journeys, the firehose and tracers.

The steps are those of publish.py, done by the same functions; here each is noted (stages.py) before the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.frames import body_of, content_frames, properties_span
from warren.amqp.properties import decode_properties, encode_properties, peek_properties
from warren.broker import checks, publish, stages
from warren.broker.firehose import trace_publish
from warren.broker.interceptors import intercept_publish
from warren.broker.journey import HEADER_BYTES, Journey
from warren.broker.message import Delivery, Message
from warren.broker.monitor import Monitor
from warren.broker.queue import Queue
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.channel import Channel
    from warren.broker.tracer import Tracer


def publish_watched(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> None:
    node = channel.connection.node
    if _asks(content) or _is_wanted(channel, arguments):
        journey = _begin(channel, arguments, content, body_size)
        seen_by = node.interceptors.get("basic.publish")
        if seen_by is not None:
            journey.note("interceptor", f"{type(seen_by).__name__} asked for the journey")
    _publish(channel, arguments, content, body_size)


def publish_intercepted(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> None:
    """Where an extension sees publishes first. A journey begins before that: it may end there."""
    node = channel.connection.node
    interceptor = node.interceptors["basic.publish"]
    if _asks(content) or _is_wanted(channel, arguments):
        _begin(channel, arguments, content, body_size)
    arguments, content, body_size = intercept_publish(channel, arguments, content)
    journey = channel.journey
    if journey is not None:
        journey.exchange, journey.routing_key = publish.names_in(arguments)
        journey.note("interceptor", f"{type(interceptor).__name__} let it pass with a body of {body_size} bytes")
    if journey is not None or node.is_watched:
        _publish(channel, arguments, content, body_size)
    else:
        publish.publish(channel, arguments, content, body_size)


def note_refusal(channel: Channel, arguments: bytes, content: bytes, body_size: i64, error: AmqpError) -> None:
    """The end of a publish. One that asks for its journey may be refused before anybody has looked whether it does:
    then the checks are asked once more, and those that held are noted."""
    journey = channel.journey
    channel.journey = None
    if journey is None and _asks(content):
        journey = _begin(channel, arguments, content, body_size)
        channel.journey = None
        _check_again(channel, body_size, journey)
    if journey is not None:
        journey.refuse(error)


def commit_watched(channel: Channel, delivery: Delivery, queues: list[Queue], journey: Journey) -> None:
    journey.note("transaction", "committed")
    journey.outcome = ""
    _deliver(channel, delivery, queues, journey)


def _is_wanted(channel: Channel, arguments: bytes) -> bool:
    journeys = channel.connection.node.journeys
    return journeys.is_on() and journeys.wants(publish.names_in(arguments)[0])


def _asks(content: bytes) -> bool:
    """The message itself asks for its journey."""
    return content.find(HEADER_BYTES, 0, int(publish.header_end(content))) >= 0


def _arrival(channel: Channel) -> i64:
    """When the first frame of the publish was read."""
    return channel.arrival if channel.arrival >= 0 else channel.connection.node.host.arrival()


def _begin(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> Journey:
    node = channel.connection.node
    journey = node.journeys.begin(channel.vhost.name, channel.connection.name, channel.user, _arrival(channel))
    journey.exchange, journey.routing_key = publish.names_in(arguments)
    channel.journey = journey
    stages.note_arrival(channel, content, body_size, journey)
    if not node.intercepts_publish:
        journey.note("interceptor", "none")
    return journey


def _check_again(channel: Channel, body_size: i64, journey: Journey) -> None:
    if body_size > channel.connection.node.settings.max_message_size:
        return
    stages.note_size(channel, body_size, journey)
    try:
        stages.check_target(channel.vhost, channel.user, journey.exchange, journey)
    except AmqpError:
        # It is what the publish was refused for, and noted as such.
        return


def _publish(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> None:
    tracer = channel.connection.node.tracer
    if tracer is not None:
        content = _with_context(channel, arguments, content, tracer)
    try:
        _walk(channel, arguments, content, body_size, channel.journey)
    except AmqpError as error:
        if tracer is not None:
            tracer.publish_ended(f"{error.code} {error.name}")
        raise
    channel.journey = None
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
    if body_size > node.settings.max_message_size:
        checks.refuse_size(body_size, node.settings.max_message_size)
    if journey is not None:
        _check_again(channel, body_size, journey)
    target = publish.target_of(channel, arguments)
    message = Message(target.origin, content, channel.number, body_size)
    peek = peek_properties(content, publish.FLAGS_AT, publish.header_end(content))
    headers = content[peek.headers_start : peek.headers_end] if peek.headers_end > 0 else b""
    seqno = publish.read_properties(channel, message, peek, headers)
    if journey is not None:
        stages.note_properties(message, peek, seqno, journey)
    for key in message.origin.keys:
        checks.topic_permission(channel, target.exchange, key)
    if journey is not None:
        stages.note_topic_permission(channel.user, target.exchange, message.origin.keys, journey)
    if peek.user_id is not None:
        checks.user_id(channel, peek.user_id)
        if journey is not None:
            journey.note("user id", f"'{peek.user_id}' may be what user '{channel.user}' calls itself")
    queues = publish.route_to(channel, target, message, peek)
    if node.tracer is not None:
        node.tracer.routed([queue.name for queue in queues])
    if journey is not None:
        stages.note_route(channel, target, message, peek, queues, journey)
    target.exchange.published_in += 1
    target.exchange.published_out += len(queues)
    channel.counters.published += 1
    node.counters.sizes.count(body_size)
    if channel.vhost.tracing:
        trace_publish(channel, message, queues)
    delivery = Delivery(message, channel, target.mandatory, seqno)
    if node.latency.wanted > 0 and channel.transaction is None:
        node.latency.follow(queues, _arrival(channel))
    if channel.transaction is not None:
        channel.transaction.publish(delivery, queues)
        if journey is not None:
            journey.note("transaction", "it waits for tx.commit")
            journey.outcome = "in a transaction"
            channel.transaction.journeys[seqno] = journey
    elif journey is None:
        publish.deliver_to_queues(channel, delivery, queues)
    else:
        _deliver(channel, delivery, queues, journey)


class _NotingMonitor(Monitor):
    """Stands in for the node's own while one traced message goes into its queues, and notes what each does."""

    def __init__(self, inner: Monitor, journey: Journey) -> None:
        super().__init__(inner.node)
        self.inner = inner
        self.journey = journey
        self.before: list[stages.Before] = []

    def publish(self, queue: Queue, delivery: Delivery) -> bool:
        before = stages.Before(queue)
        self.before.append(before)
        is_accepted = self.inner.publish(queue, delivery)
        self.journey.note("queue", before.fate())
        return is_accepted


def _deliver(channel: Channel, delivery: Delivery, queues: list[Queue], journey: Journey) -> None:
    node = channel.connection.node
    own = node.monitor
    noting = _NotingMonitor(own, journey)
    node.monitor = noting
    try:
        publish.deliver_to_queues(channel, delivery, queues)
    finally:
        node.monitor = own
    stages.note_answer(channel, delivery, queues, noting.before, journey)
