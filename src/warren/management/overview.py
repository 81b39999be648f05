"""/api/overview, /api/nodes, /api/whoami and what else concerns the broker as a whole."""

from __future__ import annotations

import os
import platform
from typing import Final

from starlette.responses import JSONResponse, Response

from warren.broker.exchanges.types import KNOWN_TYPES
from warren.broker.vhost import VHost
from warren.management import channels, connections, queues
from warren.management.calls import Call, Needs, route
from warren.management.listing import Item
from warren.management.refusals import not_found

# What tools that ask for a version may count on; Warren's own is `warren_version`.
COMPATIBLE_VERSION: Final = "3.13.7"


async def overview(call: Call) -> Response:
    seen = call.vhosts()
    item: Item = {
        "management_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": "Warren",
        "product_version": call.node.version,
        "warren_version": call.node.version,
        "python_version": platform.python_version(),
        "cluster_name": call.node.settings.cluster_name,
        "node": call.node.settings.node_name,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
        "exchange_types": exchange_types(),
        "message_stats": call.rates.details(("overview", call.user.name), totals(seen), call.now),
        "queue_totals": call.rates.details(("totals", call.user.name), queue_totals(seen), call.now),
        "object_totals": object_totals(call, seen),
        "churn_rates": call.rates.details(("churn",), churn(call), call.now),
        "statistics_db_event_queue": 0,
        "listeners": listeners(call) if call.user.is_monitoring() else [],
        "contexts": contexts(call) if call.user.is_monitoring() else [],
    }
    return call.item(item)


def totals(vhosts: list[VHost]) -> dict[str, int]:
    sums: dict[str, int] = dict.fromkeys(queues.STATS, 0)
    for vhost in vhosts:
        for queue in vhost.queues.values():
            for name, value in queues.stats(queue).items():
                sums[name] += value
    return sums


def queue_totals(vhosts: list[VHost]) -> dict[str, int]:
    found = [queue for vhost in vhosts for queue in vhost.queues.values()]
    ready = sum(int(queue.backing.length) for queue in found)
    unacked = sum(int(queue.unacked) for queue in found)
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def object_totals(call: Call, vhosts: list[VHost]) -> dict[str, int]:
    return {
        "connections": len(connections.visible(call)),
        "channels": len(channels.visible(call)),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
        "consumers": sum(int(queue.consumers.count) for vhost in vhosts for queue in vhost.queues.values()),
    }


def churn(call: Call) -> dict[str, int]:
    counted = call.node.counters
    return {
        "connection_created": int(counted.connections_opened),
        "connection_closed": int(counted.connections_closed),
        "channel_created": int(counted.channels_opened),
        "channel_closed": int(counted.channels_closed),
        "queue_declared": int(counted.queues_declared),
        "queue_created": int(counted.queues_created),
        "queue_deleted": int(counted.queues_deleted),
    }


def exchange_types() -> list[Item]:
    return [{"name": name, "description": f"{name} exchange", "enabled": True} for name in sorted(KNOWN_TYPES)]


def listeners(call: Call) -> list[Item]:
    node = call.node.settings.node_name
    return [
        {"node": node, "protocol": each.protocol, "ip_address": each.host, "port": each.port}
        for each in call.context.ports
    ]


def describe_node(call: Call) -> Item:
    context = call.context
    return {
        "name": call.node.settings.node_name,
        "type": "disc",
        "running": True,
        "os_pid": str(os.getpid()),
        "uptime": int(call.node.now - call.node.started_at),
        "processors": os.cpu_count() or 1,
        "mem_used": context.memory_used(),
        "mem_limit": context.memory_limit,
        "mem_alarm": "memory" in call.node.alarms,
        "disk_free": context.disk_free(),
        "disk_free_limit": context.disk_free_limit,
        "disk_free_alarm": "disk" in call.node.alarms,
        "fd_total": context.file_limit,
        "sockets_used": len(call.node.connections),
        "exchange_types": exchange_types(),
        "auth_mechanisms": [{"name": name, "enabled": True} for name in call.node.settings.mechanisms],
        "applications": [],
        "contexts": contexts(call),
        "partitions": [],
        "rates_mode": "basic",
    }


def contexts(call: Call) -> list[Item]:
    """What is served over HTTP, and where."""
    node = call.node.settings.node_name
    return [
        {"node": node, "description": "Management", "path": "/", "ip": each.host, "port": str(each.port)}
        for each in call.context.ports
        if each.protocol == "http"
    ]


async def list_nodes(call: Call) -> Response:
    return call.listing([describe_node(call)])


async def show_node(call: Call) -> Response:
    if call.path("name") != call.node.settings.node_name:
        raise not_found()
    return call.item(describe_node(call))


async def cluster_name(call: Call) -> Response:
    return JSONResponse({"name": call.node.settings.cluster_name})


async def whoami(call: Call) -> Response:
    return JSONResponse({"name": call.user.name, "tags": call.user.tags})


ROUTES: Final = [
    route("/api/overview", GET=overview),
    route("/api/nodes", Needs.MONITORING, GET=list_nodes),
    route("/api/nodes/{name}", Needs.MONITORING, GET=show_node),
    route("/api/cluster-name", GET=cluster_name),
    route("/api/whoami", GET=whoami),
]
