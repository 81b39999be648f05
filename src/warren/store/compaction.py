"""Compaction: when little of a sealed segment lives, what lives is written anew at the end of the log.

A moved record names the address it was moved from, so that one record both makes the new place and ends the old one:
no crash can leave a message in two places, or in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry
from warren.store.format import (
    FILE_HEADER_SIZE,
    MESSAGE,
    first_ordinal,
    read_message,
    read_places,
)
from warren.store.lane import Cursor, Lane, by_next_sequence
from warren.store.segment import ROW_SIZE, SPARSE, LaneRun, Row, Segment
from warren.store.walk import RecordWalk

if TYPE_CHECKING:
    from warren.store.log import LogStore

# The newest segments are left alone: what is in them is likely to be settled soon.
YOUNG: Final[i64] = 2
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


def compact(store: LogStore, segment: Segment) -> None:
    """In one go: a segment is small, and less than a third of it is written."""
    data = store.read(segment, 0, segment.size)
    if data is None:
        # It keeps its space; whoever needs a message of it says which one could not be read.
        segment.unreadable = True
        return
    store.pending.begin_moving()
    walk = RecordWalk(data, FILE_HEADER_SIZE, segment.number)
    while walk.next():
        if walk.kind() == MESSAGE:
            _move_record(store, segment, data, walk.at, walk.end)
    moved = store.pending.end_moving()
    if segment.live > 0:
        _abandon(store, segment)
    for lane, runs in moved.items():
        _replace_cursors(store, lane, segment, runs)
    # Everything in it lives elsewhere now; the file goes once that is durable.
    store.active.settles[segment.number] = True
    segment.free_at = store.position
    store.upkeep.consider(segment)


def _move_record(store: LogStore, segment: Segment, data: bytes, at: i64, end: i64) -> None:
    ordinal = first_ordinal(data, at)
    message = None
    for place in read_places(data, at):
        own = ordinal
        ordinal += 1
        lane = store.lanes.get(place.lane)
        if lane is None or segment.is_settled(own):
            continue
        if message is None:
            message = read_message(data, at, end, None)
        entry = Entry(message, lane.queue, place.sequence, place.expires_at)
        old = segment.number << 32 | own
        store.move(lane, entry, old)
        if place.sequence < lane.first_paged():
            # Somebody holds it under its old address.
            store.moved[old] = entry.address
        segment.settle(own)


def _replace_cursors(store: LogStore, lane: Lane, old: Segment, runs: list[LaneRun]) -> None:
    """What the lane would have read from the old segment it now reads from the new runs, in the same order."""
    first_paged = lane.first_paged()
    lane.cursors = [cursor for cursor in lane.cursors if cursor.segment is not old]
    for run in runs:
        rows = store.read_rows(store.active, run, 0, run.count)
        for index in range(run.count):
            sequence = Row(rows, index * ROW_SIZE).sequence
            if sequence >= first_paged:
                lane.cursors.append(Cursor(store.active, run, index, sequence))
                break
    lane.cursors.sort(key=by_next_sequence)


def _abandon(store: LogStore, segment: Segment) -> None:
    """What lives in it cannot be read: say whose it was, as far as that is known, and go on without it."""
    for run in segment.runs:
        lane = store.lanes.get(run.lane)
        rows = store.read_rows(segment, run, 0, run.count)
        for at in range(0, len(rows), ROW_SIZE):
            row = Row(rows, at)
            if lane is not None and not segment.is_settled(row.ordinal):
                lane.lose(segment, row)
    for ordinal in range(segment.entries):
        if segment.settle(ordinal):
            store.pending.settle(segment.number << 32 | ordinal)
    store.position += 1
