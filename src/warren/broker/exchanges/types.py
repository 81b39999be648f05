"""The types of exchange that may be declared, by the name that clients give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.amqp.fields import Table
from warren.broker.exchanges.base import Exchange
from warren.broker.exchanges.consistent_hash import ConsistentHashExchange
from warren.broker.exchanges.delayed import DELAYED, DelayedExchange
from warren.broker.exchanges.direct import DirectExchange
from warren.broker.exchanges.fanout import FanoutExchange
from warren.broker.exchanges.headers import HeadersExchange
from warren.broker.exchanges.modulus_hash import ModulusHashExchange
from warren.broker.exchanges.pipeline import PIPELINE, PipelineExchange, pipeline_named_in
from warren.broker.exchanges.random import LocalRandomExchange, RandomExchange
from warren.broker.exchanges.topic import TopicExchange
from warren.errors import PreconditionFailed

# Those that take no arguments.
_PLAIN: Final[dict[str, Callable[[str, str], Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
    "headers": HeadersExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-random": RandomExchange,
    "x-local-random": LocalRandomExchange,
}
KNOWN_TYPES: Final = (*_PLAIN, "x-consistent-hash", DELAYED, PIPELINE)


def check_type(type: str) -> None:
    if type not in KNOWN_TYPES:
        raise PreconditionFailed(f"unknown exchange type '{type}'")


def create(
    type: str,
    vhost: str,
    name: str,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Table | None = None,
) -> Exchange:
    """A new exchange without bindings; refuses (PreconditionFailed) an unknown type and arguments it cannot serve."""
    check_type(type)
    own_arguments: Table = {} if arguments is None else arguments
    exchange = _of_type(type, vhost, name, own_arguments)
    exchange.durable = durable
    exchange.auto_delete = auto_delete
    exchange.internal = internal
    exchange.arguments = own_arguments
    return exchange


def _delayed(vhost: str, name: str, arguments: Table) -> Exchange:
    field = arguments.get("x-delayed-type")
    inner = field.value if field is not None else None
    if not isinstance(inner, str) or inner == DELAYED or inner not in KNOWN_TYPES:
        raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
    return DelayedExchange(vhost, name, _of_type(inner, vhost, name, arguments))


def _of_type(type: str, vhost: str, name: str, arguments: Table) -> Exchange:
    if type == "x-consistent-hash":
        return ConsistentHashExchange(vhost, name, arguments)
    if type == DELAYED:
        return _delayed(vhost, name, arguments)
    if type == PIPELINE:
        return PipelineExchange(vhost, name, pipeline_named_in(arguments))
    return _PLAIN[type](vhost, name)
