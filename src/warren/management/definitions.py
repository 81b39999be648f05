"""/api/definitions: all of the broker, or one virtual host, as one document. Importing only ever adds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response

from warren.broker.operate import definitions
from warren.management.calls import Call, Needs, done, route
from warren.management.listing import Item
from warren.management.pieces import encode, encoding_units, respond
from warren.management.spec import gives, takes

# To check or to apply one.
_ITEM_UNITS: Final = 30


async def show(call: Call) -> Response:
    return await respond(document(call, None))


async def show_vhost(call: Call) -> Response:
    return await respond(document(call, call.vhost().name))


async def document(call: Call, vhost: str | None) -> AsyncIterator[bytes]:
    yield encode(definitions.head(call.node))[:-1]
    for name, items in definitions.exported(call.node, vhost):
        yield b"," + encode(name) + b":["
        before = b""
        for item in items:
            piece = encode(item)
            yield before + piece
            before = b","
            await call.pace.spend(encoding_units(piece))
        yield b"]"
    yield b"}"


@takes()
@gives({204: None})
async def add(call: Call) -> Response:
    return await bring_in(call, await call.body(), None)


@takes()
@gives({204: None})
async def add_to_vhost(call: Call) -> Response:
    vhost = call.vhost().name
    return await bring_in(call, await call.body(), vhost)


async def bring_in(call: Call, document: Item, vhost: str | None) -> Response:
    work = definitions.Import(call.node, document, vhost, call.context.hasher)
    while work.go_on():
        await call.pace.spend(_ITEM_UNITS)
    return done()


ROUTES: Final = [
    route("/api/definitions", Needs.ADMINISTRATOR, GET=show, POST=add),
    # What it was called before RabbitMQ 3.
    route("/api/all-configuration", Needs.ADMINISTRATOR, GET=show, POST=add),
    route("/api/definitions/{vhost}", Needs.ADMINISTRATOR, GET=show_vhost, POST=add_to_vhost),
]
