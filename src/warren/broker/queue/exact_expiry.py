"""x-exact-message-ttl: every message leaves when its own time is over, wherever in the queue it stands.

Without it only the head of a queue expires, as in RabbitMQ. Each message that expires costs two numbers in memory.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.broker.message import NEVER
from warren.broker.queue.deadletter import REASON_EXPIRED
from warren.broker.queue.entry import Entry
from warren.broker.queue.expiry import BATCH, ExpiryTimer
from warren.broker.timers import UNSET

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue


class ExactExpiry(ExpiryTimer):
    def __init__(self, queue: Queue, earliest: i64 = 0) -> None:
        super().__init__(queue)
        self._earliest: i64 = earliest
        # When, and which; those that left in another way stay until their time.
        self._heap: list[tuple[int, int]] = queue.backing.expiries()
        heapify(self._heap)
        self._arm()

    def add(self, entry: Entry) -> None:
        if entry.expires_at == NEVER:
            return
        heappush(self._heap, (entry.expires_at, entry.sequence))
        self._arm()

    def put_back(self, entry: Entry, due: i64) -> None:
        """Its time was over, and it is still there."""
        heappush(self._heap, (due, entry.sequence))
        self._arm()

    def _arm(self) -> None:
        if not self._heap:
            return
        first = max(i64(self._heap[0][0]), self._earliest)
        if self.due == UNSET or first < self.due:
            self.queue.node.timers.schedule(self, first)

    def drop(self, now: i64) -> None:
        """Take out what is over."""
        heap = self._heap
        queue = self.queue
        budget = queue.node.errands.budget
        left = min(BATCH, budget.left)
        while heap and heap[0][0] <= now and left > 0 and not queue.is_held_up():
            sequence = heappop(heap)[1]
            entry = queue.backing.take(sequence)
            if entry is not None:
                queue.remove(entry, REASON_EXPIRED)
            # Also one that left in another way: its row is looked at.
            budget.spend(1)
            left -= 1
        if heap:
            # Due or overdue: at once, but in a firing of its own.
            queue.node.timers.schedule(self, max(i64(heap[0][0]), now + 1))
