"""What a delayed exchange holds back: messages in the store, each with the time at which it is routed.

To the exchange it is one more queue, but nobody can name it or consume from it, and what is due goes on into the queues
that the exchange leads to. Scheduled messages are as durable as others, may be more than fit into memory, and can be
listed and cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.fields import Field, Table
from warren.broker.exchanges.base import Exchange
from warren.broker.exchanges.delayed import DELAY_HEADER, DelayedExchange, delay_of
from warren.broker.message import Message
from warren.broker.queue.declaration import Declaration
from warren.broker.queue.entry import Entry
from warren.broker.queue.exact_expiry import ExactExpiry
from warren.broker.queue.expiry import AGAIN_MS
from warren.broker.queue.outcome import SCHEDULED
from warren.broker.queue.queue import Queue
from warren.broker.rules.queue_settings import CLASSIC

if TYPE_CHECKING:
    from warren.broker.queue.yard import Yard


class Schedule(Queue):
    def __init__(self, node: Yard, exchange: DelayedExchange, incarnation: str) -> None:
        # The exchange's name: the incarnation tells it from a queue that is called the same.
        declared = Declaration(exchange.name, CLASSIC, exchange.durable, False, {}, None, incarnation)
        super().__init__(node, exchange.vhost, declared)
        self.is_schedule = True
        self.exchange = exchange
        self.next_sequence: i64 = self.backing.last_sequence + 1
        # An entry expires when it is due.
        self.exact_expiry = ExactExpiry(self)
        # One goes to very many queues, and those behind it wait until it is in all of them.
        self.is_releasing = False

    def publish(self, message: Message) -> i64:
        self.counters.published += 1
        due = self.node.now + delay_of(message.properties().headers)
        entry = Entry(message, self, self.next_sequence, due)
        self.next_sequence += 1
        self.backing.publish(entry)
        self.exact_expiry.add(entry)
        return SCHEDULED

    def expire(self) -> None:
        self.exact_expiry.drop(self.node.now)

    def remove(self, entry: Entry, reason: str) -> None:
        """Its time has come: into the queues first, then out of here, so that it is never in neither place."""
        self.node.release_scheduled(self, entry)

    def put_back(self, entry: Entry) -> None:
        """It could not be released, and is not tried again at once: what failed may fail again."""
        super().put_back(entry)
        self.exact_expiry.put_back(entry, self.node.now + AGAIN_MS)

    def is_held_up(self) -> bool:
        return self.is_releasing

    def newest(self) -> i64:
        return self.next_sequence - 1

    def count(self) -> i64:
        return self.backing.length

    def restart(self) -> None:
        super().restart()
        self._reopen()
        self.node.timers.cancel(self.exact_expiry)
        self.exact_expiry = ExactExpiry(self, self.node.now + AGAIN_MS)

    def close(self) -> None:
        super().close()
        self.node.timers.cancel(self.exact_expiry)


def arrived(old: Message, frame_max: int) -> Message:
    """The same, with a negative x-delay: it has waited, as RabbitMQ's plug-in tells it."""
    properties = old.properties()
    headers: Table = {} if properties.headers is None else dict(properties.headers)
    headers[DELAY_HEADER] = Field("l", -int(delay_of(headers)))
    properties.headers = headers
    return old.changed(old.origin, properties, frame_max)


def schedule_of(exchange: Exchange) -> Schedule | None:
    if isinstance(exchange, DelayedExchange) and isinstance(exchange.schedule, Schedule):
        return exchange.schedule
    return None
