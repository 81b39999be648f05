"""/metrics: what Prometheus reads, under RabbitMQ's names. Collected when asked for; nothing is counted twice.

/metrics sums all objects up and names none. /metrics/per-object and /metrics/detailed?family=...&vhost=... name every
queue and connection. On a port of their own all three are open, as RabbitMQ's; beside the API, where the rest of the
world may come to, those that name anything need a user with the monitoring tag.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar, cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from warren.broker.metrics import QueueCounters
from warren.broker.operate.definitions import RABBITMQ_VERSION
from warren.broker.queue.queue import Queue
from warren.broker.rules.logins import Attempts
from warren.management.calls import Call, Context, Needs, route
from warren.management.metric_families import GROUPS, Family, ObjectKind, kinds
from warren.management.pieces import Pace, respond
from warren.management.refusals import bad_request

AGGREGATED: Final = "aggregated"
# Objects that are read at once, and what things cost.
RUN: Final = 500
_FAMILY_UNITS: Final = 50
_SAMPLE_UNITS: Final = 6
_QUEUES_PER_UNIT: Final = 10
Thing = TypeVar("Thing")
_PROTOCOL: Final = "amqp091"
_QUEUE_TYPES: Final = {
    "classic": "rabbit_classic_queue",
    "quorum": "rabbit_quorum_queue",
    "stream": "rabbit_stream_queue",
}
_REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit")
_BY_QUEUE: Final = {
    "messages_delivered_consume_manual_ack": "delivered",
    "messages_delivered_consume_auto_ack": "delivered_no_ack",
    "messages_delivered_get_manual_ack": "got",
    "messages_delivered_get_auto_ack": "got_no_ack",
    "messages_get_empty": "got_empty",
    "messages_redelivered": "redelivered",
    "messages_acknowledged": "acked",
}


class NodeCollector:
    """The node as a whole, and all objects summed up."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._node = context.node
        self._consumers = 0

    def collect(self) -> Iterator[Metric | int]:
        yield from identity(self._context, AGGREGATED)
        yield from self._process()
        yield from self._mirrors()
        yield from self._churn()
        yield from self._objects()
        yield from self._summed()
        yield from self._global()

    def _mirrors(self) -> Iterator[Metric | int]:
        """Of a node that leads a cluster."""
        nodes = self._context.cluster()
        if not nodes:
            return
        in_sync = sum(bool(node["in_sync"]) for node in nodes)
        yield GaugeMetricFamily("warren_cluster_nodes_in_sync", "Nodes that have all that was answered", value=in_sync)
        for name, help_ in (("ops", "Changes that a node does not have yet"), ("bytes", "Bytes of them")):
            family = GaugeMetricFamily(f"warren_cluster_lag_{name}", help_, labels=["node"])
            for node in nodes:
                if node["role"] == "follower":
                    family.add_metric([str(node["name"])], float(str(node[f"lag_{name}"])))
            yield family

    def _process(self) -> Iterator[Metric | int]:
        context, alarms = self._context, self._node.alarms
        yield gauge("alarms_memory_used_watermark", "1 while memory is short", int("memory" in alarms))
        yield gauge("alarms_free_disk_space_watermark", "1 while disk is short", int("disk" in alarms))
        yield gauge("alarms_file_descriptor_limit", "1 while file descriptors are short", int("fd" in alarms))
        yield gauge("process_resident_memory_bytes", "Memory used", context.memory_used())
        yield gauge("resident_memory_limit_bytes", "Memory above which publishers block", context.memory_limit)
        yield gauge("disk_space_available_bytes", "Disk space left", context.disk_free())
        limit = context.disk_free_limit
        yield gauge("disk_space_available_limit_bytes", "Disk space below which publishers block", limit)
        yield gauge("process_open_fds", "Open files", context.files_used())
        yield gauge("process_max_fds", "Open files limit", context.file_limit)
        yield gauge("process_open_tcp_sockets", "Open connections", len(self._node.connections))
        yield gauge("process_max_tcp_sockets", "Connections limit", self._node.settings.connection_max)
        uptime = int(self._node.now - self._node.started_at) / 1000
        yield GaugeMetricFamily("warren_uptime_seconds", "Seconds since the start", value=uptime)
        # There is no Erlang here, but this is where dashboards look for it.
        yield gauge("erlang_uptime_seconds", "Node uptime", uptime)

    def _churn(self) -> Iterator[Metric | int]:
        counted = self._node.counters
        yield counter("connections_opened", "Connections opened", counted.connections_opened)
        yield counter("connections_closed", "Connections closed", counted.connections_closed)
        yield counter("channels_opened", "Channels opened", counted.channels_opened)
        yield counter("channels_closed", "Channels closed", counted.channels_closed)
        yield counter("queues_declared", "Queues declared", counted.queues_declared)
        yield counter("queues_created", "Queues created", counted.queues_created)
        yield counter("queues_deleted", "Queues deleted", counted.queues_deleted)
        yield counter("channel_messages_unroutable_dropped", "Unroutable messages dropped", counted.dropped)
        yield from self._logins()

    def _logins(self) -> Iterator[Metric | int]:
        attempts = CounterMetricFamily("rabbitmq_auth_attempts", "Logins tried", labels=["protocol"])
        succeeded = CounterMetricFamily(
            "rabbitmq_auth_attempts_succeeded", "Logins that succeeded", labels=["protocol"]
        )
        failed = CounterMetricFamily("rabbitmq_auth_attempts_failed", "Logins that failed", labels=["protocol"])
        by_protocol = self._node.logins.by_protocol
        for protocol in (_PROTOCOL, "http"):
            counted = by_protocol.get(protocol) or Attempts()
            attempts.add_metric([protocol], int(counted.succeeded + counted.failed))
            succeeded.add_metric([protocol], int(counted.succeeded))
            failed.add_metric([protocol], int(counted.failed))
        yield from (attempts, succeeded, failed)

    def _objects(self) -> Iterator[Metric | int]:
        queues = all_queues(self._context)
        yield len(queues) // _QUEUES_PER_UNIT
        consumers = 0
        for run in runs_of(queues):
            consumers += sum(int(queue.consumers.count) for queue in run)
            yield len(run) // 2
        self._consumers = consumers
        channels = sum(len(each.channels) for each in self._node.connections.values())
        yield gauge("connections", "Connections open", len(self._node.connections))
        yield gauge("channels", "Channels open", channels)
        yield gauge("consumers", "Consumers", consumers)
        yield gauge("queues", "Queues", len(queues))

    def _summed(self) -> Iterator[Metric | int]:
        for kind in kinds(self._node):
            for family in kind.families:
                value: int | float = 0
                for run in runs_of(kind.objects):
                    value += sum(family.value(each) for each in run)
                    yield len(run) // 2
                yield (
                    counter(family.name, family.help, value)
                    if family.is_counter
                    else gauge(family.name, family.help, value)
                )

    def _global(self) -> Iterator[Metric | int]:
        counted = self._node.counters
        channels = [channel for each in self._node.connections.values() for channel in each.channels.values()]
        published = counted.published + sum(int(each.counters.published) for each in channels)
        confirmed = counted.confirmed + sum(int(each.counters.confirmed) for each in channels)
        confirming = [each for each in channels if each.confirms is not None]
        yield by_protocol("messages_received", "Messages published", published)
        sizes = HistogramMetricFamily(
            "rabbitmq_message_size_bytes", "Size of messages received from publishers", labels=["protocol"]
        )
        sizes.add_metric([_PROTOCOL], counted.sizes.steps(), int(counted.sizes.bytes))
        yield sizes
        unanswered = sum(len(each.confirms.unconfirmed) for each in confirming if each.confirms is not None)
        yield by_protocol("messages_received_confirm", "Published with confirms", confirmed + unanswered)
        yield by_protocol("messages_confirmed", "Messages confirmed", confirmed)
        yield by_protocol("messages_routed", "Messages routed", counted.routed)
        yield by_protocol("messages_unroutable_returned", "Unroutable messages returned", counted.returned)
        yield by_protocol("messages_unroutable_dropped", "Unroutable messages dropped", counted.dropped)
        publishers = sum(1 for each in channels if each.counters.published > 0)
        queues = all_queues(self._context)
        yield len(queues) // _QUEUES_PER_UNIT
        yield labelled("publishers", "Channels that have published", publishers)
        yield labelled("consumers", "Consumers", self._consumers)
        yield from self._by_queue_type(queues)
        yield from self._dead_lettered()

    def _by_queue_type(self, queues: list[Queue]) -> Iterator[Metric | int]:
        totals = {type_: QueueCounters() for type_ in _QUEUE_TYPES}
        # Of queues that are there and of those that are gone: a counter never falls.
        for type_, past in self._node.past_queues.items():
            totals[type_].add(past)
        for run in runs_of(queues):
            for queue in run:
                totals[queue.type].add(queue.counters)
            yield len(run) // 2
        delivered = CounterMetricFamily(
            "rabbitmq_global_messages_delivered", "Messages delivered", labels=["protocol", "queue_type"]
        )
        for type_, label in _QUEUE_TYPES.items():
            each = totals[type_]
            sum_ = each.delivered + each.delivered_no_ack + each.got + each.got_no_ack
            delivered.add_metric([_PROTOCOL, label], int(sum_))
        yield delivered
        for name, attribute in _BY_QUEUE.items():
            family = CounterMetricFamily(
                f"rabbitmq_global_{name}", name.replace("_", " ").capitalize(), labels=["protocol", "queue_type"]
            )
            for type_, label in _QUEUE_TYPES.items():
                family.add_metric([_PROTOCOL, label], int(getattr(totals[type_], attribute)))
            yield family

    def _dead_lettered(self) -> Iterator[Metric | int]:
        for reason in _REASONS:
            family = CounterMetricFamily(
                f"rabbitmq_global_messages_dead_lettered_{reason}",
                f"Messages dead-lettered because of {reason}",
                labels=["queue_type", "dead_letter_strategy"],
            )
            for type_, label in _QUEUE_TYPES.items():
                if type_ != "stream":
                    count = self._node.dead_letters.counted.get((type_, reason), 0)
                    family.add_metric([label, "at_most_once"], count)
            yield family


