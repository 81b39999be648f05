"""basic.publish, from the channel to the route; routed.py has the rest of the way.

    reader -> channel -> size -> interceptors -> write permission -> exchange exists -> not internal -> reply-to ->
    expiration -> sequence number -> CC/BCC -> topic permission -> user_id -> route -> (transaction) ->
    queues -> mandatory return -> confirm

What a publish frame says (exchange, key, flags) is the same for thousands of messages, so everything that depends on
it alone is checked once and remembered by the frame's bytes in a Target, until anything it rests on changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from warren.amqp.constants import BASIC_PUBLISH, ORIGIN_HEADER, REPLY_QUEUE
from warren.amqp.properties import HEADERS, PropertyPeek, peek_properties
from warren.amqp.reader import ArgumentReader
from warren.amqp.tables import decode_table
from warren.broker.consume.reply_to import name_reply_address
from warren.broker.exchanges.base import Envelope
from warren.broker.exchanges.key_hashing import hash_bytes, mix
from warren.broker.exchanges.route import is_cacheable, route
from warren.broker.message import Message, Origin
from warren.broker.publish import checks
from warren.broker.publish.republish import queues_in
from warren.broker.publish.routed import deliver_routed, deliver_to_queues
from warren.broker.queue.queue import Queue
from warren.broker.session.interceptors import PUBLISH, intercept_publish
from warren.broker.session.observer import TRACE_HEADER, Delivery, Observer, Target
from warren.errors import AmqpError, NotImplementedByBroker

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel
    from warren.broker.session.connection import Connection

_MANDATORY: Final = 1
_IMMEDIATE: Final = 2
# In a content header frame: where the property flags stand, and delivery_mode when it is the only property.
_FLAGS_AT: Final[i64] = 19
_MODE_AT: Final[i64] = 21
_ONLY_DELIVERY_MODE: Final[i64] = 0x1000
_ORIGIN_HEADER: Final = ORIGIN_HEADER.encode()
# Targets that all connections together remember, about half a KB each, and what each may have however many they are.
_TARGETS_MAX: Final = 65536
_TARGETS_MIN: Final = 256


def publish(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> None:
    """`arguments` are those of the method frame, `content` the header and body frames as they came."""
    if _publish_like_others(channel, arguments, content, body_size):
        return
    delivery = walk(channel, arguments, content, body_size)
    _count(channel, delivery.message.body_size)
    if channel.transaction is not None:
        channel.transaction.publish(delivery)
    else:
        deliver_routed(channel, delivery)


def _publish_like_others(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> bool:
    """The fast lane: a publish like those before it, without properties, that nobody watches. False for all others,
    and for those the walk is taken; it would come to the same."""
    connection = channel.connection
    node = connection.node
    if node.is_watched or node.intercepts_publish or body_size > node.settings.max_message_size:
        return False
    flags: i64 = i64(read_i16_be(content, _FLAGS_AT)) & 0xFFFF
    header = i64(read_i32_be(content, 3))
    persistent = False
    if flags == _ONLY_DELIVERY_MODE and header == 15:
        persistent = content[_MODE_AT] == 2
    elif flags != 0 or header != 14:
        return False
    if connection.targets_as_of != node.topology + node.access.generation or channel.transaction is not None:
        return False
    if connection.numbering is not None:
        return False
    target = connection.targets.get(arguments)
    if target is None:
        return False
    queues = target.queues
    if queues is None:
        return False
    message = Message(target.origin, content, channel.number, body_size)
    message.persistent = persistent
    _count(channel, body_size)
    deliver_to_queues(channel, message, target.exchange, queues, target.mandatory, channel.next_seqno(), None)
    return True


def _count(channel: Channel, body_size: i64) -> None:
    channel.counters.published += 1
    channel.connection.node.counters.sizes.count(body_size)


def walk(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> Delivery:
    """Every step, each told to the observer if there is one."""
    node = channel.connection.node
    observer: Observer | None = None
    if node.is_watched or asks_for_journey(content):
        observer = node.watching.observer_of(channel, arguments, content, body_size)
    try:
        # First, whoever intercepts: of a body that is too large nothing was kept.
        checks.size(channel, body_size)
        if node.intercepts_publish:
            arguments, content, body_size = intercept_publish(channel, arguments, content)
            checks.size(channel, body_size)
            name = node.interceptors[PUBLISH].name
            if observer is not None:
                observer.intercepted(name, arguments, body_size)
            elif asks_for_journey(content):
                observer = node.watching.observer_asked_by(name, channel, arguments, content, body_size)
        if observer is not None:
            content = observer.entering(arguments, content)
        return examine(channel, arguments, content, body_size, observer)
    except AmqpError as error:
        if observer is not None:
            observer.refused(error)
        raise


def asks_for_journey(content: bytes) -> bool:
    """The message itself asks for its journey."""
    if not i64(read_i16_be(content, _FLAGS_AT)) & HEADERS:
        return False
    # find(), not `in`: that tries the name as a number first, and fails at twice the cost.
    return content.find(TRACE_HEADER, 0, int(_header_end(content))) >= 0


def _header_end(content: bytes) -> i64:
    """Where the properties end in the content's first frame."""
    return 7 + i64(read_i32_be(content, 3))


