"""A publish that is not made: the same checks and the same routing, and what would become of it in each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.amqp.fields import Table
from warren.broker.exchanges.base import Envelope
from warren.broker.explain import explain
from warren.broker.journey import Journey
from warren.broker.queue import Queue
from warren.broker.route import route
from warren.broker.stages import check_target, limits_of, note_topic_permission
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.exchanges.base import Exchange
    from warren.broker.vhost import VHost


def rehearse(vhost: VHost, user: str, exchange: str, key: str, headers: Table) -> Journey:
    """A journey that is not kept."""
    journey = Journey(vhost.node, 0, vhost.name, "", user, vhost.node.host.stopwatch())
    journey.exchange = exchange
    journey.routing_key = key
    keys = [key, *_extra_keys(headers)]
    try:
        found = _check(vhost, user, exchange, keys, journey)
    except AmqpError as error:
        journey.refuse(error)
        return journey
    _route(vhost, found, Envelope(keys, headers), journey)
    return journey


def _check(vhost: VHost, user: str, name: str, keys: list[str], journey: Journey) -> Exchange:
    exchange = check_target(vhost, user, name, journey)
    if exchange.type == "topic":
        for key in keys:
            vhost.node.access.check_topic(user, vhost.name, name, key, "write")
    note_topic_permission(user, exchange, keys, journey)
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
    held = f"'{queue.name}' holds {queue.backing.length} messages and has {queue.consumers.count} consumers"
    return "; ".join([held, *limits_of(queue)])
