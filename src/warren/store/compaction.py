"""Compaction: when little of a sealed segment lives, what lives is written anew at the end of the log, in pieces.

A moved record names the address it was moved from, so that one record both makes the new place and ends the old one:
no crash can leave a message in two places, or in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import Message
from warren.broker.queue.entry import Entry
from warren.store.chores import PieceChore
from warren.store.format import (
    FILE_HEADER_SIZE,
    MESSAGE,
    first_ordinal,
    read_message,
    read_places,
)
from warren.store.lane import Cursor, Lane, by_next_sequence
from warren.store.segment import ROW_SIZE, SPARSE, LaneRun, Row, Segment
from warren.store.segment_files import OUT_OF_DESCRIPTORS
from warren.store.walk import RecordWalk

if TYPE_CHECKING:
    from warren.store.log import LogStore

# The newest segments are left alone: what is in them is likely to be settled soon.
YOUNG: Final[i64] = 2
# What is read at once, and how many places of messages are looked at: a few milliseconds of the loop.
PIECE_BYTES: Final[i64] = 256 * 1024
PIECE_MOVES: Final[i64] = 4096
# Changes of the log for each message that lives in a sparse segment, before it is rewritten.
PATIENCE: Final[i64] = 4


def sparse_segment(store: LogStore) -> Segment | None:
    young: i64 = 0 if store.short_of_space else YOUNG
    for segment in store.segments.values():
        if segment.number + young >= store.active.number:
            return None
        if (
            segment.indexed
            and not segment.busy
            and not segment.unreadable
            and 0 < segment.live * SPARSE < segment.entries
            and (store.short_of_space or not _may_empty_by_itself(store, segment))
            and not _is_waited_for(store, segment)
        ):
            return segment
    return None


def _is_waited_for(store: LogStore, segment: Segment) -> bool:
    """Some of it belongs to a queue that is not there, and may come to fetch it."""
    if not store.unclaimed.lanes:
        return False
    waiting = {lane.number for lane in store.unclaimed.lanes.values()}
    return any(run.lane in waiting for run in segment.runs)


def _may_empty_by_itself(store: LogStore, segment: Segment) -> bool:
    """A backlog that is consumed empties one segment after another, and rewriting the last third of each would be for
    nothing. One that is found sparse is left alone for as many changes as it would take, with others in between."""
    if segment.rewrite_at < 0:
        segment.rewrite_at = store.position + segment.live * PATIENCE
    return store.position < segment.rewrite_at


class Compaction:
    """Of one segment at a time, in pieces: the thread that syncs reads one, the loop moves what lives in it, and then
    asks for the next. A crash between two leaves the rest where it was."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.piece_bytes: i64 = PIECE_BYTES
        self.piece_moves: i64 = PIECE_MOVES
        # The broker stops: what is not moved yet can stay where it is.
        self.is_ending = False
        self._segment: Segment | None = None
        # Where the next record begins, and how many of its places are done with already.
        self._offset: i64 = 0
        self._places_done: i64 = 0
        # The segment that it is moved to, the runs that this makes there, and how many rows of each have a cursor if
        # they need one.
        self._into: Segment | None = None
        self._runs: dict[Lane, list[LaneRun]] = {}
        self._rows_seen: dict[LaneRun, int] = {}
        # The last that was moved: most were published as the one before was.
        self._like: Message | None = None

    def begin_if_sparse(self) -> None:
        if self._segment is None and not self.is_ending:
            segment = sparse_segment(self._store)
            if segment is not None:
                self.begin(segment)

    def is_under_way(self) -> bool:
        return self._segment is not None

    def begin(self, segment: Segment) -> None:
        try:
            self._store.files.open_log(segment)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            # That passes, and it can wait.
            return
        self._segment = segment
        self._offset = FILE_HEADER_SIZE
        self._places_done = 0
        self._ask_for(segment, self.piece_bytes)

    def _ask_for(self, segment: Segment, size: i64) -> None:
        segment.busy = True
        self._store.upkeep.chores.append(PieceChore(segment, self._offset, size))

    def go_on(self, chore: PieceChore) -> None:
        """A piece was read."""
        segment = chore.segment
        if chore.data is None:
            # It keeps its space; whoever needs a message of it says which one could not be read.
            segment.unreadable = True
            self._end(segment)
            return
        offset, places_done = self._offset, self._places_done
        is_over = self._move_piece(segment, chore.data, chore.offset + chore.size >= segment.size)
        if segment.live == 0 or is_over:
            self._end(segment)
        elif self.is_ending:
            self._segment = None
        elif (self._offset, self._places_done) == (offset, places_done):
            # Its first record is longer than the piece, or damaged. That is known at the latest at the end of the file.
            self._ask_for(segment, chore.size * 2)
        else:
            self._ask_for(segment, self.piece_bytes)

    def _move_piece(self, segment: Segment, data: bytes, is_last: bool) -> bool:
        """True when nothing is left."""
        store = self._store
        if self._into is not store.active:
            self._forget_runs()
            self._into = store.active
        walk = RecordWalk(data, 0, segment.number)
        walk.base = self._offset
        walk.is_part = not is_last
        store.pending.begin_moving(self._runs)
        budget = self.piece_moves
        while budget > 0 and walk.next():
            if walk.kind() == MESSAGE:
                budget = self._move_record(segment, walk, budget)
            else:
                budget -= 1
        lanes = store.pending.end_moving()
        for lane in lanes:
            self._point_to_moved(lane)
        if lanes:
            store.active.settles[segment.number] = True
        self._offset = walk.base + (walk.at if self._places_done > 0 else walk.end)
        return is_last and budget > 0

    def _move_record(self, segment: Segment, walk: RecordWalk, budget: i64) -> i64:
        """What is left of the budget. If that is nothing, it may not be done with all places of the record."""
        store = self._store
        ordinal = first_ordinal(walk.data, walk.at) + self._places_done
        message: Message | None = None
        for place in read_places(walk.data, walk.at)[self._places_done :]:
            if budget <= 0:
                self._places_done = ordinal - first_ordinal(walk.data, walk.at)
                return 0
            budget -= 1
            own = ordinal
            ordinal += 1
            lane = store.lanes.get(place.lane)
            if lane is None or segment.is_settled(own):
                continue
            if message is None:
                message = read_message(walk.data, walk.at, walk.end, self._like)
            entry = Entry(message, lane.queue, place.sequence, place.expires_at)
            old = segment.number << 32 | own
            store.move(lane, entry, old)
            if place.sequence < lane.first_paged() or place.sequence in lane.taken:
                # Somebody holds it under its old address.
                store.moved[old] = entry.address
            segment.settle(own)
        self._places_done = 0
        if message is not None:
            self._like = message
        return budget

    def _point_to_moved(self, lane: Lane) -> None:
        """What the lane would have read from the old segment it now reads from the new runs, in the same order. Its
        cursors of the old one stay until it comes to them: they find everything settled."""
        first_paged = lane.first_paged()
        into = self._store.active
        for run in self._runs[lane]:
            seen: i64 = self._rows_seen.get(run, 0)
            self._rows_seen[run] = run.count
            if seen == run.count or lane.paged == 0 or _has_cursor(lane, run):
                continue
            rows = self._store.read_rows(into, run, seen, run.count - seen)
            for at in range(0, len(rows), ROW_SIZE):
                sequence = Row(rows, at).sequence
                if sequence >= first_paged:
                    lane.cursors.append(Cursor(into, run, seen + at // ROW_SIZE, sequence))
                    lane.cursors.sort(key=by_next_sequence)
                    break

    def _end(self, segment: Segment) -> None:
        store = self._store
        self._segment = None
        self._like = None
        self._forget_runs()
        if segment.live > 0 and not (segment.unreadable or _is_waited_for(store, segment) or _is_removing(store)):
            _abandon(store, segment)
        # Perhaps later: what is left, if anything, belongs to queues that went meanwhile.
        segment.rewrite_at = -1

    def _forget_runs(self) -> None:
        self._into = None
        self._runs = {}
        self._rows_seen = {}


def _has_cursor(lane: Lane, run: LaneRun) -> bool:
    return any(cursor.run is run for cursor in lane.cursors)


def _is_removing(store: LogStore) -> bool:
    """The entries of a queue that is gone are being settled."""
    return any(segment.pins > 0 for segment in store.segments.values())


def _abandon(store: LogStore, segment: Segment) -> None:
    """What lives in it cannot be read: say whose it was, as far as that is known, and go on without it."""
    for run in segment.runs:
        lane = store.lanes.get(run.lane)
        rows = store.read_rows(segment, run, 0, run.count)
        for at in range(0, len(rows), ROW_SIZE):
            row = Row(rows, at)
            if lane is not None and not segment.is_settled(row.ordinal):
                lane.lose(segment, row)
    store.active.settles[segment.number] = True
    for ordinal in range(segment.entries):
        if segment.settle(ordinal):
            store.pending.settle(segment.number << 32 | ordinal)
    store.position += 1
