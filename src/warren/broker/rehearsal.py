"""A publish that is not made: the same checks and the same routing, and what would become of it in each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.amqp.fields import Table
from warren.broker.exchanges.base import Envelope
from warren.broker.explain import explain
from warren.broker.journey import Journey
from warren.broker.queue import Queue
from warren.broker.route import route
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.exchanges.base import Exchange
    from warren.broker.vhost import VHost


def rehearse(vhost: VHost, user: str, exchange: str, key: str, headers: Table) -> Journey:
    """A journey that is not kept."""
    journey = Journey(vhost.node, 0, vhost.name, "", user)
    journey.exchange = exchange
    journey.routing_key = key
    try:
        found = _check(vhost, user, exchange, key, journey)
    except AmqpError as error:
        journey.note("refused", f"{error.code} {error.name}: {error.explanation}")
        journey.outcome = "refused"
        return journey
    _route(vhost, found, Envelope([key, *_extra_keys(headers)], headers), journey)
    return journey


def _check(vhost: VHost, user: str, name: str, key: str, journey: Journey) -> Exchange:
    node = vhost.node
    node.access.check(user, vhost.name, "exchange", name, "write")
    shown = name or "the default exchange"
    journey.note("permission", f"user '{user}' may write to {shown} in vhost '{vhost.name}'")
    exchange = vhost.exchange(name)
    internal = "internal: clients may not publish to it" if exchange.internal else "not internal"
    journey.note("exchange", f"{shown} is a {exchange.type} exchange, and {internal}")
    if exchange.type == "topic":
        node.access.check_topic(user, vhost.name, name, key, "write")
        journey.note("topic permission", f"user '{user}' may write with the key '{key}'")
    return exchange


def _extra_keys(headers: Table) -> list[str]:
    keys: list[str] = []
    for name in ("CC", "BCC"):
        field = headers.get(name)
        if field is not None and isinstance(field.value, list):
            keys += [item.value for item in field.value if isinstance(item.value, str)]
    return keys


def _route(vhost: VHost, exchange: Exchange, envelope: Envelope, journey: Journey) -> None:
    envelope.draw = vhost.node.host.draw()
    queues = [each for each in route(vhost.exchanges, exchange, envelope) if isinstance(each, Queue)]
    journey.queues = [queue.name for queue in queues]
    names = ", ".join(journey.queues)
    stage = journey.note("route", f"to {names}" if names else "to no queue")
    stage.steps = explain(vhost.exchanges, exchange, envelope)
    for queue in queues:
        journey.note("queue", _prospect(queue))
    journey.outcome = "would be routed" if queues else "would be dropped, or returned if mandatory"


def _prospect(queue: Queue) -> str:
    options = queue.options
    facts = [f"'{queue.name}' holds {queue.backing.length} messages and has {queue.consumers.count} consumers"]
    if options.max_length >= 0:
        facts.append(f"at most {options.max_length} messages ({options.overflow})")
    if options.max_bytes >= 0:
        facts.append(f"at most {options.max_bytes} bytes ({options.overflow})")
    if options.ttl >= 0:
        facts.append(f"messages expire after {options.ttl} ms")
    if options.dead_letter_exchange is not None:
        facts.append(f"dead letters go to '{options.dead_letter_exchange or 'the default exchange'}'")
    return "; ".join(facts)
