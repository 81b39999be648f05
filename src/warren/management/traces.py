"""/api/traces: the journeys of messages: which are made, the latest that were, and where one would go.

Not in RabbitMQ, whose tracing plug-in has another /api/traces that writes files.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import JSONResponse, Response

from warren.amqp.fields import plain_table, table_of
from warren.amqp.properties import Properties
from warren.broker.watch.explain import Match, RouteStep
from warren.broker.watch.journey import Journey, Stage
from warren.broker.watch.rehearsal import rehearse
from warren.management.calls import Call, Needs, done, found, route
from warren.management.listing import Item
from warren.management.refusals import bad_request, not_found
from warren.management.spec import NUMBER, OBJECT, TEXT, asks, gives, list_of, takes, whole
from warren.management.times import iso

COUNT_MAX: Final = 10_000
_STAGE: Final = whole(stage=TEXT, text=TEXT, microseconds={"type": "number"})
_JOURNEY: Final = whole(id=NUMBER, vhost=TEXT, exchange=TEXT, routing_key=TEXT, outcome=TEXT, stages=list_of(_STAGE))
_SETTINGS: Final = whole(sample_every=NUMBER, next=NUMBER, exchange={"type": "string", "nullable": True})


def describe(journey: Journey) -> Item:
    return {
        "id": journey.number,
        "began_at": iso(int(journey.began_at)),
        "vhost": journey.vhost,
        "connection": journey.connection,
        "user": journey.user,
        "exchange": journey.exchange,
        "routing_key": journey.routing_key,
        "message_id": journey.message_id,
        "payload_bytes": int(journey.body_size),
        "queues": journey.queues,
        "outcome": journey.outcome,
        "stages": [describe_stage(stage) for stage in journey.stages],
    }


def describe_stage(stage: Stage) -> Item:
    item: Item = {"stage": stage.name, "text": stage.text, "microseconds": int(stage.nanoseconds) / 1000}
    if stage.steps:
        item["steps"] = [describe_step(step) for step in stage.steps]
    return item


def describe_step(step: RouteStep) -> Item:
    return {
        "exchange": step.exchange,
        "type": step.type,
        "matched": [describe_match(match) for match in step.matches],
        "missed": [describe_match(match) for match in step.misses],
        "notes": step.notes,
    }


def describe_match(match: Match) -> Item:
    binding = match.binding
    return {
        "destination": binding.destination.name,
        "destination_type": "exchange" if binding.destination.is_exchange else "queue",
        "routing_key": binding.routing_key,
        "arguments": plain_table(binding.arguments),
        "why": match.why,
    }


@asks(page=NUMBER, page_size=NUMBER)
@gives({200: {"oneOf": [list_of(_JOURNEY), whole(items=list_of(_JOURNEY), page=NUMBER)]}})
async def list_journeys(call: Call) -> Response:
    """The latest journeys, newest first."""
    return await call.listing(list(reversed(call.node.journeys.kept)), describe)


@gives({200: _JOURNEY})
async def show(call: Call) -> Response:
    text = call.path("id")
    journey = call.node.journeys.find(int(text)) if text.isascii() and text.isdecimal() and len(text) < 19 else None
    return JSONResponse(describe(found(journey)))


async def clear(call: Call) -> Response:
    """Forget all journeys."""
    call.node.journeys.kept.clear()
    return done()


@gives({200: _SETTINGS})
async def show_settings(call: Call) -> Response:
    """Which publishes are traced."""
    return JSONResponse(settings(call))


@takes(sample_every=NUMBER, next=NUMBER, exchange=TEXT)
@gives({200: _SETTINGS})
async def put_settings(call: Call) -> Response:
    """Trace one in `sample_every` publishes (0 is none), and the `next` so many, to `exchange` if one is given."""
    body = await call.body()
    if "sample_every" in body:
        call.node.journeys.sample(number_in(body, "sample_every", 10**9))
    if "next" in body:
        exchange = body.get("exchange")
        if not isinstance(exchange, str | None):
            raise bad_request("exchange must be text")
        call.node.journeys.want(number_in(body, "next", COUNT_MAX), exchange)
    return JSONResponse(settings(call))


def settings(call: Call) -> Item:
    journeys = call.node.journeys
    return {
        "sample_every": int(journeys.sample_every),
        "next": int(journeys.wanted),
        "exchange": journeys.exchange,
    }


@takes(exchange=TEXT, routing_key=TEXT, headers=OBJECT, vhost=TEXT)
@gives({200: _JOURNEY})
async def dry_run(call: Call) -> Response:
    """Where a message would go, and why, without publishing any."""
    body = await call.body()
    name, exchange, key = body.get("vhost", "/"), body.get("exchange", ""), body.get("routing_key", "")
    headers = body.get("headers", {})
    if not isinstance(name, str) or not isinstance(exchange, str) or not isinstance(key, str):
        raise bad_request("vhost, exchange and routing_key must be text")
    if not isinstance(headers, dict):
        raise bad_request("headers must be an object")
    vhost = call.node.vhosts.get(name)
    if vhost is None or not call.may_see(name):
        raise not_found()
    journey = rehearse(call.node.watch, vhost, call.user.name, exchange, key, Properties(headers=table_of(headers)))
    return JSONResponse(describe(journey))


def number_in(body: dict[str, Any], name: str, highest: int) -> int:
    value = body[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise bad_request(f"{name} must be a whole number from 0 to {highest}")
    return value


ROUTES: Final = [
    route("/api/traces", Needs.MONITORING, GET=list_journeys),
    route("/api/traces", Needs.ADMINISTRATOR, DELETE=clear),
    route("/api/traces/settings", Needs.MONITORING, GET=show_settings),
    route("/api/traces/settings", Needs.ADMINISTRATOR, PUT=put_settings),
    route("/api/traces/dry-run", POST=dry_run),
    route("/api/traces/{id}", Needs.MONITORING, GET=show),
]
