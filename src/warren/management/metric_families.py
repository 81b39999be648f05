"""What Prometheus can read of queues, channels, connections and exchanges: each family, summed or by object.

Names, helps and groups (the `family` of /metrics/detailed) are those of RabbitMQ's plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
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


def _gauge(group: str, name: str, text: str, attribute: str) -> Family:
    return Family(group, name, text, attrgetter(attribute))


def _counter(group: str, name: str, text: str, attribute: str) -> Family:
    return Family(group, name, text, attrgetter(attribute), True)


QUEUES: Final[Sequence[Family]] = (
    _gauge("queue_coarse_metrics", "queue_messages_ready", "Messages ready to be delivered", "backing.length"),
    _gauge("queue_coarse_metrics", "queue_messages_unacked", "Messages delivered and not yet acknowledged", "unacked"),
    Family("queue_coarse_metrics", "queue_messages", "Sum of ready and unacknowledged messages",
           lambda queue: queue.count()),
    _gauge("queue_consumer_count", "queue_consumers", "Consumers on a queue", "consumers.count"),
    Family("queue_metrics", "queue_consumer_capacity", "1 while consumers could take more",
           lambda queue: int(queue.is_keeping_up())),
    Family("queue_metrics", "queue_consumer_utilisation", "Same as capacity",
           lambda queue: int(queue.is_keeping_up())),
    Family("queue_metrics", "queue_messages_ram", "Ready and unacknowledged messages in memory",
           lambda queue: queue.backing.length - queue.backing.paged + queue.unacked),
    Family("queue_metrics", "queue_messages_ready_ram", "Ready messages in memory",
           lambda queue: queue.backing.length - queue.backing.paged),
    _gauge("queue_metrics", "queue_messages_unacked_ram", "Unacknowledged messages in memory", "unacked"),
    Family("queue_metrics", "queue_messages_bytes", "Bytes ready and unacknowledged",
           lambda queue: queue.backing.body_bytes + queue.unacked_bytes),
    _gauge("queue_metrics", "queue_messages_ready_bytes", "Bytes ready", "backing.body_bytes"),
    _gauge("queue_metrics", "queue_messages_unacked_bytes", "Bytes unacknowledged", "unacked_bytes"),
    _gauge("queue_metrics", "queue_messages_paged_out", "Messages on disk only", "backing.paged"),
    _counter("channel_queue_exchange_metrics", "queue_messages_published", "Messages put into queues",
             "counters.published"),
    _counter("channel_queue_metrics", "channel_get_ack", "Got with basic.get, to be acknowledged", "counters.got"),
    _counter("channel_queue_metrics", "channel_get", "Got with basic.get, acknowledged at once", "counters.got_no_ack"),
    _counter("channel_queue_metrics", "channel_get_empty", "Times basic.get found nothing", "counters.got_empty"),
    _counter("channel_queue_metrics", "channel_messages_delivered_ack", "Delivered to consumers who acknowledge",
             "counters.delivered"),
    _counter("channel_queue_metrics", "channel_messages_delivered", "Delivered to consumers who do not acknowledge",
             "counters.delivered_no_ack"),
    _counter("channel_queue_metrics", "channel_messages_redelivered", "Delivered again", "counters.redelivered"),
    _counter("channel_queue_metrics", "channel_messages_acked", "Acknowledged", "counters.acked"),
)  # fmt: skip

CHANNELS: Final[Sequence[Family]] = (
    Family("channel_metrics", "channel_consumers", "Consumers on a channel", lambda channel: len(channel.consumers)),
    _gauge("channel_metrics", "channel_messages_unacked", "Delivered and not yet acknowledged", "unacked.count"),
    Family("channel_metrics", "channel_messages_unconfirmed", "Published and not yet confirmed",
           lambda channel: 0 if channel.confirms is None else len(channel.confirms.unconfirmed)),
    _gauge("channel_metrics", "consumer_prefetch", "Prefetch of new consumers", "consumer_prefetch"),
    _gauge("channel_metrics", "channel_prefetch", "Prefetch of the whole channel", "prefetch"),
    _counter("channel_exchange_metrics", "channel_messages_published", "Published on a channel", "counters.published"),
    _counter("channel_exchange_metrics", "channel_messages_confirmed", "Confirmed to publishers", "counters.confirmed"),
    _counter("channel_exchange_metrics", "channel_messages_unroutable_returned", "Returned to publishers",
             "counters.returned"),
)  # fmt: skip

CONNECTIONS: Final[Sequence[Family]] = (
    _counter("connection_coarse_metrics", "connection_incoming_bytes", "Bytes received", "received_bytes"),
    _counter("connection_coarse_metrics", "connection_outgoing_bytes", "Bytes sent", "sent_bytes"),
    _counter("connection_metrics", "connection_incoming_packets", "Reads of sockets", "received_reads"),
    _counter("connection_metrics", "connection_outgoing_packets", "Writes to sockets", "sent_writes"),
    _gauge("connection_metrics", "connection_pending_packets", "Bytes that wait to be sent", "pending_output"),
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
