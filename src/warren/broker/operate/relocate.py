"""One message from a queue to where an operator wants it: moved to another queue, or back to where it died.

First into the new queues, then out of the old one; within one turn and one write of the log, unless the new ones are
very many. A crash can leave it in both places, never in neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.broker.exchanges.base import Exchange
from warren.broker.message import Message, Origin
from warren.broker.publish.republish import SOME_TOOK, FanOut, queues_for
from warren.broker.publish.x_death import Address
from warren.broker.queue.entry import Entry
from warren.broker.queue.monitor import Monitor
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


class Move(FanOut):
    """Nobody else gets it meanwhile; if no queue takes it, it is back where it was."""

    def __init__(
        self, monitor: Monitor, exchange: Exchange, message: Message, queues: list[Queue], entry: Entry
    ) -> None:
        super().__init__(monitor, exchange, message, queues, None)
        self._entry = entry
        self.is_done = False
        self.has_moved = False

    def done(self) -> None:
        queue = self._entry.queue
        self.is_done = True
        self.has_moved = self.said & SOME_TOOK != 0
        if self.has_moved and not queue.deleted:
            queue.backing.settle(self._entry)
        elif not self.has_moved:
            self._put_back()

    def failed(self) -> bool:
        # Also where some have it: in two places rather than in none.
        self.is_done = True
        self._put_back()
        return True

    def _put_back(self) -> None:
        queue = self._entry.queue
        if not self.has_lost(queue):
            queue.backing.requeue(self._entry)
            queue.node.drain_soon(queue)


def move(vhost: VHost, entry: Entry, address: Address, marks: Table) -> Move | None:
    """Done at once, or over some turns where it goes to very many queues. None when it cannot begin. `marks` are
    headers that it gets on the way.
    """
    exchange = vhost.exchanges.get(address.exchange)
    if exchange is None:
        return None
    message = readdressed(entry.message, address, marks, vhost.node.settings.frame_max)
    queues = queues_for(vhost, exchange, message)
    if entry.queue.backing.take(entry.sequence) is None:
        return None
    exchange.published_in += 1
    moving = Move(vhost.node.monitor, exchange, message, queues, entry)
    moving.begin(vhost.node.errands)
    return moving


def readdressed(old: Message, address: Address, marks: Table, frame_max: int) -> Message:
    properties = old.properties()
    if marks:
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        headers.update(marks)
        properties.headers = headers
    return old.changed(Origin(address.exchange, address.keys), properties, frame_max)
