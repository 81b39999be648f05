"""x-exact-message-ttl: every message leaves when its own time is over, wherever in the queue it stands.

Without it only the head of a queue expires, as in RabbitMQ. Each message that expires costs two numbers in memory.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import NEVER
from warren.broker.queue.deadletter import REASON_EXPIRED
from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Budget, Errand
from warren.broker.queue.expiry import AGAIN_MS, BATCH, ExpiryTimer
from warren.broker.timers import UNSET

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue

# What is looked at in a piece, at least: to find where the last one ended has its price, too.
_PIECE: Final[i64] = 256
_FIND_UNITS: Final[i64] = 50


class ExactExpiry(ExpiryTimer):
    def __init__(self, queue: Queue, earliest: i64 = 0) -> None:
        super().__init__(queue)
        self._earliest: i64 = earliest
        # When, and which; those that left in another way stay until their time.
        self._heap: list[tuple[int, int]] = []
        # Until all that was there before is known, nothing expires: it would not go in the order of time.
        self.is_complete = False
        # Not all of it was found: what is not here is looked at when it is the queue's head.
        self.has_failed = False
        queue.node.errands.begin(Gathering(queue, self), None)

    def gathered(self, found: list[tuple[int, int]]) -> None:
        """Of what was there before."""
        for row in found:
            if row[0] != NEVER:
                heappush(self._heap, row)

    def complete(self) -> None:
        self.is_complete = True
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
        if not self._heap or not self.is_complete:
            return
        first = max(i64(self._heap[0][0]), self._earliest)
        if self.due == UNSET or first < self.due:
            self.queue.node.timers.schedule(self, first)

    def drop(self, now: i64) -> None:
        """Take out what is over."""
        if not self.is_complete:
            return
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


class Gathering(Errand):
    """Finds out when what is in a queue expires, behind one sequence after the other: between two pieces messages may
    come, go, be read from the log or be moved in it. What comes, or comes back, is added by whoever brings it.
    """

    def __init__(self, queue: Queue, expiry: ExactExpiry) -> None:
        super().__init__()
        self._queue = queue
        self._expiry = expiry
        self._backing = queue.backing
        self._parts = list(queue.backing.parts())
        self._after: i64 = 0

    def step(self, budget: Budget) -> bool:
        while self._parts:
            if self._queue.deleted or self._queue.backing is not self._backing:
                return True
            if budget.left <= 0:
                return False
            found = self._parts[-1].expiries(self._after, max(budget.left, _PIECE))
            budget.spend(_FIND_UNITS + len(found))
            if found:
                self._after = found[-1][1]
                self._expiry.gathered(found)
            else:
                self._after = 0
                self._parts.pop()
        self._expiry.complete()
        return True

    def failed(self) -> bool:
        self._expiry.has_failed = True
        self._expiry.complete()
        node = self._queue.node
        node.timers.schedule(self._expiry, node.now + AGAIN_MS)
        return True
