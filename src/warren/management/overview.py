"""/api/overview, /api/nodes, /api/whoami and what else concerns the broker as a whole."""

from __future__ import annotations

import os
import platform
from typing import Final

from starlette.responses import JSONResponse, Response

from warren.broker.exchanges.types import KNOWN_TYPES
from warren.broker.operate.definitions import RABBITMQ_VERSION
from warren.broker.vhost.vhost import VHost
from warren.core import describe_core
from warren.management import queues
from warren.management.calls import Call, Needs, found, route
from warren.management.listing import Item
from warren.management.refusals import not_found

# What it costs to add a queue up.
_SUM_UNITS: Final = 8


async def overview(call: Call) -> Response:
    seen = call.vhosts()
    sums = await sums_of(call, seen)
    # Whoever looks now finds the next sample when looking again.
    call.node.latency.ask()
    item: Item = {
        "management_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Warren",
        "product_version": call.node.version,
        "warren_version": call.node.version,
        "core": describe_core(),
        "python_version": platform.python_version(),
        "cluster_name": call.node.settings.cluster_name,
        "node": call.node.settings.node_name,
        "erlang_version": "",
        "erlang_full_version": "",
        "release_series_support_status": "supported",
        "disable_stats": False,
        "enable_queue_totals": False,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [600], "basic": [600], "detailed": [600]},
        "exchange_types": exchange_types(),
        "alarms": sorted(call.node.alarms),
        "message_stats": call.rates.details(("overview", call.user.name), {**sums.stats, **publishers(call)}, call.now),
        "queue_totals": call.rates.details(("totals", call.user.name), sums.levels, call.now),
        "object_totals": object_totals(call, seen, sums),
        "stream_totals": sums.streams,
        "delivery_latency": delivery_latency(call),
        "churn_rates": call.rates.details(("churn",), churn(call), call.now),
        "statistics_db_event_queue": 0,
        "listeners": listeners(call) if call.user.is_monitoring() else [],
        "contexts": contexts(call) if call.user.is_monitoring() else [],
    }
    return call.item(item)


class Sums:
    """Of all queues in some virtual hosts."""

    def __init__(self) -> None:
        self.stats = dict.fromkeys(queues.COUNTS, 0)
        self.levels = dict.fromkeys(queues.LEVELS, 0)
        self.consumers = 0
        # What of the levels is in streams, where nothing waits to be taken.
        self.streams = {"streams": 0, "messages": 0}


async def sums_of(call: Call, vhosts: list[VHost]) -> Sums:
    sums = Sums()
    for queue in [queue for vhost in vhosts for queue in vhost.queues.values()]:
        for name, value in queues.stats(queue).items():
            sums.stats[name] += value
        levels = queues.levels(queue)
        for name, value in levels.items():
            sums.levels[name] += value
        if queue.keeps_all:
            sums.streams["streams"] += 1
            sums.streams["messages"] += levels["messages_ready"]
        sums.consumers += int(queue.consumers.count)
        await call.pace.spend(_SUM_UNITS)
    return sums


def publishers(call: Call) -> dict[str, int]:
    """What channels told publishers, of all virtual hosts: channels that are gone are in the sum."""
    counted = call.node.counters
    open_channels = [channel for each in call.node.connections.values() for channel in each.channels.values()]
    return {
        "confirm": int(counted.confirmed) + sum(int(each.counters.confirmed) for each in open_channels),
        "return_unroutable": int(counted.returned),
        "drop_unroutable": int(counted.dropped),
    }


def object_totals(call: Call, vhosts: list[VHost], sums: Sums) -> dict[str, int]:
    connections = call.connections()
    return {
        "connections": len(connections),
        "channels": sum(len(connection.channels) for connection in connections),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
        "consumers": sums.consumers,
    }


