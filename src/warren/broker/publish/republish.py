"""Into the queues: the one loop over them, with its counters, and the broker's own way of publishing.

A dead letter, a message whose delay is over, one that an operator moves, an event: each goes the way that a publish
goes once it is checked. The same message comes to the same queues and is counted alike, whoever sends it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.exchanges.base import Destination, Envelope, Exchange
from warren.broker.exchanges.route import is_cacheable, route
from warren.broker.message import Message
from warren.broker.queue.errands import Budget, Errand
from warren.broker.queue.outcome import FAILED, REFUSED, SCHEDULED
from warren.broker.queue.queue import Queue
from warren.broker.session.observer import Observer

if TYPE_CHECKING:
    from warren.broker.queue.monitor import Monitor
    from warren.broker.vhost.vhost import VHost

# What the queues said, all in one number: some took it, some were full, some broke, it is in one that keeps it on disk,
# and it is in a stream.
SOME_TOOK: Final[i64] = 1
SOME_REFUSED: Final[i64] = 2
SOME_FAILED: Final[i64] = 4
IS_KEPT: Final[i64] = 8
IS_STREAMED: Final[i64] = 16
# To more queues than these a message goes in pieces, and what a queue costs: in memory, and where it is kept.
WIDE: Final = 16
_QUEUE_UNITS: Final[i64] = 1
_KEPT_UNITS: Final[i64] = 3


def deliver(
    monitor: Monitor, exchange: Exchange, message: Message, queues: list[Queue], observer: Observer | None
) -> i64:
    """To every queue; what they said."""
    said: i64 = 0
    for queue in queues:
        # A queue deleted since the message was routed (a transaction) drops out silently.
        if queue.deleted:
            continue
        outcome = monitor.publish(queue, message)
        if observer is not None:
            observer.queued(queue, outcome)
        # What is held back leaves the exchange when its time has come.
        if outcome != SCHEDULED:
            exchange.published_out += 1
        if outcome == REFUSED:
            said |= SOME_REFUSED
        elif outcome == FAILED:
            said |= SOME_FAILED
        else:
            said |= SOME_TOOK
            if queue.keeps_all:
                said |= IS_STREAMED | IS_KEPT
            elif message.persistent and queue.durable:
                said |= IS_KEPT
    return said


class FanOut(Errand):
    """One message to very many queues. Whoever waits for an answer hears of it when it is in all of them."""

    def __init__(
        self, monitor: Monitor, exchange: Exchange, message: Message, queues: list[Queue], observer: Observer | None
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self._exchange = exchange
        self.message = message
        self.queues = queues
        self.observer = observer
        self.said: i64 = 0
        self._at: i64 = 0

    def step(self, budget: Budget) -> bool:
        each = _KEPT_UNITS if self.message.persistent else _QUEUE_UNITS
        count: i64 = len(self.queues)
        while self._at < count:
            if budget.left <= 0:
                return False
            end = min(count, self._at + budget.left // each + 1)
            some = self.queues[self._at : end]
            self.said |= self.give(some)
            budget.spend((end - self._at) * each)
            self._at = end
        self.done()
        return True

    def give(self, queues: list[Queue]) -> i64:
        return deliver(self.monitor, self._exchange, self.message, queues, self.observer)

    def done(self) -> None:
        """It is everywhere, and what the queues said is known."""


def queues_for(vhost: VHost, exchange: Exchange, message: Message) -> list[Queue]:
    """Where the exchange sends this message."""
    return queues_in(route(vhost.exchanges, exchange, envelope_for(vhost, exchange, message)))


def envelope_for(vhost: VHost, exchange: Exchange, message: Message) -> Envelope:
    """Properties are decoded only where more than the keys decides."""
    if is_cacheable(vhost.exchanges, exchange):
        return Envelope(message.origin.keys)
    return Envelope.of(message, vhost.node.host.draw())


def queues_in(destinations: list[Destination]) -> list[Queue]:
    found: list[Queue] = []
    for destination in destinations:
        if isinstance(destination, Queue):
            found.append(destination)
    return found


def republish(vhost: VHost, exchange: Exchange, message: Message) -> i64:
    """As if somebody who may had published it; what its queues said, 0 when there was none."""
    return republish_to(vhost, exchange, message, queues_for(vhost, exchange, message))


def republish_to(vhost: VHost, exchange: Exchange, message: Message, queues: list[Queue]) -> i64:
    exchange.published_in += 1
    return deliver(vhost.node.monitor, exchange, message, queues, None)
