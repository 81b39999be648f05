"""One message from a queue to where an operator wants it: moved to another queue, or back to where it died.

Within one turn and one write of the log: first into the new queues, then out of the old one. A crash can leave it in
both places, never in neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.broker.message import Message, Origin
from warren.broker.publish.republish import SOME_TOOK, republish
from warren.broker.publish.x_death import Address
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue

if TYPE_CHECKING:
    from warren.broker.vhost.vhost import VHost


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
    exchange = vhost.exchanges.get(address.exchange)
    if exchange is None:
        return False
    message = readdressed(entry.message, address, marks, vhost.node.settings.frame_max)
    if not republish(vhost, exchange, message) & SOME_TOOK:
        return False
    drop(entry.queue, entry.sequence)
    return True


def readdressed(old: Message, address: Address, marks: Table, frame_max: int) -> Message:
    properties = old.properties()
    if marks:
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        headers.update(marks)
        properties.headers = headers
    return old.changed(Origin(address.exchange, address.keys), properties, frame_max)
