"""basic.publish, the whole story on one page.

    reader -> channel -> interceptors -> size -> write permission -> exchange exists -> not internal -> reply-to ->
    expiration -> sequence number -> CC/BCC -> topic permission -> user_id -> route -> (transaction) ->
    queues -> mandatory return -> confirm

What a publish frame says (exchange, key, flags) is the same for thousands of messages, so everything that depends on
it alone is checked once and remembered by the frame's bytes in a Target, until anything it rests on changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from warren.amqp import replies
from warren.amqp.constants import BASIC_PUBLISH
from warren.amqp.fields import decode_table
from warren.amqp.properties import PropertyPeek, peek_properties
from warren.amqp.reader import ArgumentReader
from warren.broker import checks
from warren.broker.exchanges.base import Destination, Envelope, Exchange
from warren.broker.journey import HEADER_BYTES
from warren.broker.message import Delivery, Message, Origin
from warren.broker.queue import Queue
from warren.broker.reply_to import REPLY_QUEUE, deliver_reply, name_reply_address
from warren.broker.route import is_cacheable, route
from warren.errors import NotImplementedByBroker

if TYPE_CHECKING:
    from warren.broker.channel import Channel
    from warren.broker.connection import Connection

_MANDATORY: Final = 1
_IMMEDIATE: Final = 2
# In a content header frame: where the property flags stand, and delivery_mode when it is the only property.
FLAGS_AT: Final[i64] = 19
_MODE_AT: Final[i64] = 21
_ONLY_DELIVERY_MODE: Final[i64] = 0x1000
# Targets that all connections together remember, about half a KB each, and what each may have however many they are.
_TARGETS_MAX: Final = 65536
_TARGETS_MIN: Final = 256


def header_end(content: bytes) -> i64:
    """Where the properties end in the content's first frame."""
    return 7 + i64(read_i32_be(content, 3))


def names_in(arguments: bytes) -> tuple[str, str]:
    """Exchange and key of a publish frame; empty also when it cannot be read, which is found out soon enough."""
    end = 3 + (arguments[2] if len(arguments) > 2 else 0)
    last = end + 1 + (arguments[end] if len(arguments) > end else 0)
    return arguments[3:end].decode("utf-8", "replace"), arguments[end + 1 : last].decode("utf-8", "replace")


class Target:
    """What one publish frame asks for, with its checks done."""

    def __init__(self, exchange: Exchange, origin: Origin, flags: i64) -> None:
        self.exchange = exchange
        self.origin = origin
        self.mandatory = (flags & _MANDATORY) != 0
        # Where it leads when only the key decides; None when every message must be routed for itself.
        self.queues: list[Queue] | None = None


