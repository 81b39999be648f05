"""/metrics: what Prometheus reads, under RabbitMQ's names. Collected when asked for; nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mypy_extensions import i64
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from warren.broker.channel import Channel
from warren.broker.queue import Queue
from warren.management.calls import Context

_PROTOCOL: Final = "amqp091"
_QUEUE_TYPES: Final = {
    "classic": "rabbit_classic_queue",
    "quorum": "rabbit_quorum_queue",
    "stream": "rabbit_stream_queue",
}


class NodeCollector(Collector):
    def __init__(self, context: Context) -> None:
        self._context = context
        self._node = context.node

    def collect(self) -> Iterable[Metric]:
        queues = [queue for vhost in self._node.vhosts.values() for queue in vhost.queues.values()]
        channels = [channel for each in self._node.connections.values() for channel in each.channels.values()]
        yield from self._identity()
        yield from self._process()
        yield from self._churn()
        yield from self._objects(queues, channels)
        yield from self._queues(queues)
        yield from self._channels(channels)
        yield from self._global(queues, channels)

    def _identity(self) -> Iterator[Metric]:
        settings = self._node.settings
        build = GaugeMetricFamily(
            "rabbitmq_build_info", "Version of the broker", labels=["rabbitmq_version", "warren_version"]
        )
        build.add_metric(["3.13.7", self._node.version], 1)
        yield build
        identity = GaugeMetricFamily("rabbitmq_identity_info", "Node", labels=["rabbitmq_node", "rabbitmq_cluster"])
        identity.add_metric([settings.node_name, settings.cluster_name], 1)
        yield identity

    def _process(self) -> Iterator[Metric]:
        context, alarms = self._context, self._node.alarms
        yield gauge("alarms_memory_used_watermark", "1 while memory is short", int("memory" in alarms))
        yield gauge("alarms_free_disk_space_watermark", "1 while disk is short", int("disk" in alarms))
        yield gauge("process_resident_memory_bytes", "Memory used", context.memory_used())
        yield gauge("resident_memory_limit_bytes", "Memory above which publishers block", context.memory_limit)
        yield gauge("disk_space_available_bytes", "Disk space left", context.disk_free())
        yield gauge(
            "disk_space_available_limit_bytes", "Disk space below which publishers block", context.disk_free_limit
        )
        yield gauge("process_max_fds", "Open files limit", context.file_limit)

    def _churn(self) -> Iterator[Metric]:
        counted = self._node.counters
        yield counter("connections_opened", "Connections opened", counted.connections_opened)
        yield counter("connections_closed", "Connections closed", counted.connections_closed)
        yield counter("channels_opened", "Channels opened", counted.channels_opened)
        yield counter("channels_closed", "Channels closed", counted.channels_closed)
        yield counter("queues_declared", "Queues declared", counted.queues_declared)
        yield counter("queues_created", "Queues created", counted.queues_created)
        yield counter("queues_deleted", "Queues deleted", counted.queues_deleted)

    def _objects(self, queues: list[Queue], channels: list[Channel]) -> Iterator[Metric]:
        yield gauge("connections", "Connections open", len(self._node.connections))
        yield gauge("channels", "Channels open", len(channels))
        yield gauge("consumers", "Consumers", sum(queue.consumers.count for queue in queues))
        yield gauge("queues", "Queues", len(queues))
        received = sum(each.received_bytes for each in self._node.connections.values())
        sent = sum(each.sent_bytes for each in self._node.connections.values())
        yield counter("connection_incoming_bytes", "Bytes received on open connections", received)
        yield counter("connection_outgoing_bytes", "Bytes sent on open connections", sent)

    def _queues(self, queues: list[Queue]) -> Iterator[Metric]:
        ready = sum(queue.backing.length for queue in queues)
        unacked = sum(queue.unacked for queue in queues)
        ready_bytes = sum(queue.backing.body_bytes for queue in queues)
        unacked_bytes = sum(queue.unacked_bytes for queue in queues)
        yield gauge("queue_messages", "Messages ready and unacknowledged", ready + unacked)
        yield gauge("queue_messages_ready", "Messages ready", ready)
        yield gauge("queue_messages_unacked", "Messages unacknowledged", unacked)
        yield gauge("queue_messages_bytes", "Bytes ready and unacknowledged", ready_bytes + unacked_bytes)
        yield gauge("queue_messages_ready_bytes", "Bytes ready", ready_bytes)
        yield gauge("queue_messages_unacked_bytes", "Bytes unacknowledged", unacked_bytes)
        yield gauge("queue_consumers", "Consumers on queues", sum(queue.consumers.count for queue in queues))
        yield counter("queue_messages_published", "Messages put into queues", sum(q.counters.published for q in queues))

    def _channels(self, channels: list[Channel]) -> Iterator[Metric]:
        yield gauge("channel_consumers", "Consumers on channels", sum(len(each.consumers) for each in channels))
        yield gauge("channel_messages_unacked", "Unacknowledged", sum(each.unacked.count for each in channels))
        unconfirmed = sum(len(each.confirms.unconfirmed) for each in channels if each.confirms is not None)
        yield gauge("channel_messages_unconfirmed", "Published and not yet confirmed", unconfirmed)

    def _global(self, queues: list[Queue], channels: list[Channel]) -> Iterator[Metric]:
        counted = self._node.counters
        yield by_protocol("messages_routed", "Messages routed", counted.routed)
        yield by_protocol("messages_unroutable_returned", "Unroutable messages returned", counted.returned)
        yield by_protocol("messages_unroutable_dropped", "Unroutable messages dropped", counted.dropped)
        consumers = GaugeMetricFamily("rabbitmq_global_consumers", "Consumers", labels=["protocol"])
        consumers.add_metric([_PROTOCOL], sum(int(queue.consumers.count) for queue in queues))
        yield consumers
        names = {
            "messages_delivered_consume_manual_ack": [int(queue.counters.delivered) for queue in queues],
            "messages_delivered_consume_auto_ack": [int(queue.counters.delivered_no_ack) for queue in queues],
            "messages_delivered_get_manual_ack": [int(queue.counters.got) for queue in queues],
            "messages_delivered_get_auto_ack": [int(queue.counters.got_no_ack) for queue in queues],
            "messages_get_empty": [int(queue.counters.got_empty) for queue in queues],
            "messages_redelivered": [int(queue.counters.redelivered) for queue in queues],
            "messages_acknowledged": [int(queue.counters.acked) for queue in queues],
        }
        for name, values in names.items():
            yield by_queue_type(name, queues, values)


def gauge(name: str, help: str, value: i64) -> Metric:
    return GaugeMetricFamily(f"rabbitmq_{name}", help, value=int(value))


def counter(name: str, help: str, value: i64) -> Metric:
    return CounterMetricFamily(f"rabbitmq_{name}", help, value=int(value))


def by_protocol(name: str, help: str, value: i64) -> Metric:
    family = CounterMetricFamily(f"rabbitmq_global_{name}", help, labels=["protocol"])
    family.add_metric([_PROTOCOL], int(value))
    return family


def by_queue_type(name: str, queues: list[Queue], values: list[int]) -> Metric:
    family = CounterMetricFamily(
        f"rabbitmq_global_{name}", name.replace("_", " ").capitalize(), labels=["protocol", "queue_type"]
    )
    for type_, label in _QUEUE_TYPES.items():
        total = sum(value for queue, value in zip(queues, values, strict=True) if queue.type == type_)
        family.add_metric([_PROTOCOL, label], total)
    return family


async def show(request: Request) -> Response:
    registry = CollectorRegistry()
    registry.register(NodeCollector(request.app.state.context))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


# Without a login, as RabbitMQ's: there are numbers here, no names.
ROUTES: Final = [Route("/metrics", show)]
