"""A deleted queue's entries are settled in the log at one stroke, by one record; here they are marked one by one.

The record's own segment must not go before all of them are marked: after a crash it alone says that they are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.errands import Budget, Errand
from warren.store.segment import ROW_SIZE, LaneRun, Row, Segment

if TYPE_CHECKING:
    from warren.store.log import LogStore

# Rows that are read at once, and marked for a unit.
_ROWS: Final[i64] = 1024
_PER_UNIT: Final[i64] = 4
_RUNS_PER_UNIT: Final = 32


class LaneRemoval(Errand):
    def __init__(self, store: LogStore, lanes: dict[int, bool]) -> None:
        """The records that say so are in the active segment."""
        super().__init__()
        self._store = store
        self._lanes = lanes
        self._said_in = store.active
        self._said_in.pins += 1
        # What is left: segments, the runs of the last of them, and from where on in the last of those.
        self._segments = list(store.segments.values())
        self._runs: list[LaneRun] = []
        self._row: i64 = 0

    def step(self, budget: Budget) -> bool:
        while budget.left > 0:
            if self._runs:
                self._mark(self._segments[-1], self._runs[-1], budget)
            elif self._segments:
                self._look_into(self._segments[-1], budget)
            else:
                self._said_in.pins -= 1
                self._store.upkeep.consider(self._said_in)
                return True
        return False

    def _look_into(self, segment: Segment, budget: Budget) -> None:
        # Where nothing lives, files may be going at this moment.
        self._runs = [run for run in segment.runs if run.lane in self._lanes] if segment.live > 0 else []
        budget.spend(len(segment.runs) // _RUNS_PER_UNIT + 1)
        if not self._runs:
            self._segments.pop()
        elif segment is not self._said_in:
            self._said_in.settles[segment.number] = True

    def _mark(self, segment: Segment, run: LaneRun, budget: Budget) -> None:
        rows = self._store.read_rows(segment, run, self._row, _ROWS) if segment.live > 0 else b""
        for at in range(0, len(rows), ROW_SIZE):
            segment.settle(Row(rows, at).ordinal)
        self._row += len(rows) // ROW_SIZE
        budget.spend(len(rows) // ROW_SIZE // _PER_UNIT + 1)
        if rows and self._row < run.count:
            return
        self._row = 0
        self._runs.pop()
        if not self._runs:
            self._segments.pop()
            self._store.upkeep.consider(segment)
