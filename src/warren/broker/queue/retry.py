"""x-delayed-retry-*: what a consumer gives back waits before it is handed out again, longer each time.

The delay is min * (times it came back), at most max, as in RabbitMQ 4.3; here every type of queue knows it, and
x-delayed-retry-limit says after how many times it goes to the dead letters instead. Messages that wait stay in
memory, as unacknowledged ones do; a restart hands them out at once.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry
from warren.broker.timers import UNSET, Timer

if TYPE_CHECKING:
    from warren.broker.queue.fifo import FifoQueue

ALL: Final = "all"
# Nacked or rejected by a consumer, or left behind by one that went away.
FAILED: Final = "failed"
RETURNED: Final = "returned"


class Retry(Timer):
    """The messages of one queue that wait for their next try."""

    def __init__(self, queue: FifoQueue) -> None:
        super().__init__()
        self.queue = queue
        self._heap: list[tuple[int, int, Entry]] = []

    @property
    def count(self) -> int:
        return len(self._heap)

    def waiting(self) -> list[Entry]:
        """Whose turn comes first, first."""
        return [row[2] for row in sorted(self._heap, key=_by_turn)]

    def takes(self, entry: Entry) -> bool:
        """False when it need not wait."""
        options = self.queue.options
        if options.retry_type != ALL and options.retry_type != (FAILED if entry.failed else RETURNED):
            return False
        delay = options.retry_min * entry.returns
        if options.retry_max >= 0:
            delay = min(delay, options.retry_max)
        if delay <= 0:
            return False
        heappush(self._heap, (self.queue.node.now + delay, entry.sequence, entry))
        self._arm()
        return True

    def _arm(self) -> None:
        first: i64 = self._heap[0][0]
        if self.due == UNSET or first < self.due:
            self.queue.node.timers.schedule(self, first)

    def fire(self, now: i64) -> None:
        heap = self._heap
        budget = self.queue.node.errands.budget
        while heap and heap[0][0] <= now and budget.left > 0:
            self.queue.put_back(heappop(heap)[2])
            budget.spend(1)
        if heap:
            # Due or overdue: at once, but in a firing of its own.
            self.queue.node.timers.schedule(self, max(i64(heap[0][0]), now + 1))
        self.queue.node.drain_soon(self.queue)

    def purge(self, limit: i64) -> i64:
        count = min(limit, i64(len(self._heap)))
        for _ in range(count):
            self.queue.backing.settle(self._heap.pop()[2])
        return count


def _by_turn(row: tuple[int, int, Entry]) -> tuple[int, int]:
    return row[0], row[1]
