"""/api/vhosts"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from warren.broker.operate import administer
from warren.broker.rules.queue_settings import QUEUE_TYPES
from warren.broker.vhost.shapes import default_type_in, vhost_item
from warren.broker.vhost.vhost import VHost
from warren.management.arguments import flag_in
from warren.management.calls import Call, Needs, deleted, done, route
from warren.management.listing import Item
from warren.management.overview import Sums, sums_of
from warren.management.refusals import bad_request
from warren.management.spec import FLAG, TAGS, TEXT, takes


def describe(call: Call, sums: dict[VHost, Sums], vhost: VHost) -> Item:
    key, item = ("vhost", vhost.name), vhost_item(vhost)
    del item["limits"]
    return {
        "default_queue_type": "classic",
        **item,
        "tracing": vhost.tracing,
        "cluster_state": {call.node.settings.node_name: "running"},
        "message_stats": call.rates.details(key, sums[vhost].stats, call.now),
        **call.rates.details(key, {**sums[vhost].levels, **volumes(call, vhost)}, call.now),
    }


def volumes(call: Call, vhost: VHost) -> dict[str, int]:
    """Bytes of the connections that are open."""
    found = [connection for connection in call.node.connections.values() if connection.vhost is vhost]
    return {
        "recv_oct": sum(int(each.received_bytes) for each in found),
        "send_oct": sum(int(each.sent_bytes) for each in found),
    }


async def list_vhosts(call: Call) -> Response:
    sums = {vhost: await sums_of(call, [vhost]) for vhost in call.vhosts()}
    return await call.listing(list(sums), partial(describe, call, sums))


async def show(call: Call) -> Response:
    vhost = call.vhost()
    return call.item(describe(call, {vhost: await sums_of(call, [vhost])}, vhost))


@takes(description=TEXT, tags=TAGS, default_queue_type=TEXT, tracing=FLAG)
async def put(call: Call) -> Response:
    name, body = call.path("vhost"), await call.body()
    if not name:
        raise bad_request("a virtual host needs a name")
    while (vhost := call.node.open_vhost(name)) is None and name in call.node.vhosts:
        # Else what is answered to be there would be gone in a moment.
        await call.pace.next_turn()
    is_new = vhost is None
    description, default_type = body.get("description", ""), body.get("default_queue_type")
    if not isinstance(description, str) or not isinstance(default_type, str | None):
        raise bad_request("description and default_queue_type must be text")
    type_ = default_type_in(default_type or "")
    if type_ is not None and type_ not in QUEUE_TYPES:
        raise bad_request(f"{type_} is not a valid queue type")
    tracing = flag_in(body, "tracing") if "tracing" in body else None
    if vhost is None or set(body) - {"tracing"}:
        administer.update_vhost(call.node, name, description, tags_of(body.get("tags", [])), type_)
    if tracing is not None:
        administer.set_tracing(call.node, name, tracing)
    if is_new:
        # As RabbitMQ does: whoever makes a virtual host may use it.
        administer.set_permission(call.node, call.user.name, name, ".*", ".*", ".*")
    return done(is_new)


async def delete(call: Call) -> Response:
    return deleted(administer.delete_vhost(call.node, call.path("vhost")))


def tags_of(value: object) -> list[str]:
    """A list of texts, or one text with commas."""
    if isinstance(value, str):
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return value
    raise bad_request("tags must be a list of text")


ROUTES: Final = [
    route("/api/vhosts", GET=list_vhosts),
    route("/api/vhosts/{vhost}", GET=show),
    route("/api/vhosts/{vhost}", Needs.ADMINISTRATOR, PUT=put, DELETE=delete),
]
