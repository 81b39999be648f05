"""The firehose: while a vhost is traced, a copy of every publish and delivery goes to its amq.rabbitmq.trace exchange.

Keys are publish.EXCHANGE and deliver.QUEUE, the headers tell the rest, as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.amqp.fields import DEPTH_MAX, Field, Table, table_of
from warren.amqp.frames import body_of
from warren.amqp.properties import TEXT_PROPERTIES, Properties
from warren.amqp.tables import depth_of
from warren.broker.message import Message
from warren.broker.queue.entry import Entry
from warren.broker.watch.own_messages import OwnMessages

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
_INT_MAX: Final = 2**31 - 1


def trace_publish(own: OwnMessages, channel: Channel, message: Message, queues: list[str]) -> None:
    headers = _headers(channel, message)
    headers["routed_queues"] = Field("A", [Field("S", queue) for queue in queues])
    _send(own, channel, f"publish.{message.origin.exchange}", headers, message)


def trace_delivery(own: OwnMessages, channel: Channel, queue: str, entry: Entry) -> None:
    headers = _headers(channel, entry.message)
    headers["redelivered"] = Field("I", 1 if entry.redelivered else 0)
    _send(own, channel, f"deliver.{queue}", headers, entry.message)


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


def _send(own: OwnMessages, channel: Channel, key: str, headers: Table, message: Message) -> None:
    if message.origin.exchange == TRACE_EXCHANGE:
        # What was traced is not traced again, or it would never end.
        return
    body = body_of(message.content)
    own.publish(channel.vhost, TRACE_EXCHANGE, key, Properties(headers=headers), body, channel.connection)