class ObjectCollector:
    """Object by object."""

    def __init__(self, prefix: str, found: list[ObjectKind], groups: set[str]) -> None:
        self._prefix = prefix
        self._kinds = found
        self._groups = groups

    def collect(self) -> Iterator[Metric | int]:
        for kind in self._kinds:
            for family in kind.families:
                if family.group in self._groups:
                    yield from self._family(kind, family)

    def _family(self, kind: ObjectKind, family: Family) -> Iterator[Metric | int]:
        """In several of one name, of which `printed` takes the head once."""
        for run in runs_of(kind.objects) or [[]]:
            metric = (CounterMetricFamily if family.is_counter else GaugeMetricFamily)(
                f"{self._prefix}{family.name}", family.help, labels=kind.labels
            )
            for each in run:
                metric.add_metric(kind.labels_of(each), float(family.value(each)))
            yield metric
            yield len(run) * _SAMPLE_UNITS


def identity(context: Context, endpoint: str) -> Iterator[Metric | int]:
    """Dashboards join everything to these two, for the names of node and cluster and the versions."""
    node = context.node
    build = GaugeMetricFamily(
        "rabbitmq_build_info",
        "Version of the broker",
        labels=["rabbitmq_version", "prometheus_plugin_version", "erlang_version", "warren_version"],
    )
    # An empty label is none to Prometheus, and what dashboards take over by name would be missing.
    build.add_metric([RABBITMQ_VERSION, RABBITMQ_VERSION, "none", node.version], 1)
    yield build
    named = GaugeMetricFamily(
        "rabbitmq_identity_info",
        "Node",
        labels=["rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"],
    )
    settings = node.settings
    named.add_metric([settings.node_name, settings.cluster_name, settings.cluster_name, endpoint], 1)
    yield named


