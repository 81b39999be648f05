"""/api/parameters and /api/global-parameters: settings that extensions keep with the broker."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response

from warren.broker.operate import administer
from warren.management.calls import Call, Needs, deleted, done, found, route
from warren.management.listing import Item
from warren.management.refusals import not_found
from warren.management.spec import ANYTHING, takes


def found_in(call: Call) -> list[Item]:
    items = [item for vhost in call.ruled_vhosts() for item in administer.parameters_of(vhost)]
    if "component" in call.request.path_params:
        items = [item for item in items if item["component"] == call.path("component")]
    return items


async def list_parameters(call: Call) -> Response:
    return call.listing(found_in(call))


async def show(call: Call) -> Response:
    name = call.path("name")
    return call.item(found(next((item for item in found_in(call) if item["name"] == name), None)))


@takes("value", value=ANYTHING)
async def put(call: Call) -> Response:
    vhost, name = call.vhost(), call.path("name")
    body = call.required(await call.body(), "value")
    is_new = not any(item["name"] == name for item in found_in(call))
    administer.set_parameter(call.node, vhost.name, call.path("component"), name, body["value"])
    return done(is_new)


async def delete(call: Call) -> Response:
    vhost, component, name = call.vhost().name, call.path("component"), call.path("name")
    return deleted(administer.clear_parameter(call.node, vhost, component, name))


async def list_global(call: Call) -> Response:
    return call.listing([{"name": name, "value": value} for name, value in call.node.global_parameters.items()])


async def show_global(call: Call) -> Response:
    name = call.path("name")
    if name not in call.node.global_parameters:
        raise not_found()
    return JSONResponse({"name": name, "value": call.node.global_parameters[name]})


@takes("value", value=ANYTHING)
async def put_global(call: Call) -> Response:
    name = call.path("name")
    body = call.required(await call.body(), "value")
    is_new = name not in call.node.global_parameters
    administer.set_global_parameter(call.node, name, body["value"])
    return done(is_new)


async def delete_global(call: Call) -> Response:
    return deleted(administer.clear_global_parameter(call.node, call.path("name")))


ROUTES: Final = [
    route("/api/parameters", Needs.POLICYMAKER, GET=list_parameters),
    route("/api/parameters/{component}", Needs.POLICYMAKER, GET=list_parameters),
    route("/api/parameters/{component}/{vhost}", Needs.POLICYMAKER, GET=list_parameters),
    route("/api/parameters/{component}/{vhost}/{name}", Needs.POLICYMAKER, GET=show, PUT=put, DELETE=delete),
    route("/api/global-parameters", Needs.POLICYMAKER, GET=list_global),
    route("/api/global-parameters/{name}", Needs.POLICYMAKER, GET=show_global, PUT=put_global, DELETE=delete_global),
]