def examine(channel: Channel, arguments: bytes, content: bytes, body_size: i64, observer: Observer | None) -> Delivery:
    """The checks in RabbitMQ's order, then the route. Nothing is counted, and nothing has gone anywhere."""
    if observer is not None:
        observer.weighed(body_size, channel.connection.node.settings.max_message_size)
    target = target_of(channel, arguments, observer)
    message = Message(target.origin, content, channel.number, body_size)
    peek: PropertyPeek | None = None
    if read_i16_be(content, _FLAGS_AT) == 0:
        seqno = channel.next_seqno()
    else:
        peek = peek_properties(content, _FLAGS_AT, _header_end(content))
        seqno = _read_properties(channel, message, peek, content)
    if observer is not None:
        observer.read(message, None if peek is None else peek.message_id, seqno)
    queues = target.queues
    # The remembered queues are for the frame's own key, without CC and BCC.
    is_known = queues is not None and message.origin is target.origin and observer is None
    if not is_known:
        for key in message.origin.keys:
            checks.topic_permission(channel.vhost, channel.user, target.exchange, key)
        if observer is not None:
            observer.may_use_keys(target.exchange, message.origin.keys)
    if peek is not None and peek.user_id is not None:
        checks.user_id(channel, peek.user_id)
        if observer is not None:
            observer.may_claim(peek.user_id)
    if peek is not None and peek.headers_end > 0 and _tells_origin(channel, target, peek, content):
        queues = _bring(channel, target, message, observer)
    elif not is_known or queues is None:
        queues = _route(channel, target, message, observer)
    return Delivery(message, target.exchange, queues, target.mandatory, seqno, observer)


def target_of(channel: Channel, arguments: bytes, observer: Observer | None) -> Target:
    """Permission, existence, internal: asked once per publish frame, until anything changes or somebody watches."""
    connection = channel.connection
    node = connection.node
    as_of = node.topology + node.access.generation
    if connection.targets_as_of == as_of and observer is None:
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
    exchange = checks.writable_exchange(channel, name, observer)
    target = Target(exchange, Origin(name, [key]), flags & _MANDATORY != 0)
    if connection.targets_as_of != as_of or len(connection.targets) >= share_of_targets(len(node.connections)):
        connection.targets = {}
        connection.targets_as_of = as_of
    connection.targets[arguments] = target
    return target


def share_of_targets(connections: int) -> int:
    return max(_TARGETS_MIN, _TARGETS_MAX // max(1, connections))


def _read_properties(channel: Channel, message: Message, peek: PropertyPeek, content: bytes) -> i64:
    """What the path must know of the properties, and the checks that come with it. Gives the sequence number."""
    if peek.reply_to is not None and peek.reply_to == REPLY_QUEUE:
        name_reply_address(channel, message, peek)
    if peek.expiration is not None:
        message.ttl = checks.expiration(peek.expiration)
    seqno = channel.next_seqno()
    message.persistent = peek.delivery_mode == 2
    message.priority = max(peek.priority, 0)
    if peek.headers_end > 0:
        headers = content[peek.headers_start : peek.headers_end]
        # Both names end in it, so most headers need not be decoded.
        if headers.find(b"CC") >= 0:
            checks.take_extra_keys(message, decode_table(headers, 0, len(headers)), channel.connection.frame_max)
    return seqno


def _tells_origin(channel: Channel, target: Target, peek: PropertyPeek, content: bytes) -> bool:
    name = content.find(_ORIGIN_HEADER, int(peek.headers_start), int(peek.headers_end))
    return name >= 0 and checks.may_tell_origin(channel, target.exchange)


def _bring(channel: Channel, target: Target, message: Message, observer: Observer | None) -> list[Queue]:
    """From another broker into one queue, as it was there. CC led it elsewhere when it was published, not again."""
    published, message.origin = message.origin, target.origin
    queues = _route(channel, target, message, observer)
    message.origin = published
    checks.take_origin(message, channel.connection.frame_max)
    return queues


def _route(channel: Channel, target: Target, message: Message, observer: Observer | None) -> list[Queue]:
    """The queues for this message; remembered where the key alone decides.

    Empty results are not kept: a queue that is declared later must be found without telling anybody.
    """
    exchanges = channel.vhost.exchanges
    exchange = target.exchange
    depends_on_keys = is_cacheable(exchanges, exchange)
    if depends_on_keys:
        envelope = Envelope(message.origin.keys)
    else:
        envelope = Envelope.of(message, _draw(channel))
    queues = queues_in(route(exchanges, exchange, envelope))
    if depends_on_keys and queues and message.origin is target.origin:
        target.queues = queues = _shared(channel.connection, queues)
    if observer is not None:
        observer.routed(exchange, message, envelope, queues)
    return queues


def _draw(channel: Channel) -> i64:
    """For exchanges that pick at random. What may come again is led to where it was led before."""
    numbering = channel.connection.numbering
    if numbering is None:
        return channel.connection.node.host.draw()
    return mix(hash_bytes(numbering.key + str(numbering.number).encode()))


def _shared(connection: Connection, queues: list[Queue]) -> list[Queue]:
    """One list for keys that lead to the same queues: the less there is to remember, the more of it is near."""
    if queues != connection.last_queues:
        connection.last_queues = queues
    return connection.last_queues
