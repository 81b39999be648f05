"""What Prometheus can read of queues, channels, connections and exchanges: each family, summed or by object.

Names, helps and groups (the `family` of /metrics/detailed) are those of RabbitMQ's plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warren.broker.exchanges.base import Exchange
from warren.broker.node import Node
from warren.broker.queue.queue import Queue
from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection
from warren.management.names import channel_name


@dataclass(frozen=True)
class Family:
    group: str
    name: str
    help: str
    value: Callable[[Any], int | float]
    is_counter: bool = False


QUEUES: Final[Sequence[Family]] = (
    Family("queue_coarse_metrics", "queue_messages_ready", "Messages ready to be delivered",
           lambda queue: queue.backing.length),
    Family("queue_coarse_metrics", "queue_messages_unacked", "Messages delivered and not yet acknowledged",
           lambda queue: queue.unacked),
    Family("queue_coarse_metrics", "queue_messages", "Sum of ready and unacknowledged messages",
           lambda queue: queue.count()),
    Family("queue_consumer_count", "queue_consumers", "Consumers on a queue", lambda queue: queue.consumers.count),
    Family("queue_metrics", "queue_consumer_capacity", "1 while consumers could take more",
           lambda queue: int(queue.is_keeping_up())),
    Family("queue_metrics", "queue_consumer_utilisation", "Same as capacity",
           lambda queue: int(queue.is_keeping_up())),
    Family("queue_metrics", "queue_messages_ram", "Ready and unacknowledged messages in memory",
           lambda queue: queue.backing.length - queue.backing.paged + queue.unacked),
    Family("queue_metrics", "queue_messages_ready_ram", "Ready messages in memory",
           lambda queue: queue.backing.length - queue.backing.paged),
    Family("queue_metrics", "queue_messages_unacked_ram", "Unacknowledged messages in memory",
           lambda queue: queue.unacked),
    Family("queue_metrics", "queue_messages_bytes", "Bytes ready and unacknowledged",
           lambda queue: queue.backing.body_bytes + queue.unacked_bytes),
    Family("queue_metrics", "queue_messages_ready_bytes", "Bytes ready", lambda queue: queue.backing.body_bytes),
    Family("queue_metrics", "queue_messages_unacked_bytes", "Bytes unacknowledged", lambda queue: queue.unacked_bytes),
    Family("queue_metrics", "queue_messages_paged_out", "Messages on disk only", lambda queue: queue.backing.paged),
    Family("channel_queue_exchange_metrics", "queue_messages_published", "Messages put into queues",
           lambda queue: queue.counters.published, True),
    Family("channel_queue_metrics", "channel_get_ack", "Got with basic.get, to be acknowledged",
           lambda queue: queue.counters.got, True),
    Family("channel_queue_metrics", "channel_get", "Got with basic.get, acknowledged at once",
           lambda queue: queue.counters.got_no_ack, True),
    Family("channel_queue_metrics", "channel_get_empty", "Times basic.get found nothing",
           lambda queue: queue.counters.got_empty, True),
    Family("channel_queue_metrics", "channel_messages_delivered_ack", "Delivered to consumers who acknowledge",
           lambda queue: queue.counters.delivered, True),
    Family("channel_queue_metrics", "channel_messages_delivered", "Delivered to consumers who do not acknowledge",
           lambda queue: queue.counters.delivered_no_ack, True),
    Family("channel_queue_metrics", "channel_messages_redelivered", "Delivered again",
           lambda queue: queue.counters.redelivered, True),
    Family("channel_queue_metrics", "channel_messages_acked", "Acknowledged",
           lambda queue: queue.counters.acked, True),
)  # fmt: skip

CHANNELS: Final[Sequence[Family]] = (
    Family("channel_metrics", "channel_consumers", "Consumers on a channel", lambda channel: len(channel.consumers)),
    Family("channel_metrics", "channel_messages_unacked", "Delivered and not yet acknowledged",
           lambda channel: channel.unacked.count),
    Family("channel_metrics", "channel_messages_unconfirmed", "Published and not yet confirmed",
           lambda channel: 0 if channel.confirms is None else len(channel.confirms.unconfirmed)),
    Family("channel_metrics", "consumer_prefetch", "Prefetch of new consumers",
           lambda channel: channel.consumer_prefetch),
    Family("channel_metrics", "channel_prefetch", "Prefetch of the whole channel", lambda channel: channel.prefetch),
    Family("channel_exchange_metrics", "channel_messages_published", "Published on a channel",
           lambda channel: channel.counters.published, True),
    Family("channel_exchange_metrics", "channel_messages_confirmed", "Confirmed to publishers",
           lambda channel: channel.counters.confirmed, True),
    Family("channel_exchange_metrics", "channel_messages_unroutable_returned", "Returned to publishers",
           lambda channel: channel.counters.returned, True),
)  # fmt: skip

CONNECTIONS: Final[Sequence[Family]] = (
    Family("connection_coarse_metrics", "connection_incoming_bytes", "Bytes received",
           lambda connection: connection.received_bytes, True),
    Family("connection_coarse_metrics", "connection_outgoing_bytes", "Bytes sent",
           lambda connection: connection.sent_bytes, True),
    Family("connection_metrics", "connection_incoming_packets", "Reads of sockets",
           lambda connection: connection.received_reads, True),
    Family("connection_metrics", "connection_outgoing_packets", "Writes to sockets",
           lambda connection: connection.sent_writes, True),
    Family("connection_metrics", "connection_pending_packets", "Bytes that wait to be sent",
           lambda connection: connection.pending_output),
    Family("connection_metrics", "connection_channels", "Channels of a connection",
           lambda connection: len(connection.channels)),
)  # fmt: skip

EXCHANGES: Final[Sequence[Family]] = (
    Family("exchange_bindings", "exchange_bindings", "Bindings that leave an exchange",
           lambda exchange: len(exchange.bindings)),
)  # fmt: skip

GROUPS: Final = {each.group for families in (QUEUES, CHANNELS, CONNECTIONS, EXCHANGES) for each in families}


@dataclass
class ObjectKind:
    """Objects of one kind, with their labels."""

    families: Sequence[Family]
    labels: tuple[str, ...]
    objects: Sequence[Any]
    labels_of: Callable[[Any], tuple[str, ...]]


def kinds(node: Node, vhosts: Iterable[str] | None = None) -> list[ObjectKind]:
    """Of all vhosts, or of these."""
    wanted = set(node.vhosts) if vhosts is None else set(vhosts)
    places = [vhost for vhost in node.vhosts.values() if vhost.name in wanted]
    connections: list[Connection] = [
        each for each in node.connections.values() if each.vhost is not None and each.vhost.name in wanted
    ]
    channels: list[Channel] = [channel for each in connections for channel in each.channels.values()]
    queues: list[Queue] = [queue for vhost in places for queue in vhost.queues.values()]
    exchanges: list[Exchange] = [exchange for vhost in places for exchange in vhost.exchanges.values()]
    return [
        ObjectKind(QUEUES, ("vhost", "queue"), queues, lambda each: (each.vhost, each.name)),
        ObjectKind(CHANNELS, ("channel",), channels, lambda each: (channel_name(each),)),
        ObjectKind(CONNECTIONS, ("connection",), connections, lambda each: (each.name,)),
        ObjectKind(EXCHANGES, ("vhost", "exchange"), exchanges, lambda each: (each.vhost, each.name)),
    ]
