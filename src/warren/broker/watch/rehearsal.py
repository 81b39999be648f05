"""A publish that is not made: the checks and the routing of basic.publish itself, and what each queue is like."""

from __future__ import annotations

from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicPublish, encode_method
from warren.amqp.properties import Properties, encode_properties
from warren.broker.exchanges.base import Envelope, Exchange
from warren.broker.message import Message
from warren.broker.publish.publish import examine
from warren.broker.queue.queue import Queue
from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection
from warren.broker.vhost.vhost import VHost
from warren.broker.watch.journey import Journey
from warren.broker.watch.watcher import Watch, Watcher, limits_of, note_route
from warren.broker.world import Wire
from warren.errors import AmqpError


def rehearse(watch: Watch, vhost: VHost, user: str, exchange: str, key: str, properties: Properties) -> Journey:
    """A journey that is not kept."""
    node = watch.node
    journey = Journey(node, 0, vhost.name, "", user, node.host.stopwatch())
    journey.exchange = exchange
    journey.routing_key = key
    connection = Connection(node, Wire(), -1, "127.0.0.1", 0, "127.0.0.1", 0, False, None)
    connection.user = user
    connection.opened(vhost)
    channel = Channel(connection, 1)
    try:
        arguments = encode_method(BasicPublish(exchange=exchange, routing_key=key))
        content = content_frames(1, encode_properties(properties), b"", 0)
        delivery = examine(channel, arguments, content, 0, _Rehearsing(watch, channel, journey))
    except AmqpError as error:
        journey.refuse(error)
        return journey
    finally:
        connection.lost()
    for queue in delivery.queues:
        journey.note("queue", _prospect(queue))
    is_held_back = any(queue.is_schedule for queue in delivery.queues)
    journey.outcome = "would be dropped, or returned if mandatory"
    if delivery.queues:
        journey.outcome = "would be scheduled" if is_held_back else "would be routed"
    return journey


class _Rehearsing(Watcher):
    """Notes what a journey notes, and shows nothing to the firehose and to those who sample."""

    def __init__(self, watch: Watch, channel: Channel, journey: Journey) -> None:
        super().__init__(watch, channel, journey)
        self._exchanges = channel.vhost.exchanges
        self._noted = journey

    def routed(self, exchange: Exchange, message: Message, envelope: Envelope, queues: list[Queue]) -> None:
        note_route(self._noted, self._exchanges, exchange, envelope, queues)


def _prospect(queue: Queue) -> str:
    if queue.is_schedule:
        return f"it would wait in the schedule of exchange '{queue.name}', with {queue.backing.length} others"
    held = f"'{queue.name}' holds {queue.backing.length} messages and has {queue.consumers.count} consumers"
    return "; ".join([held, *limits_of(queue)])
