"""Deadlines of the core, fired by Node.tick. Time is handed in, so a test moves it by hand."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import i64

UNSET: Final[i64] = -1
# So many stale rows are not worth a sweep.
_FEW: Final[i64] = 64
# What fires in a turn; the rest is due at once, but after others had their turn.
_AT_ONCE: Final[i64] = 1000


class Timer:
    """Something that happens once at a time. Subclasses say what in `fire`."""

    def __init__(self) -> None:
        self.due: i64 = UNSET

    def fire(self, now: i64) -> None:
        raise NotImplementedError


class Timers:
    def __init__(self) -> None:
        # The number breaks ties in the order of scheduling; a timer that moved leaves a stale row behind.
        self._heap: list[tuple[int, int, Timer]] = []
        self._count: i64 = 0
        # About how many such rows there are.
        self._stale: i64 = 0

    def schedule(self, timer: Timer, due: i64) -> None:
        if timer.due == due:
            return
        self.cancel(timer)
        timer.due = due
        self._count += 1
        heappush(self._heap, (due, self._count, timer))

    def cancel(self, timer: Timer) -> None:
        if timer.due == UNSET:
            return
        timer.due = UNSET
        self._stale += 1
        if self._stale > _FEW and self._stale * 2 > len(self._heap):
            # Until it is due, a stale row would keep alive whatever the timer was for: a connection that is gone.
            self._heap = [row for row in self._heap if row[2].due == row[0]]
            heapify(self._heap)
            self._stale = 0

    def pending(self) -> list[Timer]:
        """In the order in which they will fire."""
        return [timer for due, _, timer in sorted(self._heap, key=_by_turn) if timer.due == due]

    def next_deadline(self) -> i64:
        heap = self._heap
        while heap:
            due, _, timer = heap[0]
            if timer.due == due:
                return due
            heappop(heap)
            self._stale = max(self._stale - 1, 0)
        return UNSET

    def fire_due(self, now: i64) -> bool:
        """True when anything fired."""
        due = self.next_deadline()
        fired: i64 = 0
        while due != UNSET and due <= now and fired < _AT_ONCE:
            timer = heappop(self._heap)[2]
            timer.due = UNSET
            fired += 1
            timer.fire(now)
            due = self.next_deadline()
        return fired > 0


def _by_turn(row: tuple[int, int, Timer]) -> tuple[int, int]:
    return row[0], row[1]
