"""One message from a queue to where an operator wants it: moved to another queue, or back to where it died.

Within one turn and one write of the log: first into the new queues, then out of the old one. A crash can leave it in
both places, never in neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.fields import Field, Table
from warren.amqp.frames import body_of, content_frames
from warren.amqp.properties import encode_properties
from warren.broker.exchanges.base import Envelope
from warren.broker.message import Delivery, Entry, Message, Origin
from warren.broker.queue import Queue
from warren.broker.route import route

if TYPE_CHECKING:
    from warren.broker.vhost import VHost


class Address:
    """An exchange and the keys under which a message is to go there."""

    def __init__(self, exchange: str, keys: list[str]) -> None:
        self.exchange = exchange
        self.keys = keys


def find(queue: Queue, sequence: i64) -> Entry | None:
    """The ready message with that sequence, left where it is."""
    found = queue.browse(sequence - 1, 1)
    return found[0] if found and found[0].sequence == sequence else None


def drop(queue: Queue, sequence: i64) -> bool:
    """Out of the queue for good, dead-lettering nothing. False when it is not there."""
    entry = queue.backing.take(sequence)
    if entry is None:
        return False
    queue.backing.settle(entry)
    return True


def move(vhost: VHost, entry: Entry, address: Address, marks: Table) -> bool:
    """False when no queue took it, and then it stays where it was. `marks` are headers that it gets on the way."""
    node = vhost.node
    exchange = vhost.exchanges.get(address.exchange)
    if exchange is None:
        return False
    message = readdressed(entry.message, address, marks, node.settings.frame_max)
    properties = message.properties()
    envelope = Envelope(address.keys, properties.headers, properties.correlation_id or "", properties.message_id or "")
    delivery = Delivery(message, None, False, 0)
    is_taken = False
    for destination in route(vhost.exchanges, exchange, envelope):
        if isinstance(destination, Queue) and not destination.deleted and node.monitor.publish(destination, delivery):
            is_taken = True
    if is_taken:
        exchange.published_in += 1
        drop(entry.queue, entry.sequence)
    return is_taken


def readdressed(old: Message, address: Address, marks: Table, frame_max: int) -> Message:
    properties = old.properties()
    if marks:
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        headers.update(marks)
        properties.headers = headers
    content = content_frames(old.channel, encode_properties(properties), body_of(old.content), frame_max)
    message = Message(Origin(address.exchange, address.keys), content, old.channel, old.body_size)
    message.persistent = old.persistent
    message.priority = old.priority
    message.ttl = old.ttl
    return message


def origin_queue(headers: Table | None) -> str | None:
    """Where a dead letter first died."""
    return _text(headers, "x-first-death-queue") or _of_death(headers, "queue")


def origin_address(headers: Table | None) -> Address | None:
    """The exchange and keys with which a dead letter was published; None when it is no dead letter."""
    death = _first_death(headers)
    if death is None:
        return None
    exchange = death.get("exchange")
    keys = death.get("routing-keys")
    if exchange is None or keys is None or not isinstance(exchange.value, str) or not isinstance(keys.value, list):
        return None
    texts = [key.value for key in keys.value if isinstance(key.value, str)]
    return Address(exchange.value, texts) if texts else None


def redrive_marks(headers: Table | None) -> Table:
    """How often it was sent back, for whoever wonders why it is here again."""
    before = None if headers is None else headers.get("x-redrive-count")
    count = before.value if before is not None and isinstance(before.value, int) else 0
    return {"x-redrive-count": Field("l", count + 1)}


def _of_death(headers: Table | None, key: str) -> str | None:
    return _text(_first_death(headers), key)


def _first_death(headers: Table | None) -> Table | None:
    """The oldest: deaths are listed newest first."""
    field = None if headers is None else headers.get("x-death")
    if field is None or not isinstance(field.value, list) or not field.value:
        return None
    oldest = field.value[-1].value
    return oldest if isinstance(oldest, dict) else None


def _text(table: Table | None, key: str) -> str | None:
    field = None if table is None else table.get(key)
    return field.value if field is not None and isinstance(field.value, str) else None