def publish(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> None:
    """`arguments` are those of the method frame, `content` the header and body frames as they came."""
    node = channel.connection.node
    if node.is_watched:
        node.watch_publish(channel, arguments, content, body_size)
        return
    if body_size > node.settings.max_message_size:
        checks.refuse_size(body_size, node.settings.max_message_size)
    target = target_of(channel, arguments)
    message = Message(target.origin, content, channel.number, body_size)
    flags: i64 = i64(read_i16_be(content, FLAGS_AT)) & 0xFFFF
    header = i64(read_i32_be(content, 3))
    peek: PropertyPeek | None = None
    if flags == _ONLY_DELIVERY_MODE and header == 15:
        message.persistent = content[_MODE_AT] == 2
        seqno = channel.next_seqno()
    elif flags == 0 and header == 14:
        seqno = channel.next_seqno()
    else:
        peek = peek_properties(content, FLAGS_AT, 7 + header)
        headers = content[peek.headers_start : peek.headers_end] if peek.headers_end > 0 else b""
        # find(), not `in`: that tries the name as a number first, and fails at twice the cost.
        if headers and headers.find(HEADER_BYTES) >= 0:
            node.watch_publish(channel, arguments, content, body_size)
            return
        seqno = read_properties(channel, message, peek, headers)
    queues = target.queues
    if queues is None or message.origin is not target.origin:
        for key in message.origin.keys:
            checks.topic_permission(channel, target.exchange, key)
    if peek is not None and peek.user_id is not None:
        checks.user_id(channel, peek.user_id)
    if queues is None or message.origin is not target.origin:
        queues = route_to(channel, target, message, peek)
    target.exchange.published_in += 1
    target.exchange.published_out += len(queues)
    channel.counters.published += 1
    node.counters.sizes.count(body_size)
    delivery = Delivery(message, channel, target.mandatory, seqno)
    if channel.transaction is not None:
        channel.transaction.publish(delivery, queues)
    else:
        deliver_to_queues(channel, delivery, queues)


def target_of(channel: Channel, arguments: bytes) -> Target:
    """Permission, existence, internal: asked once per publish frame, until anything changes."""
    connection = channel.connection
    node = connection.node
    as_of = node.topology + node.access.generation
    if connection.targets_as_of == as_of:
        known = connection.targets.get(arguments)
        if known is not None:
            return known
    reader = ArgumentReader(arguments, 0, len(arguments))
    reader.short()
    name = reader.any_shortstr()
    key = reader.any_shortstr()
    flags = reader.octet()
    reader.finish()
    if flags & _IMMEDIATE:
        raise NotImplementedByBroker("immediate=true", BASIC_PUBLISH)
    exchange = checks.writable_exchange(channel, name)
    target = Target(exchange, Origin(name, [key]), flags)
    if connection.targets_as_of != as_of or len(connection.targets) >= share_of_targets(len(node.connections)):
        connection.targets = {}
        connection.targets_as_of = as_of
    connection.targets[arguments] = target
    return target


def share_of_targets(connections: int) -> int:
    return max(_TARGETS_MIN, _TARGETS_MAX // max(1, connections))


def read_properties(channel: Channel, message: Message, peek: PropertyPeek, headers: bytes) -> i64:
    """What the path must know of the properties, and the checks that come with it. Gives the sequence number."""
    if peek.reply_to is not None and peek.reply_to == REPLY_QUEUE:
        name_reply_address(channel, message)
    if peek.expiration is not None:
        message.ttl = checks.expiration(peek.expiration)
    seqno = channel.next_seqno()
    message.persistent = peek.delivery_mode == 2
    message.priority = max(peek.priority, 0)
    # Both names end in it, so most headers need not be decoded.
    if headers and headers.find(b"CC") >= 0:
        checks.take_extra_keys(message, decode_table(headers, 0, len(headers)))
    return seqno


def route_to(channel: Channel, target: Target, message: Message, peek: PropertyPeek | None) -> list[Queue]:
    """The queues for this message; remembered where the key alone decides.

    Empty results are not kept: a queue that is declared later must be found without telling anybody.
    """
    exchanges = channel.vhost.exchanges
    exchange = target.exchange
    if is_cacheable(exchanges, exchange):
        queues = _queues_in(route(exchanges, exchange, Envelope(message.origin.keys)))
        if queues and message.origin is target.origin:
            target.queues = queues = _shared(channel.connection, queues)
        return queues
    envelope = Envelope(message.origin.keys, None, "", "", 0, channel.connection.node.host.draw())
    if peek is not None:
        envelope.headers = message.properties().headers
        envelope.correlation_id = peek.correlation_id or ""
        envelope.message_id = peek.message_id or ""
        envelope.timestamp = max(peek.timestamp, 0)
    return _queues_in(route(exchanges, exchange, envelope))


def _shared(connection: Connection, queues: list[Queue]) -> list[Queue]:
    """One list for keys that lead to the same queues: the less there is to remember, the more of it is near."""
    if queues != connection.last_queues:
        connection.last_queues = queues
    return connection.last_queues


def _queues_in(destinations: list[Destination]) -> list[Queue]:
    found: list[Queue] = []
    for destination in destinations:
        if isinstance(destination, Queue):
            found.append(destination)
    return found


def deliver_to_queues(channel: Channel, delivery: Delivery, queues: list[Queue]) -> None:
    """Into every queue, then the answers: a return before the ack, a nack if any queue refused."""
    node = channel.connection.node
    message = delivery.message
    if not queues:
        _unrouted(channel, delivery)
        return
    accepted = True
    is_kept = False
    for queue in queues:
        # A queue deleted since the message was routed (a transaction) drops out silently.
        if queue.deleted:
            continue
        if not node.monitor.publish(queue, delivery):
            accepted = False
        elif queue.durable and (message.persistent or queue.keeps_all):
            is_kept = True
    node.counters.routed += 1
    if is_kept and node.store.is_behind():
        for queue in queues:
            channel.credit.spend(queue)
    if delivery.seqno == 0:
        return
    if not accepted:
        channel.refused(delivery.seqno)
    elif is_kept and node.store.position > node.store.synced:
        channel.await_sync(delivery.seqno, queues)
    else:
        channel.confirmed(delivery.seqno)


def _unrouted(channel: Channel, delivery: Delivery) -> None:
    message = delivery.message
    node = channel.connection.node
    if message.origin.exchange == "" and deliver_reply(node, message):
        node.counters.routed += 1
    elif delivery.mandatory:
        node.counters.returned += 1
        send_return(channel, message)
    else:
        node.counters.dropped += 1
    if delivery.seqno != 0:
        channel.confirmed(delivery.seqno)


def send_return(channel: Channel, message: Message) -> None:
    origin = message.origin
    channel.counters.returned += 1
    channel.connection.send(
        replies.return_(channel.number, 312, "NO_ROUTE", origin.exchange, origin.keys[0]) + channel.framed(message)
    )
