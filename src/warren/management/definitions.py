"""/api/definitions: all of the broker, or one virtual host, as one document. Importing only ever adds."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response

from warren.broker.operate import definitions
from warren.management.calls import Call, Needs, done, route
from warren.management.spec import gives, takes


async def show(call: Call) -> Response:
    return JSONResponse(definitions.export(call.node))


async def show_vhost(call: Call) -> Response:
    return JSONResponse(definitions.export(call.node, call.vhost().name))


@takes()
@gives({204: None})
async def add(call: Call) -> Response:
    definitions.import_(call.node, await call.body(), hasher=call.context.hasher)
    return done()


@takes()
@gives({204: None})
async def add_to_vhost(call: Call) -> Response:
    vhost = call.vhost().name
    definitions.import_(call.node, await call.body(), vhost, call.context.hasher)
    return done()


ROUTES: Final = [
    route("/api/definitions", Needs.ADMINISTRATOR, GET=show, POST=add),
    # What it was called before RabbitMQ 3.
    route("/api/all-configuration", Needs.ADMINISTRATOR, GET=show, POST=add),
    route("/api/definitions/{vhost}", Needs.ADMINISTRATOR, GET=show_vhost, POST=add_to_vhost),
]