def all_queues(context: Context) -> list[Queue]:
    return [queue for vhost in context.node.vhosts.values() for queue in vhost.queues.values()]


def gauge(name: str, help: str, value: int | float) -> Metric:
    return GaugeMetricFamily(f"rabbitmq_{name}", help, value=float(value))


def counter(name: str, help: str, value: int | float) -> Metric:
    return CounterMetricFamily(f"rabbitmq_{name}", help, value=float(value))


def by_protocol(name: str, help: str, value: int | float) -> Metric:
    family = CounterMetricFamily(f"rabbitmq_global_{name}", help, labels=["protocol"])
    family.add_metric([_PROTOCOL], float(value))
    return family


def labelled(name: str, help: str, value: int | float) -> Metric:
    family = GaugeMetricFamily(f"rabbitmq_global_{name}", help, labels=["protocol"])
    family.add_metric([_PROTOCOL], float(value))
    return family


class _One(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


def runs_of(things: Sequence[Thing]) -> list[Sequence[Thing]]:
    return [things[start : start + RUN] for start in range(0, len(things), RUN)]


async def printed(pace: Pace, *found: Iterator[Metric | int]) -> Response:
    """Families, and between them what it has cost so far."""
    return await respond(texts(pace, chain(*found)), CONTENT_TYPE_LATEST)


async def texts(pace: Pace, found: Iterator[Metric | int]) -> AsyncIterator[bytes]:
    name = ""
    for each in found:
        if isinstance(each, int):
            await pace.spend(each)
            continue
        # What it prints needs nothing of a registry but its metrics.
        text = generate_latest(cast(CollectorRegistry, _One(each)))
        if each.name == name:
            text = b"".join([line for line in text.splitlines(True) if not line.startswith(b"#")])
        name = each.name
        yield text
        await pace.spend(_FAMILY_UNITS)


def pace_of(context: Context) -> Pace:
    """Of a request that nobody has logged in for."""
    context.tick()
    return Pace(context.node, context.tick)


async def show(request: Request) -> Response:
    context: Context = request.app.state.context
    return await printed(pace_of(context), NodeCollector(context).collect())


async def show_objects(call: Call) -> Response:
    """Every family, object by object."""
    return await objects_of(call.pace, call.context)


async def show_detailed(call: Call) -> Response:
    """Only the families that are asked for, and only of these vhosts."""
    return await details_of(call.pace, call.context, call.request.query_params)


async def show_objects_openly(request: Request) -> Response:
    context: Context = request.app.state.context
    return await objects_of(pace_of(context), context)


async def show_detailed_openly(request: Request) -> Response:
    context: Context = request.app.state.context
    return await details_of(pace_of(context), context, request.query_params)


async def objects_of(pace: Pace, context: Context) -> Response:
    objects = ObjectCollector("rabbitmq_", kinds(context.node), GROUPS)
    return await printed(pace, identity(context, "per-object"), objects.collect())


async def details_of(pace: Pace, context: Context, query: QueryParams) -> Response:
    asked = set(query.getlist("family"))
    unknown = sorted(asked - GROUPS)
    if unknown:
        raise bad_request(f"there is no family {unknown[0]}: take {', '.join(sorted(GROUPS))}")
    vhosts = query.getlist("vhost") or None
    collector = ObjectCollector("rabbitmq_detailed_", kinds(context.node, vhosts), asked)
    return await printed(pace, identity(context, "detailed"), collector.collect())


ROUTES: Final = [
    Route("/metrics", show),
    route("/metrics/per-object", Needs.MONITORING, GET=show_objects),
    route("/metrics/detailed", Needs.MONITORING, GET=show_detailed),
]
OPEN_ROUTES: Final = [
    Route("/metrics", show),
    Route("/metrics/per-object", show_objects_openly),
    Route("/metrics/detailed", show_detailed_openly),
]
