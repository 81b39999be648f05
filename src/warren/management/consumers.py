"""/api/consumers"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from warren.amqp.fields import plain_table
from warren.broker.queue.consumer import Consumer
from warren.broker.session.channel import Channel
from warren.management.calls import Call, route
from warren.management.listing import Item
from warren.management.names import channel_name


def describe(call: Call, consumer: Consumer) -> Item:
    channel = consumer.channel
    assert isinstance(channel, Channel)
    connection = channel.connection
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.vhost},
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "active": consumer.active,
        "activity_status": "single_active" if consumer.queue.single_active and consumer.active else status(consumer),
        "prefetch_count": int(consumer.prefetch),
        "arguments": plain_table(consumer.arguments),
        "channel_details": {
            "name": channel_name(channel),
            "number": int(channel.number),
            "connection_name": connection.name,
            "peer_host": connection.peer_host,
            "peer_port": connection.peer_port,
            "node": call.node.settings.node_name,
            "user": connection.user,
        },
    }


def status(consumer: Consumer) -> str:
    return "up" if consumer.active or consumer.is_browser else "waiting"


async def list_consumers(call: Call) -> Response:
    consumers: list[Consumer] = []
    for vhost in call.vhosts():
        for queue in list(vhost.queues.values()):
            if queue.consumers.count > 0:
                consumers += queue.consumers.all()
            await call.pace.spend(1)
    return await call.listing(consumers, partial(describe, call))


ROUTES: Final = [
    route("/api/consumers", GET=list_consumers),
    route("/api/consumers/{vhost}", GET=list_consumers),
]
