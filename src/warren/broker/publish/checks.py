"""The checks of basic.publish, each by its name. publish.py says in which order they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.constants import BODY_HARD_MAX, MAX_EXPIRY_MS, ORIGIN_HEADER
from warren.amqp.fields import Table, type_name
from warren.broker.exchanges.base import Exchange
from warren.broker.message import Message, Origin
from warren.broker.rules.arguments import resource
from warren.broker.session.observer import Observer
from warren.broker.terms import erlang_string
from warren.errors import AccessRefused, PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel
    from warren.broker.vhost.vhost import VHost


def size(channel: Channel, body_size: i64) -> None:
    limit = channel.connection.node.settings.max_message_size
    if body_size > limit:
        which = "max size" if limit == BODY_HARD_MAX else "configured max size"
        raise PreconditionFailed(f"message size {body_size} is larger than {which} {limit}")


def writable_exchange(channel: Channel, name: str, observer: Observer | None) -> Exchange:
    """Permission before existence: who may not write learns nothing about what exists."""
    channel.connection.node.access.check(channel.user, channel.vhost.name, "exchange", name, "write")
    if observer is not None:
        observer.may_write(name)
    exchange = channel.vhost.exchange(name)
    if exchange.internal:
        refuse_internal(exchange)
    if observer is not None:
        observer.found(exchange)
    return exchange


def refuse_internal(exchange: Exchange) -> None:
    raise AccessRefused(f"cannot publish to internal {resource('exchange', exchange.name, exchange.vhost)}")


def expiration(text: str) -> i64:
    """The expiration property is a string that must be one whole number of milliseconds."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    count = 0
    while count < len(digits) and "0" <= digits[count] <= "9":
        count += 1
    if count == 0:
        raise PreconditionFailed(f"invalid expiration '{text}': no_integer")
    if count < len(digits):
        raise PreconditionFailed(f"invalid expiration '{text}': {{leftover_string,{erlang_string(digits[count:])}}}")
    value = int(text)
    if value < 0:
        raise PreconditionFailed(f"invalid expiration '{text}': {{value_negative,{value}}}")
    if value > MAX_EXPIRY_MS:
        raise PreconditionFailed(f"invalid expiration '{text}': {{value_too_large,{value}}}")
    return value


def take_extra_keys(message: Message, headers: Table, frame_max: i64) -> None:
    """CC and BCC add routing keys; BCC leaves the message, so that nobody sees it."""
    visible = _keys_in(headers, "CC")
    hidden = _keys_in(headers, "BCC")
    if "BCC" in headers:
        properties = message.properties()
        if properties.headers is not None:
            del properties.headers["BCC"]
        message.rewrite(properties, frame_max)
    if visible or hidden:
        message.origin = Origin(message.origin.exchange, message.origin.keys[:1] + visible + hidden, len(hidden))


def _keys_in(headers: Table, name: str) -> list[str]:
    field = headers.get(name)
    if field is None:
        return []
    if field.tag != "A" or not isinstance(field.value, list):
        raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(field.tag)}}}')
    return [item.value for item in field.value if item.tag == "S" and isinstance(item.value, str)]


def may_tell_origin(channel: Channel, exchange: Exchange) -> bool:
    """Whoever brings messages from another broker, straight into their queues."""
    return exchange.name == "" and _may_impersonate(channel)


def take_origin(message: Message, frame_max: i64) -> None:
    """The message is as if it had been published where its header says; the header leaves it."""
    properties = message.properties()
    headers = properties.headers
    field = None if headers is None else headers.pop(ORIGIN_HEADER, None)
    if headers is None or field is None:
        return
    names = field.value
    if not isinstance(names, list) or len(names) != 2:
        raise PreconditionFailed(f"invalid message: {ORIGIN_HEADER} must be an exchange and a routing key")
    if not headers:
        properties.headers = None
    message.rewrite(properties, frame_max)
    message.origin = Origin(str(names[0].value), [str(names[1].value), *message.origin.keys[1:]])


def topic_permission(vhost: VHost, user: str, exchange: Exchange, key: str) -> None:
    if exchange.type == "topic":
        vhost.node.access.check_topic(user, vhost.name, exchange.name, key, "write")


def user_id(channel: Channel, claimed: str) -> None:
    if claimed == channel.user:
        return
    if _may_impersonate(channel):
        return
    raise PreconditionFailed(f"user_id property set to '{claimed}' but authenticated user was '{channel.user}'")


def _may_impersonate(channel: Channel) -> bool:
    user = channel.connection.node.access.users.get(channel.user)
    return user is not None and user.may_impersonate()
