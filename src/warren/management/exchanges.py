"""/api/exchanges"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.amqp.fields import plain_table
from warren.broker.exchanges.base import Exchange
from warren.management import bindings
from warren.management.calls import Call, route
from warren.management.listing import Item
from warren.management.refusals import not_found

DEFAULT_NAME: Final = "amq.default"


def describe(call: Call, exchange: Exchange) -> Item:
    item: Item = {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain_table(exchange.arguments),
        "policy": exchange.policy,
    }
    counted = {"publish_in": int(exchange.published_in), "publish_out": int(exchange.published_out)}
    if any(counted.values()):
        key = ("exchange", exchange.vhost, exchange.name)
        item["message_stats"] = call.rates.details(key, counted, call.now)
    return item


async def list_exchanges(call: Call) -> Response:
    return call.listing([describe(call, each) for vhost in call.vhosts() for each in vhost.exchanges.values()])


async def show(call: Call) -> Response:
    return call.item({**describe(call, find(call)), "incoming": [], "outgoing": []})


async def list_leaving(call: Call) -> Response:
    return call.listing([bindings.describe(each) for each in find(call).bindings.values()])


async def list_arriving(call: Call) -> Response:
    return call.listing([bindings.describe(each) for each in bindings.leading_to(call.vhost(), find(call))])


def find(call: Call) -> Exchange:
    name = call.path("name")
    exchange = call.vhost().exchanges.get("" if name == DEFAULT_NAME else name)
    if exchange is None:
        raise not_found()
    return exchange


ROUTES: Final = [
    route("/api/exchanges", GET=list_exchanges),
    route("/api/exchanges/{vhost}", GET=list_exchanges),
    route("/api/exchanges/{vhost}/{name}", GET=show),
    route("/api/exchanges/{vhost}/{name}/bindings/source", GET=list_leaving),
    route("/api/exchanges/{vhost}/{name}/bindings/destination", GET=list_arriving),
]
