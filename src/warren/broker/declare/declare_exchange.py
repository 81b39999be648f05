"""Exchanges as clients ask for them: declare, delete, bind, unbind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.amqp import methods
from warren.amqp.fields import Field
from warren.broker.exchanges.base import Exchange
from warren.broker.exchanges.pipeline import PIPELINE, PipelineExchange, input_arguments, input_of
from warren.broker.exchanges.types import check_type
from warren.broker.rules.arguments import compare_argument, compare_flag, resource, wrong_type
from warren.broker.rules.queue_settings import STREAM
from warren.broker.vhost.sweeps import Removal
from warren.errors import AccessRefused, PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel
    from warren.broker.vhost.vhost import VHost


def strip_line_ends(name: str) -> str:
    """RabbitMQ drops CR and LF from names; clients that build names from lines rely on it."""
    return name.replace("\r", "").replace("\n", "") if "\r" in name or "\n" in name else name


def refuse_default(name: str) -> None:
    if name == "":
        raise AccessRefused("operation not permitted on the default exchange")


def declare(channel: Channel, method: methods.ExchangeDeclare) -> None:
    name = strip_line_ends(method.exchange)
    vhost = channel.vhost
    if method.passive:
        refuse_default(name)
        channel.connection.node.access.check_any(channel.user, vhost.name, "exchange", name)
        vhost.exchange(name)
    else:
        _declare(channel, method, name)
    if not method.no_wait:
        channel.answer(methods.ExchangeDeclareOk())


def _declare(channel: Channel, method: methods.ExchangeDeclare, name: str) -> None:
    vhost = channel.vhost
    check_type(method.type)
    refuse_default(name)
    channel.check("exchange", name, "configure")
    existing = vhost.exchanges.get(name)
    if existing is not None:
        check_equivalence(existing, method)
        return
    if name.startswith("amq."):
        raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
    alternate = method.arguments.get("alternate-exchange")
    if alternate is not None:
        _check_alternate(channel, name, alternate)
    if method.type == PIPELINE:
        channel.check("queue", input_of(name), "configure")
    exchange = vhost.add_exchange(
        name, method.type, method.durable, method.auto_delete, method.internal, method.arguments
    )
    if isinstance(exchange, PipelineExchange):
        connect_input(vhost, exchange)


def connect_input(vhost: VHost, exchange: PipelineExchange) -> None:
    """A queue and a binding like all others, so that they are recorded, exported and recovered like all others."""
    name = input_of(exchange.name)
    vhost.add_queue(name, True, False, {"x-queue-type": Field("S", STREAM)})
    vhost.add_binding(exchange.name, "queue", name, "", input_arguments())


def _check_alternate(channel: Channel, name: str, alternate: Field) -> None:
    if alternate.tag != "S" or not isinstance(alternate.value, str):
        raise wrong_type("alternate-exchange", alternate, resource("exchange", name, channel.vhost.name))
    channel.check("exchange", name, "read")
    channel.check("exchange", alternate.value, "write")


def check_equivalence(existing: Exchange, method: methods.ExchangeDeclare) -> None:
    """Type, flags and the alternate exchange; other arguments are not compared."""
    what = resource("exchange", existing.name, existing.vhost)
    if existing.type != method.type:
        raise PreconditionFailed(
            f"inequivalent arg 'type' for {what}: received '{method.type}' but current is '{existing.type}'"
        )
    compare_flag("durable", method.durable, existing.durable, what)
    compare_flag("auto_delete", method.auto_delete, existing.auto_delete, what)
    compare_flag("internal", method.internal, existing.internal, what)
    key = "alternate-exchange"
    compare_argument(key, method.arguments.get(key), existing.arguments.get(key), what)


def delete(channel: Channel, method: methods.ExchangeDelete) -> None:
    name = strip_line_ends(method.exchange)
    vhost = channel.vhost
    refuse_default(name)
    if name.startswith("amq."):
        raise AccessRefused(f"deletion of system {resource('exchange', name, vhost.name)} not allowed")
    channel.check("exchange", name, "configure")
    exchange = vhost.exchanges.get(name)
    if exchange is not None:
        if method.if_unused and exchange.bindings:
            raise PreconditionFailed(f"{resource('exchange', name, vhost.name)} in use")
        vhost.begin_removal(ClientExchangeRemoval(channel, exchange, method.no_wait), channel.connection)
    elif not method.no_wait:
        channel.answer(methods.ExchangeDeleteOk())


class ClientExchangeRemoval(Removal):
    def __init__(self, channel: Channel, exchange: Exchange, no_wait: bool) -> None:
        super().__init__(channel.vhost, exchange)
        self._channel = channel
        self._no_wait = no_wait

    def finish(self) -> None:
        super().finish()
        connection = self._channel.connection
        connection.hold(connection.node.recorded)
        if not self._no_wait:
            self._channel.answer(methods.ExchangeDeleteOk())


def bind(channel: Channel, method: methods.ExchangeBind) -> None:
    source, destination = _checked_ends(channel, method.source, method.destination, method.routing_key)
    channel.vhost.add_binding(source, "exchange", destination, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.answer(methods.ExchangeBindOk())


def unbind(channel: Channel, method: methods.ExchangeUnbind) -> None:
    source, destination = _checked_ends(channel, method.source, method.destination, method.routing_key)
    channel.vhost.remove_binding(source, "exchange", destination, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.answer(methods.ExchangeUnbindOk())


def _checked_ends(channel: Channel, source: str, destination: str, key: str) -> tuple[str, str]:
    source, destination = strip_line_ends(source), strip_line_ends(destination)
    check_binding(channel, source, "exchange", destination, key)
    return source, destination


def check_binding(channel: Channel, source: str, kind: str, destination: str, key: str) -> None:
    """Write on where it leads, read on where it comes from, and for topics on the key."""
    channel.check(kind, destination, "write")
    if kind == "exchange":
        refuse_default(destination)
    refuse_default(source)
    channel.check("exchange", source, "read")
    exchange = channel.vhost.exchanges.get(source)
    if exchange is not None and exchange.type == "topic":
        channel.connection.node.access.check_topic(channel.user, channel.vhost.name, source, key, "read")
