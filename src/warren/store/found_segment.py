"""One segment of the log as its files tell it: by its index, or else by its records one after the other."""

from __future__ import annotations

import struct

from mypy_extensions import i64

from warren.store.disk import Disk
from warren.store.format import (
    DELIVERED,
    FILE_HEADER_SIZE,
    LANE_DELETED,
    LANE_OPENED,
    MESSAGE,
    RETURNED,
    SEEN,
    SETTLED,
    body_size_of,
    first_ordinal,
    is_persistent,
    read_file_header,
    read_places,
)
from warren.store.index import decode_index
from warren.store.segment import LaneRun, Segment, index_name, segment_name
from warren.store.walk import RecordWalk, Stop
from warren.store.whole_files import cut_and_sync, read_or_nothing, read_whole, start_or_nothing


class FoundSegment:
    def __init__(self, disk: Disk, number: int, names: list[str]) -> None:
        self.disk = disk
        self.damage: list[tuple[int, int]] = []
        # What of it counts as a whole or not at all.
        self.groups: list[tuple[int, int]] = []
        # The furthest point that its records say was synced: segment and offset.
        self.mark: tuple[int, int] = (0, 0)
        segment: Segment | None = None
        self.is_unreadable = False
        self.previous_size: int = -1
        if index_name(number) in names:
            segment = decode_index(read_or_nothing(disk, index_name(number)), number)
        if segment is None:
            segment = Segment(number)
            self.segment = segment
            data = read_or_nothing(disk, segment_name(number))
            if not data and disk.size(segment_name(number)) > 0:
                self.is_unreadable = True
                return
            segment.size = len(data)
            self.previous_size = read_file_header(data, number)
            self.segment = segment
            # Not kept: without indexes, all segments together may be more than memory holds.
            self._survey(data)
        else:
            # An index is written only when its segment is durable from end to end.
            self.mark = (number, segment.size)
            self.segment = segment
            # Its index has told all. Whoever wants a message of it is told which one could not be read.
            self.previous_size = read_file_header(
                start_or_nothing(disk, segment_name(number), FILE_HEADER_SIZE), number
            )

    def _survey(self, data: bytes) -> None:
        """Where the damage is, and how far the log knew itself to be durable."""
        walk = RecordWalk(data, FILE_HEADER_SIZE, self.segment.number)
        walk.survey()
        self.damage, self.mark, self.groups = walk.damage, walk.mark, walk.groups
        if walk.stop is Stop.UNWRITTEN:
            # The room that it was created with.
            start, _ = self.damage.pop()
            self.segment.size = start

    def read(self, until: int) -> None:
        """Take in the records that begin before `until`."""
        number = self.segment.number
        walk = RecordWalk(read_whole(self.disk, segment_name(number)), FILE_HEADER_SIZE, number, until)
        while walk.next():
            _take_in(self.segment, walk)
        self.segment.size = min(self.segment.size, until)

    def make_durable(self) -> None:
        """What was only in the operating system's memory before the crash, and the end of what does not count."""
        cut_and_sync(self.disk, segment_name(self.segment.number), self.segment.size)


def _take_in(segment: Segment, walk: RecordWalk) -> None:
    """Build a segment's knowledge from its records, as writing them did."""
    kind = walk.kind()
    if kind == MESSAGE:
        _take_in_message(segment, walk.data, walk.at, walk.end)
    elif kind == SETTLED:
        segment.settled_here.write(walk.payload())
    elif kind == LANE_OPENED:
        payload = walk.payload()
        segment.lanes[struct.unpack(">I", payload[:4])[0]] = payload
    elif kind == LANE_DELETED:
        segment.deleted_lanes.append(struct.unpack(">I", walk.payload())[0])
    elif kind == DELIVERED:
        lane, mark = struct.unpack(">IQ", walk.payload())
        segment.watermarks[lane] = mark
    elif kind == RETURNED:
        segment.returned.append(walk.payload())
    elif kind == SEEN:
        segment.has_seen = True
        segment.seen.append(walk.payload())


def _take_in_message(segment: Segment, data: bytes, at: i64, end: i64) -> None:
    ordinal = first_ordinal(data, at)
    transient = not is_persistent(data, at)
    body_size = body_size_of(data, at)
    for place in read_places(data, at):
        # Ordinals in front of it may be missing: they were in a damaged record.
        while segment.entries < ordinal:
            segment.settle(segment.new_entry())
        segment.new_entry()
        run = _run_for(segment, place.lane, place.sequence)
        run.add(place.sequence, place.expires_at, at, end - at, ordinal, body_size, transient)
        if place.moved_from != 0:
            segment.settled_here.write(struct.pack(">q", place.moved_from))
        ordinal += 1


def _run_for(segment: Segment, lane: i64, sequence: i64) -> LaneRun:
    """Moved entries go back in sequence: each time that happens, a run of its own begins."""
    run = segment.open_run(lane)
    if run.count > 0 and sequence < run.last_sequence:
        del segment.open_runs[lane]
        run = segment.open_run(lane)
    return run
