"""The firehose: while a vhost is traced, a copy of every publish and delivery goes to its amq.rabbitmq.trace exchange.

Keys are publish.EXCHANGE and deliver.QUEUE, the headers tell the rest, as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp.fields import DEPTH_MAX, Field, Table, table_of
from warren.amqp.frames import body_of, content_frames
from warren.amqp.properties import TEXT_PROPERTIES, Properties, encode_properties
from warren.amqp.tables import depth_of
from warren.broker.message import Message, Origin
from warren.broker.publish.republish import republish
from warren.broker.queue.entry import Entry

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel
    from warren.broker.vhost.vhost import VHost

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
_INT_MAX: Final = 2**31 - 1


def trace_publish(channel: Channel, message: Message, queues: list[str]) -> None:
    headers = _headers(channel, message)
    headers["routed_queues"] = Field("A", [Field("S", queue) for queue in queues])
    _send(channel.vhost, f"publish.{message.origin.exchange}", headers, message)


def trace_delivery(channel: Channel, queue: str, entry: Entry) -> None:
    headers = _headers(channel, entry.message)
    headers["redelivered"] = Field("I", 1 if entry.redelivered else 0)
    _send(channel.vhost, f"deliver.{queue}", headers, entry.message)


def _headers(channel: Channel, message: Message) -> Table:
    origin = message.origin
    return {
        "exchange_name": Field("S", origin.exchange),
        # Those of BCC too: the firehose is for operators, who see everything.
        "routing_keys": Field("A", [Field("S", key) for key in origin.keys]),
        "properties": Field("F", _properties(message.properties())),
        "node": Field("S", channel.connection.node.settings.node_name),
        "vhost": Field("S", channel.vhost.name),
        "connection": Field("S", channel.connection.name),
        "channel": Field("I", channel.number),
        "user": Field("S", channel.user),
    }


def _properties(properties: Properties) -> Table:
    texts: dict[str, object] = {}
    for name in TEXT_PROPERTIES:
        value = getattr(properties, name)
        if value is not None:
            texts[name] = value
    table = table_of(texts)
    if properties.headers is not None:
        # Two tables are put around them; what cannot be written must not harm whoever published or consumes.
        is_too_deep = depth_of(list(properties.headers.values())) + 3 > DEPTH_MAX
        table["headers"] = Field("S", "nested too deep") if is_too_deep else Field("F", properties.headers)
    if properties.delivery_mode is not None:
        table["delivery_mode"] = Field("I", properties.delivery_mode)
    if properties.priority is not None:
        table["priority"] = Field("I", properties.priority)
    if properties.timestamp is not None:
        # RabbitMQ has 32 bits for it, and would cut it off.
        table["timestamp"] = Field("I" if properties.timestamp <= _INT_MAX else "l", properties.timestamp)
    return table


def _send(vhost: VHost, key: str, headers: Table, message: Message) -> None:
    if message.origin.exchange == TRACE_EXCHANGE:
        # What was traced is not traced again, or it would never end.
        return
    publish_internal(vhost, TRACE_EXCHANGE, key, Properties(headers=headers), body_of(message.content))


def publish_internal(vhost: VHost, name: str, key: str, properties: Properties, body: bytes) -> None:
    """A message of the broker's own, to an exchange to which clients cannot publish."""
    exchange = vhost.exchanges.get(name)
    if exchange is None or exchange.leads_nowhere():
        return
    # A key is a short string on the wire, and this one has a name of up to 255 bytes in it.
    while len(key.encode("utf-8", "surrogateescape")) > 255:
        key = key[:-1]
    size: i64 = len(body)
    content = content_frames(1, encode_properties(properties), body, vhost.node.settings.frame_max)
    message = Message(Origin(name, [key]), content, 1, size)
    message.persistent = properties.delivery_mode == 2
    republish(vhost, exchange, message)
