"""Many messages leave a queue at once, and go nowhere: purged, settled up to a sequence, or in the way of a limit.

In pieces, of which each looks anew at what is there. What comes meanwhile stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.backing import Backing
from warren.broker.queue.errands import Budget, Errand

if TYPE_CHECKING:
    from warren.broker.queue.fifo import FifoQueue

# Messages for a unit.
_PER_UNIT: Final[i64] = 2


class Settling(Errand):
    """All that is ready up to a sequence."""

    def __init__(self, queue: FifoQueue, last: i64) -> None:
        super().__init__()
        self.queue = queue
        self.count: i64 = 0
        self._last: i64 = last

    def step(self, budget: Budget) -> bool:
        while not self.queue.deleted:
            limit = max(budget.left, 1) * _PER_UNIT
            looked_at = self.settle(self._last, limit)
            budget.spend(looked_at // _PER_UNIT + 1)
            if looked_at < limit:
                break
            if budget.left <= 0:
                return False
        self.done()
        return True

    def settle(self, last: i64, limit: i64) -> i64:
        """Look at so many at most, and count those that are gone. How many that were."""
        backing = self.queue.backing
        length = backing.length
        looked_at = backing.settle_to(last, limit)
        self.count += length - backing.length
        return looked_at

    def done(self) -> None:
        raise NotImplementedError


class Purge(Settling):
    """All that is ready, and what waits for its next try."""

    def __init__(self, queue: FifoQueue) -> None:
        super().__init__(queue, queue.newest())

    def settle(self, last: i64, limit: i64) -> i64:
        retry = self.queue.retry
        waiting: i64 = 0 if retry is None else retry.purge(limit)
        self.count += waiting
        return waiting + super().settle(last, limit - waiting)


class Dropping(Errand):
    """What a deleted queue had in memory: to give it back takes as long as to read it."""

    def __init__(self, backing: Backing) -> None:
        super().__init__()
        self._backing = backing

    def step(self, budget: Budget) -> bool:
        limit = max(budget.left, 1) * _PER_UNIT
        dropped = self._backing.drop(limit)
        budget.spend(dropped // _PER_UNIT + 1)
        return dropped < limit
