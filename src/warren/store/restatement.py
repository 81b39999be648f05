"""Before a segment goes: how often messages came back that still wait is said anew, where nothing younger says it.

One segment may hold two million such notes. They are counted first; a crash leaves them here, there, or in both places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.broker.queue.errands import Budget, Errand
from warren.store.returned import NOTE_SIZE
from warren.store.segment import SPARSE, Segment

if TYPE_CHECKING:
    from warren.store.log import LogStore

# Notes that are looked at for a unit.
_PER_UNIT: Final[i64] = 2


class Restatement(Errand):
    """The segment is busy until it is done."""

    def __init__(self, store: LogStore, segment: Segment) -> None:
        super().__init__()
        self._store = store
        self._segment = segment
        # The record whose notes are next, and where in it they begin.
        self._index: i64 = 0
        self._at: i64 = 0
        self._is_counting = True
        self._holding: i64 = 0

    def notes(self) -> i64:
        """How many there are."""
        size: i64 = 0
        for payload in self._segment.returned:
            size += len(payload)
        return size // NOTE_SIZE

    def step(self, budget: Budget) -> bool:
        payloads = self._segment.returned
        while True:
            while self._index < len(payloads):
                if budget.left <= 0:
                    return False
                self._look_through(payloads[self._index], budget)
            if not self._is_counting:
                break
            if self._holding * NOTE_SIZE * SPARSE > self._segment.size:
                # To write them anew would fill the next segment with little else, and then the one after it. They are
                # not looked through again before as many changes as it takes to make them void.
                self._segment.ask_again_at = self._store.position + self._holding
                self._segment.busy = False
                return True
            self._is_counting = False
            self._index = 0 if self._holding > 0 else len(payloads)
        self._store.upkeep.let_go(self._segment)
        return True

    def _look_through(self, payload: bytes, budget: Budget) -> None:
        store = self._store
        size: i64 = len(payload)
        end = min(size, self._at + (budget.left * _PER_UNIT + 1) * NOTE_SIZE)
        budget.spend((end - self._at) // NOTE_SIZE // _PER_UNIT + 1)
        # Those of one lane mostly stand together.
        lane = -1
        known: dict[int, int] = {}
        while self._at < end:
            at = self._at
            self._at += NOTE_SIZE
            number = int(read_i32_be(payload, at))
            if number != lane:
                lane = number
                known = self._returned_of(number)
            sequence, times = int(read_i64_be(payload, at + 4)), int(read_i32_be(payload, at + 12))
            if known.get(sequence, 0) != times:
                continue
            if self._is_counting:
                self._holding += 1
            else:
                store.pending.note_return(lane, sequence, times)
                store.position += 1
        if self._at == size:
            self._at = 0
            self._index += 1

    def _returned_of(self, number: int) -> dict[int, int]:
        lane = self._store.lanes.get(number)
        if lane is not None:
            return lane.returned
        for waiting in self._store.unclaimed.lanes.values():
            if waiting.number == number:
                return waiting.returned
        return {}

    def failed(self) -> bool:
        """It is asked again when the next chore is done."""
        self._segment.busy = False
        return True