def delivery_latency(call: Call) -> Item:
    """From the read that brought a message to the write that delivers it: of one that was followed, and of one that is
    being followed and still waits."""
    latency = call.node.latency
    waiting = int(latency.waiting())
    return {
        "samples": int(latency.samples),
        "last_ms": int(latency.latest) / 1_000_000 if latency.samples else None,
        "waiting_ms": waiting / 1_000_000 if waiting >= 0 else None,
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


def mechanisms(call: Call) -> list[Item]:
    return [
        {"name": name, "description": f"SASL {name} authentication mechanism", "enabled": True}
        for name in call.node.settings.mechanisms
    ]


def listeners(call: Call) -> list[Item]:
    node = call.node.settings.node_name
    return [
        {"node": node, "protocol": each.protocol, "ip_address": each.host, "port": each.port}
        for each in call.context.ports
    ]


def describe_node(call: Call) -> Item:
    context = call.context
    measured = {
        "mem_used": context.memory_used(),
        "disk_free": context.disk_free(),
        "fd_used": context.files_used(),
        "sockets_used": len(call.node.connections),
        **churn(call),
    }
    return {
        "name": call.node.settings.node_name,
        "type": "disc",
        "running": True,
        "os_pid": str(os.getpid()),
        "uptime": int(call.node.now - call.node.started_at),
        "processors": os.cpu_count() or 1,
        "mem_limit": context.memory_limit,
        "mem_alarm": "memory" in call.node.alarms,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": context.disk_free_limit,
        "disk_free_alarm": "disk" in call.node.alarms,
        "fd_total": context.file_limit,
        "fd_alarm": "fd" in call.node.alarms,
        "sockets_total": call.node.settings.connection_max,
        "exchange_types": exchange_types(),
        "auth_mechanisms": mechanisms(call),
        "applications": [{"name": "warren", "description": "Warren", "version": call.node.version}],
        "cluster_links": [],
        "config_files": [],
        "log_files": [],
        "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
        "db_dir": context.data_dir,
        "contexts": contexts(call),
        "partitions": [],
        "rates_mode": "basic",
        **call.rates.details(("node",), measured, call.now),
    }


def contexts(call: Call) -> list[Item]:
    """What is served over HTTP, and where."""
    node = call.node.settings.node_name
    return [
        {"node": node, "description": "Management", "path": "/", "ip": each.host, "port": str(each.port)}
        for each in call.context.ports
        if each.protocol in ("http", "https")
    ]


async def list_nodes(call: Call) -> Response:
    return await call.items(nodes(call))


def nodes(call: Call) -> list[Item]:
    """This one, which leads, and those that mirror it. What only they know of themselves is not shown."""
    others = call.context.cluster()
    if not others:
        return [describe_node(call)]
    return [
        {**describe_node(call), **mirror} if mirror["role"] == "leader" else {"type": "disc", **mirror}
        for mirror in map(describe_mirror, others)
    ]


def describe_mirror(node: Item) -> Item:
    return {
        "name": node["name"],
        "uuid": node["uuid"],
        "running": node["role"] != "gone",
        "role": node["role"],
        "in_sync": node["in_sync"],
        "streams": node["streams"],
        "streams_tls": node["streams_tls"],
        "amqp": node["amqp"],
        "version": node["version"],
        "lag_ops": node["lag_ops"],
        "lag_bytes": node["lag_bytes"],
    }


def check_own_name(call: Call) -> None:
    """Of this node, whoever else there is; tools that know of clusters name it."""
    if call.path("name") != call.node.settings.node_name:
        raise not_found()


async def show_node(call: Call) -> Response:
    return call.item(found(next((node for node in nodes(call) if node["name"] == call.path("name")), None)))


async def whoami(call: Call) -> Response:
    return JSONResponse({"name": call.user.name, "tags": call.user.tags})


ROUTES: Final = [
    route("/api/overview", GET=overview),
    route("/api/nodes", Needs.MONITORING, GET=list_nodes),
    route("/api/nodes/{name}", Needs.MONITORING, GET=show_node),
    route("/api/whoami", GET=whoami),
]
