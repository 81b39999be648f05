"""/api/exchanges"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from warren.amqp.methods import ExchangeDeclare, ExchangeDelete
from warren.broker.exchanges.base import Exchange
from warren.broker.exchanges.pipeline import PipelineExchange, input_of
from warren.broker.queue.schedule import schedule_of
from warren.broker.rules.access import DEFAULT_EXCHANGE
from warren.broker.stream.super_streams import is_super_stream, partitions
from warren.broker.vhost.shapes import exchange_item
from warren.management import bindings
from warren.management.arguments import arguments_in, flag_in
from warren.management.calls import Call, done, found, route
from warren.management.listing import Item
from warren.management.refusals import bad_request
from warren.management.spec import ARGUMENTS, FLAG, TEXT, asks, takes


def describe(call: Call, exchange: Exchange) -> Item:
    item: Item = exchange_item(exchange)
    if exchange.policy is not None:
        item["policy"] = exchange.policy
    schedule = schedule_of(exchange)
    if schedule is not None:
        item["messages_delayed"] = int(schedule.backing.length)
    if isinstance(exchange, PipelineExchange):
        item["pipeline"] = describe_pipeline(call, exchange)
    counted = {"publish_in": int(exchange.published_in), "publish_out": int(exchange.published_out)}
    if any(counted.values()):
        key = ("exchange", exchange.vhost, exchange.name)
        item["message_stats"] = call.rates.details(key, counted, call.now, call.history("msg_rates"))
    if is_super_stream(exchange):
        item["partitions"] = partitions(exchange)
    return item


def describe_pipeline(call: Call, exchange: PipelineExchange) -> Item:
    """Its state as its runner last reported it; without one, what is published waits in the input."""
    report = call.context.pipelines.reports.get((exchange.vhost, exchange.pipeline))
    state = "unknown" if report is None else report.item(call.now)["state"]
    return {"name": exchange.pipeline, "state": state, "input": input_of(exchange.name)}


async def list_exchanges(call: Call) -> Response:
    exchanges = [each for vhost in call.vhosts() for each in vhost.exchanges.values()]
    return await call.listing(exchanges, partial(describe, call), {"name": lambda exchange: exchange.name})


async def show(call: Call) -> Response:
    return call.item({**describe(call, find(call)), "incoming": [], "outgoing": []})


async def list_leaving(call: Call) -> Response:
    return await call.listing(list(find(call).bindings.values()), bindings.describe)


async def list_arriving(call: Call) -> Response:
    return await call.listing(call.vhost().bindings_to(find(call)), bindings.describe)


@takes(type=TEXT, durable=FLAG, auto_delete=FLAG, internal=FLAG, arguments=ARGUMENTS)
async def put(call: Call) -> Response:
    vhost, name, body = call.vhost_to_use(), call.path("name"), await call.body()
    is_new = name not in vhost.exchanges
    type_ = body.get("type", "direct")
    if not isinstance(type_, str):
        raise bad_request("type must be text")
    await call.act(
        ExchangeDeclare(
            exchange=name,
            type=type_,
            durable=flag_in(body, "durable"),
            auto_delete=flag_in(body, "auto_delete"),
            internal=flag_in(body, "internal"),
            arguments=arguments_in(body),
        )
    )
    return done(is_new)


@asks(if__unused=FLAG)
async def delete(call: Call) -> Response:
    await call.act(ExchangeDelete(exchange=find(call).name, if_unused=call.flag("if-unused")))
    return done()


def exchange_in(call: Call) -> str:
    name = call.path("name")
    return "" if name == DEFAULT_EXCHANGE else name


def find(call: Call) -> Exchange:
    return found(call.vhost().exchanges.get(exchange_in(call)))


ROUTES: Final = [
    route("/api/exchanges", GET=list_exchanges),
    route("/api/exchanges/{vhost}", GET=list_exchanges),
    route("/api/exchanges/{vhost}/{name}", GET=show, PUT=put, DELETE=delete),
    route("/api/exchanges/{vhost}/{name}/bindings/source", GET=list_leaving),
    route("/api/exchanges/{vhost}/{name}/bindings/destination", GET=list_arriving),
]
