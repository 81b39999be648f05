"""/api/bindings"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from warren.amqp.methods import ExchangeBind, ExchangeUnbind, QueueBind, QueueUnbind
from warren.broker.exchanges.base import Binding, Destination
from warren.broker.queue.queue import Queue
from warren.broker.rules.access import DEFAULT_EXCHANGE
from warren.broker.vhost.shapes import binding_item
from warren.broker.vhost.vhost import VHost
from warren.management.arguments import arguments_in
from warren.management.calls import CREATED, Call, done, found, route
from warren.management.listing import Item
from warren.management.names import properties_key
from warren.management.refusals import bad_request
from warren.management.spec import ARGUMENTS, TEXT, gives, takes

_KINDS: Final = {"q": "queue", "e": "exchange"}


def describe(binding: Binding | Queue) -> Item:
    """A queue stands for its binding to the default exchange, which nobody made."""
    if isinstance(binding, Queue):
        binding = Binding("", binding, binding.name, {})
    return {**binding_item(binding), "properties_key": properties_key(binding)}


def leading_to(vhost: VHost, destination: Destination) -> list[Binding | Queue]:
    implicit = [destination] if isinstance(destination, Queue) else []
    return [*implicit, *vhost.bindings_to(destination)]


async def list_bindings(call: Call) -> Response:
    """Those of the default exchange first."""
    found: list[Binding | Queue] = []
    for vhost in call.vhosts():
        found += vhost.queues.values()
        for exchange in vhost.exchanges.values():
            found += exchange.bindings.values()
    return await call.listing(found, describe)


async def list_between(call: Call) -> Response:
    return await call.listing(between(call), describe)


async def show(call: Call) -> Response:
    return call.item(describe(find(call)))


@takes(routing_key=TEXT, arguments=ARGUMENTS)
@gives({201: None})
async def add(call: Call) -> Response:
    kind, source, name = kind_of(call), source_in(call), call.path("destination")
    body = await call.body()
    key, arguments = body.get("routing_key", ""), arguments_in(body)
    if not isinstance(key, str):
        raise bad_request("routing_key must be text")
    if kind == "queue":
        await call.act(QueueBind(queue=name, exchange=source, routing_key=key, arguments=arguments))
    else:
        await call.act(ExchangeBind(destination=name, source=source, routing_key=key, arguments=arguments))
    made = [each for each in between(call) if each.routing_key == key and each.arguments == arguments]
    location = f"{call.request.path_params['destination']}/{quote(properties_key(made[-1]), safe='')}"
    return Response(status_code=CREATED, headers={"location": location})


async def remove(call: Call) -> Response:
    binding = find(call)
    name, key, arguments = binding.destination.name, binding.routing_key, binding.arguments
    if kind_of(call) == "queue":
        await call.act(QueueUnbind(queue=name, exchange=binding.source, routing_key=key, arguments=arguments))
    else:
        await call.act(ExchangeUnbind(destination=name, source=binding.source, routing_key=key, arguments=arguments))
    return done()


def source_in(call: Call) -> str:
    source = call.path("source")
    return "" if source == DEFAULT_EXCHANGE else source


def between(call: Call) -> list[Binding]:
    vhost, source, name = call.vhost(), source_in(call), call.path("destination")
    target = vhost.queues.get(name) if kind_of(call) == "queue" else vhost.exchanges.get(name)
    if target is None:
        return []
    if source == "" and isinstance(target, Queue):
        return [Binding("", target, name, {})]
    return [binding for binding in vhost.bindings_to(target) if binding.source == source]


def find(call: Call) -> Binding:
    bindings = {properties_key(binding): binding for binding in between(call)}
    # Many put the key into the path as it was handed out, which looks encoded already.
    return found(bindings.get(call.path("props")) or bindings.get(call.request.path_params["props"]))


def kind_of(call: Call) -> str:
    return found(_KINDS.get(call.path("kind")))


ROUTES: Final = [
    route("/api/bindings", GET=list_bindings),
    route("/api/bindings/{vhost}", GET=list_bindings),
    route("/api/bindings/{vhost}/e/{source}/{kind}/{destination}", GET=list_between, POST=add),
    route("/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}", GET=show, DELETE=remove),
]
