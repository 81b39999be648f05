"""Direct reply-to: answers that go straight to the requester's channel, without a queue.

A requester consumes from the pseudo queue amq.rabbitmq.reply-to and publishes with that name as reply_to; the broker
writes the channel's own address in its place. Publishing to that address through the default exchange delivers at
once or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.amqp.constants import REPLY_QUEUE
from warren.amqp.frames import spliced
from warren.amqp.properties import PropertyPeek
from warren.broker.message import NEVER, Message, short
from warren.broker.queue.entry import Entry
from warren.errors import NotFound, PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.consumer import Consumer
    from warren.broker.session.channel import Channel
    from warren.broker.session.house import House

_PREFIX: Final = f"{REPLY_QUEUE}."


def is_reply_address(name: str) -> bool:
    return name.startswith(_PREFIX)


def open_reply_queue(channel: Channel, consumer: Consumer) -> None:
    node = channel.connection.node
    channel.reply_address = _PREFIX + node.host.token()
    channel.reply_consumer = consumer
    node.reply_channels[channel.reply_address] = channel


def name_reply_address(channel: Channel, message: Message, peek: PropertyPeek) -> None:
    """reply_to said "the reply queue of this channel": write its real address into the message."""
    if channel.reply_consumer is None:
        raise PreconditionFailed("fast reply consumer does not exist")
    message.content = spliced(message.content, peek.reply_to_start, peek.reply_to_end, short(channel.reply_address))


def deliver_replies(node: House, message: Message) -> bool:
    """To those of its addresses whose requester is still there and reads; False when there is none. Nothing is kept
    for one who left."""
    origin = message.origin
    if origin.exchange != "":
        return False
    is_delivered = False
    for address in dict.fromkeys(origin.keys):
        channel = node.reply_channels.get(address)
        if channel is None or channel.reply_consumer is None or channel.connection.is_unread():
            continue
        channel.connection.owes(message.body_size)
        consumer = channel.reply_consumer
        consumer.send(Entry(message, consumer.queue, 0, NEVER), channel.unacked.skip())
        is_delivered = True
    return is_delivered


def check_reply_address(node: House, address: str, vhost: str) -> None:
    if address != REPLY_QUEUE and address not in node.reply_channels:
        raise NotFound(f"no queue '{address}' in vhost '{vhost}'")
