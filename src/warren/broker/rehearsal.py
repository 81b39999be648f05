"""A publish that is not made: the checks and the routing of basic.publish itself, and what each queue is like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicPublish, encode_method
from warren.amqp.properties import Properties, encode_properties
from warren.broker.channel import Channel
from warren.broker.connection import Connection
from warren.broker.exchanges.base import Envelope, Exchange
from warren.broker.journey import Journey
from warren.broker.message import Message
from warren.broker.publish import examine
from warren.broker.queue import Queue
from warren.broker.watcher import Watcher, limits_of, note_route
from warren.broker.world import NoWire
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.vhost import VHost


def rehearse(vhost: VHost, user: str, exchange: str, key: str, properties: Properties) -> Journey:
    """A journey that is not kept."""
    node = vhost.node
    journey = Journey(node, 0, vhost.name, "", user, node.host.stopwatch())
    journey.exchange = exchange
    journey.routing_key = key
    connection = Connection.within(node, NoWire(), user, vhost)
    channel = Channel(connection, 1)
    try:
        arguments = encode_method(BasicPublish(exchange=exchange, routing_key=key))
        content = content_frames(1, encode_properties(properties), b"", 0)
        delivery = examine(channel, arguments, content, 0, _Rehearsing(channel, vhost, journey))
    except AmqpError as error:
        journey.refuse(error)
        return journey
    finally:
        connection.lost()
    for queue in delivery.queues:
        journey.note("queue", _prospect(queue))
    journey.outcome = "would be routed" if delivery.queues else "would be dropped, or returned if mandatory"
    return journey


class _Rehearsing(Watcher):
    """Notes what a journey notes, and shows nothing to the firehose and to those who sample."""

    def __init__(self, channel: Channel, vhost: VHost, journey: Journey) -> None:
        super().__init__(channel, journey, None)
        self._vhost = vhost
        self._noted = journey

    def routed(self, exchange: Exchange, message: Message, envelope: Envelope, queues: list[Queue]) -> None:
        note_route(self._noted, self._vhost.exchanges, exchange, envelope, queues)


def _prospect(queue: Queue) -> str:
    held = f"'{queue.name}' holds {queue.backing.length} messages and has {queue.consumers.count} consumers"
    return "; ".join([held, *limits_of(queue)])
