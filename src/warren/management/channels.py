"""/api/channels"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from warren.broker.session.channel import Channel
from warren.management import consumers
from warren.management.calls import Call, route
from warren.management.listing import Item
from warren.management.names import channel_name


def describe(call: Call, channel: Channel) -> Item:
    connection = channel.connection
    counted = channel.counters
    stats = {
        "publish": int(counted.published),
        "confirm": int(counted.confirmed),
        "return_unroutable": int(counted.returned),
        "deliver_get": int(channel.unacked.next) - 1,
        "ack": int(counted.acked),
        "get": int(counted.got),
    }
    return {
        "name": channel_name(channel),
        "number": int(channel.number),
        "node": call.node.settings.node_name,
        "vhost": channel.vhost.name,
        "user": channel.user,
        "user_who_performed_action": channel.user,
        "state": "running" if connection.state == "running" else "flow",
        "confirm": channel.confirms is not None,
        "transactional": channel.transaction is not None,
        "consumer_count": len(channel.consumers),
        "prefetch_count": int(channel.consumer_prefetch),
        "global_prefetch_count": int(channel.prefetch),
        "messages_unacknowledged": int(channel.unacked.count),
        "messages_unconfirmed": 0 if channel.confirms is None else len(channel.confirms.unconfirmed),
        "connection_details": {
            "name": connection.name,
            "peer_host": connection.peer_host,
            "peer_port": connection.peer_port,
        },
        "message_stats": call.rates.details(("channel", channel_name(channel)), stats, call.now),
    }


async def list_channels(call: Call) -> Response:
    found = [channel for connection in call.connections() for channel in connection.channels.values()]
    return await call.listing(found, partial(describe, call), {"name": channel_name})


async def show(call: Call) -> Response:
    channel = find(call)
    details = [consumers.describe(call, each) for each in channel.consumers.values()]
    return call.item({**describe(call, channel), "consumer_details": details, "deliveries": [], "publishes": []})


def find(call: Call) -> Channel:
    everyone = [channel for each in call.node.connections.values() for channel in each.channels.values()]
    return call.owned([channel for channel in everyone if channel_name(channel) == call.path("name")])


ROUTES: Final = [
    route("/api/channels", GET=list_channels),
    route("/api/vhosts/{vhost}/channels", GET=list_channels),
    route("/api/channels/{name}", GET=show),
]
