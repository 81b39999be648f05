"""Into the queues: the one loop over them, with its counters, and the broker's own way of publishing.

A dead letter, a message whose delay is over, one that an operator moves, an event: each goes the way that a publish
goes once it is checked. The same message comes to the same queues and is counted alike, whoever sends it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import i64

from warren.broker.exchanges.base import Destination, Envelope, Exchange
from warren.broker.exchanges.route import is_cacheable, route
from warren.broker.message import Message
from warren.broker.queue.errands import Budget, Errand, Errands
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
        self.exchange = exchange
        self.message = message
        self.queues = queues
        self.observer = observer
        self.each: i64 = _KEPT_UNITS if message.persistent else _QUEUE_UNITS
        self.said: i64 = 0
        self._at: i64 = 0
        self._failures: i64 = monitor.failures

    def is_wide(self) -> bool:
        return len(self.queues) > WIDE

    def begin(self, errands: Errands) -> None:
        """At once, or over some turns where it is wide."""
        if self.is_wide():
            errands.add(self)
        else:
            self.finish()

    def finish(self) -> None:
        """All of it at once, for what is not wide. Of one that failed at the very end, only that."""
        if self._at == 0:
            self.said = self.give(self.queues)
            self._at = len(self.queues)
        self.done()

    def step(self, budget: Budget) -> bool:
        each = self.each
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
        return deliver(self.monitor, self.exchange, self.message, queues, self.observer)

    def done(self) -> None:
        """It is everywhere, and what the queues said is known."""

    def has_lost(self, queue: Queue) -> bool:
        """The queue that it comes from is gone, or has begun anew with what its store has."""
        return queue.deleted or queue.failed_at > self._failures


def queues_for(vhost: VHost, exchange: Exchange, message: Message) -> list[Queue]:
    """Where the exchange sends this message."""
    # Properties are decoded only where more than the keys decides.
    if is_cacheable(vhost.exchanges, exchange):
        envelope = Envelope(message.origin.keys)
    else:
        envelope = Envelope.of(message, vhost.node.host.draw())
    return queues_in(route(vhost.exchanges, exchange, envelope))


def queues_in(destinations: list[Destination]) -> list[Queue]:
    """Of a route, which is followed through all exchanges. Not looked at one by one: there may be very many."""
    return cast("list[Queue]", destinations)
