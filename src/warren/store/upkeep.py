"""Files beside the log that come, and segments that go: what is worth an index, and what nothing depends on any more.

Little is done here: chores are made, for the thread that syncs, and an errand where much has to be looked through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.errands import Budget, Errand
from warren.store.chores import Chore, DeleteChore, IndexChore, PieceChore, SegmentChore, SettledChore
from warren.store.compaction import Compaction
from warren.store.index import encode_index, encode_settled
from warren.store.restatement import Restatement
from warren.store.segment import MARKS_IN_FILE, Segment

if TYPE_CHECKING:
    from warren.store.log import LogStore

# More notes of returned messages than these are looked through in later turns.
NOTES_AT_ONCE: Final[i64] = 1000


class Upkeep:
    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.chores: list[Chore] = []
        # Likewise, for the loop.
        self.errands: list[Errand] = []
        self.notes_at_once: i64 = NOTES_AT_ONCE
        self.compaction = Compaction(store)

    def want_index(self, segment: Segment) -> None:
        pieces, offsets = encode_index(segment)
        self.chores.append(IndexChore(self._store.position, segment, pieces, offsets))
        segment.busy = True

    def consider(self, segment: Segment) -> None:
        """Delete a segment in which nothing lives, once nothing that still exists depends on its records."""
        store = self._store
        if segment.live > 0 or not segment.sealed or segment.busy or segment.number not in store.segments:
            return
        if segment.pins > 0:
            return
        for number in list(segment.settles):
            target = store.segments.get(number)
            if number in store.unreadable:
                # What is in it may be wanted at another start, and this one says what of it is done with.
                continue
            if target is None or target is segment:
                del segment.settles[number]
            elif not target.busy and target.live > 0:
                # One in which nothing lives goes by itself, and this one is asked again then.
                target.busy = True
                self.chores.append(SettledChore(store.position, target, encode_settled(target), segment))
        if segment.settles or store.position < segment.ask_again_at:
            return
        segment.busy = True
        restatement = Restatement(store, segment)
        if restatement.notes() > self.notes_at_once or not restatement.step(Budget()):
            self.errands.append(restatement)

    def let_go(self, segment: Segment) -> None:
        """What its records say and still holds is said again; then nothing depends on them."""
        store = self._store
        self._keep_watermarks(segment)
        for number in segment.marked:
            if number in store.segments or number in store.unreadable:
                self._say_marked(number)
        self.chores.append(DeleteChore(store.position, segment))

    def _keep_watermarks(self, segment: Segment) -> None:
        """How far a lane was delivered may be written nowhere else."""
        store = self._store
        for number in [*segment.lanes, *segment.watermarks]:
            lane = store.lanes.get(number)
            if lane is not None and lane.watermark > 0 and not store.pending.has_watermark(lane):
                store.note_watermark(lane)
                store.position += 1

    def _say_marked(self, number: i64) -> None:
        """Without the file, what was acknowledged would come back, and nobody would know why."""
        store = self._store
        store.active.marked[number] = True
        store.pending.settle(number << 32 | MARKS_IN_FILE)
        store.position += 1

    def done(self, chore: SegmentChore) -> None:
        store = self._store
        segment = chore.segment
        segment.busy = False
        if isinstance(chore, PieceChore):
            self.compaction.go_on(chore)
            if self.compaction.is_under_way():
                return
        if isinstance(chore, IndexChore):
            segment.indexed = True
            for run, offset in zip(segment.runs, chore.offsets, strict=True):
                run.now_in_file(offset)
            store.files.opened(segment)
        elif isinstance(chore, SettledChore):
            chore.wanted_by.settles.pop(segment.number, None)
            self._say_marked(segment.number)
        elif isinstance(chore, DeleteChore):
            store.segments.pop(segment.number, None)
            store.files.close(segment)
        # Any of those in which nothing lives may have waited for this chore.
        for other in list(store.segments.values()):
            if other.live == 0:
                self.consider(other)
