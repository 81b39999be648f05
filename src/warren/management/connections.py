"""/api/connections: who is connected, and the administrator's way to close them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from warren.amqp.fields import plain_table
from warren.broker.operate.administer import close_connections_of
from warren.broker.session.connection import Connection
from warren.management import channels
from warren.management.calls import Call, done, route
from warren.management.listing import Item

DEFAULT_REASON: Final = "Closed via management plugin"
_VALUES: Final[Mapping[str, Callable[[Connection], Any]]] = {"name": lambda connection: connection.name}


def describe(call: Call, connection: Connection) -> Item:
    properties = plain_table(connection.client_properties)
    key = ("connection", connection.name)
    volumes = {"recv_oct": int(connection.received_bytes), "send_oct": int(connection.sent_bytes)}
    item: Item = {
        "name": connection.name,
        "node": call.node.settings.node_name,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "vhost": "" if connection.vhost is None else connection.vhost.name,
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "auth_mechanism": connection.mechanism,
        "state": connection.state,
        "host": connection.host,
        "port": connection.port,
        "peer_host": connection.peer_host,
        "peer_port": connection.peer_port,
        "ssl": connection.tls,
        "peer_cert_subject": connection.tls_subject,
        "channels": len(connection.channels),
        "channel_max": int(connection.channel_max),
        "frame_max": int(connection.frame_max),
        "timeout": int(connection.heartbeat),
        "connected_at": int(connection.connected_at),
        "client_properties": properties,
        "recv_cnt": int(connection.received_reads),
        "send_cnt": int(connection.sent_writes),
        "send_pend": int(connection.pending_output),
        **call.rates.details(key, volumes, call.now),
    }
    given: Any = properties.get("connection_name")
    if given is not None:
        item["user_provided_name"] = given
    return item


async def list_connections(call: Call) -> Response:
    return await call.listing(call.connections(), partial(describe, call), _VALUES)


async def show(call: Call) -> Response:
    return call.item(describe(call, find(call)))


async def list_channels(call: Call) -> Response:
    return await call.listing(list(find(call).channels.values()), partial(channels.describe, call))


async def close(call: Call) -> Response:
    connection = find(call)
    call.check_owner(connection.user, call.user.is_administrator())
    connection.close_by_admin(call.request.headers.get("x-reason", DEFAULT_REASON))
    return done()


async def list_of_user(call: Call) -> Response:
    name = call.path("user")
    own = [connection for connection in call.connections() if connection.user == name]
    return await call.listing(own, partial(describe, call), _VALUES)


async def close_of_user(call: Call) -> Response:
    """Close all connections of a user."""
    name = call.path("user")
    call.check_owner(name, call.user.is_administrator())
    close_connections_of(call.node, name, call.request.headers.get("x-reason", DEFAULT_REASON))
    return done()


def find(call: Call) -> Connection:
    everyone = call.node.connections.values()
    return call.owned([each for each in everyone if each.vhost is not None and each.name == call.path("name")])


ROUTES: Final = [
    route("/api/connections", GET=list_connections),
    route("/api/vhosts/{vhost}/connections", GET=list_connections),
    route("/api/connections/username/{user}", GET=list_of_user, DELETE=close_of_user),
    route("/api/connections/{name}", GET=show, DELETE=close),
    route("/api/connections/{name}/channels", GET=list_channels),
]
