"""What a channel holds is settled or given back, however much that is: oldest first, a piece in each turn.

What the channel is handed meanwhile has higher tags; what is settled here is no longer its own, should it close.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Budget, Errand

if TYPE_CHECKING:
    from warren.broker.queue.outlet import Outlet
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.unacked import Unacked
    from warren.broker.queue.yard import Yard

# Tags that nothing is held under, for a unit.
_EMPTY: Final[i64] = 64
_RETURN_UNITS: Final[i64] = 2


class Settlement(Errand):
    """Whatever is held from one tag to another."""

    def __init__(self, yard: Yard, unacked: Unacked, first: i64, last: i64) -> None:
        super().__init__()
        self.yard = yard
        self._unacked = unacked
        self._at: i64 = max(first, unacked.low)
        self.last: i64 = min(last, unacked.next - 1)
        self._failures: i64 = yard.monitor.failures

    def step(self, budget: Budget) -> bool:
        if not self.walk(budget):
            self.pause()
            return False
        self.pause()
        self.done()
        return True

    def walk(self, budget: Budget) -> bool:
        unacked = self._unacked
        empty: i64 = 0
        while self._at <= self.last:
            if budget.left <= 0 or self.has_to_wait():
                return False
            entry = unacked.take(self._at)
            if entry is None:
                empty += 1
                if empty % _EMPTY == 0:
                    budget.spend(1)
            else:
                budget.spend(self.settle(self._at, entry))
            self._at += 1
        budget.spend(1)
        return True

    def is_gone(self, entry: Entry) -> bool:
        """Also when its queue failed after this began, and nobody else knew who has it."""
        return entry.is_gone() or entry.queue.failed_at > self._failures

    def settle(self, tag: i64, entry: Entry) -> i64:
        """One of them; what it cost."""
        raise NotImplementedError

    def has_to_wait(self) -> bool:
        """For others, whatever is left of the turn."""
        return False

    def pause(self) -> None:
        """A piece is done."""

    def done(self) -> None:
        raise NotImplementedError


class Return(Settlement):
    """Back to the queues, each to its own place. None is handed out before all are back, or later ones would overtake
    them. `also` are others to give back; `answer` is sent when it is done.
    """

    def __init__(
        self, yard: Yard, unacked: Unacked, first: i64, last: i64, also: list[Entry], outlet: Outlet, answer: bytes
    ) -> None:
        super().__init__(yard, unacked, first, last)
        # They failed with their consumer: it said so.
        self.failed_there = False
        self._also = also
        self._also.reverse()
        self._outlet = outlet
        self._answer = answer
        self._piece: dict[Queue, list[Entry]] = {}
        self._queues: dict[Queue, bool] = {}

    def walk(self, budget: Budget) -> bool:
        while self._also and budget.left > 0:
            budget.spend(self.settle(0, self._also.pop()))
        return not self._also and super().walk(budget)

    def settle(self, tag: i64, entry: Entry) -> i64:
        if not self.is_gone(entry):
            entry.failed = self.failed_there
            self._piece.setdefault(entry.queue, []).append(entry)
        return _RETURN_UNITS

    def pause(self) -> None:
        piece, self._piece = self._piece, {}
        for queue, entries in piece.items():
            if queue not in self._queues:
                self._queues[queue] = True
                queue.returning += 1
            self.yard.monitor.requeue(queue, entries)

    def done(self) -> None:
        # Before anything is handed out again: who asked to recover forgets what it held when it hears so.
        if self._answer:
            self._outlet.send(self._answer)
        self._hand_out()

    def failed(self) -> bool:
        self.pause()
        self._hand_out()
        return True

    def _hand_out(self) -> None:
        queues, self._queues = self._queues, {}
        for queue in queues:
            queue.returning -= 1
            if not queue.deleted:
                self.yard.monitor.drain(queue)
