"""Queue monitoring: a queue that fails takes down neither its publishers' channels nor the broker.

Whatever a queue raises while it works on messages is a fault of that queue alone: it is logged once,
its publishers get nacks, its consumers a basic.cancel, and it starts anew from what its store still has.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.broker.message import Message
from warren.broker.queue.entry import Entry
from warren.broker.queue.expiry import arm_expiry
from warren.broker.queue.limits import drop_some
from warren.broker.queue.outcome import FAILED
from warren.broker.world import ERROR

if TYPE_CHECKING:
    from warren.broker.queue.fifo import FifoQueue
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.yard import Yard


class Monitor:
    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self.failures = 0

    def publish(self, queue: Queue, message: Message) -> i64:
        try:
            return queue.publish(message)
        except Exception:
            self.failed(queue)
            return FAILED

    def drain(self, queue: Queue) -> None:
        try:
            queue.drain()
        except Exception:
            self.failed(queue)

    def expire(self, queue: Queue) -> None:
        try:
            queue.expire()
        except Exception:
            self.failed(queue)

    def trim(self, queue: FifoQueue, limit: i64) -> i64:
        """How many of the oldest had to go, of at most so many; fewer say that the queue's limits hold."""
        try:
            dropped = drop_some(queue, limit)
            if dropped < limit:
                arm_expiry(queue)
            return dropped
        except Exception:
            self.failed(queue)
            return 0

    def get(self, queue: Queue) -> Entry | None:
        try:
            return queue.get()
        except Exception:
            self.failed(queue)
            return None

    def ack(self, entry: Entry) -> None:
        try:
            entry.queue.ack(entry)
        except Exception:
            self.failed(entry.queue)

    def reject(self, entry: Entry) -> None:
        try:
            entry.queue.reject(entry)
        except Exception:
            self.failed(entry.queue)

    def requeue(self, queue: Queue, entries: list[Entry]) -> None:
        try:
            queue.requeue(entries)
        except Exception:
            self.failed(queue)

    def failed(self, queue: Queue) -> None:
        self.failures += 1
        queue.failed_at = self.failures
        self._yard.host.log(ERROR, f"queue '{queue.name}' in vhost '{queue.vhost}' failed\n{traceback.format_exc()}")
        self._yard.queue_failed(queue)
        consumers = queue.consumers.all()
        queue.restart()
        # Only now: in a queue that has none left, nobody is promoted and nothing handed out.
        for consumer in consumers:
            consumer.channel.cancel_by_broker(consumer)
