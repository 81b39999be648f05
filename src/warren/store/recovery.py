"""Opening a store: what the files say, whatever a crash or bad luck has done to them.

Sealed segments tell their content by their index; segments without one are scanned. Behind the last point that is
known to have been synced, the first damaged record ends the log: what follows was never promised to anybody, and a
part of it must not count without the rest. Before that point damage is bad luck, and costs only what is damaged.
Nothing is changed that a second recovery could not do again.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.store.disk import Disk
from warren.store.format import (
    DELIVERED,
    FILE_HEADER_SIZE,
    LANE_DELETED,
    LANE_OPENED,
    MESSAGE,
    RECORD_HEADER_SIZE,
    SETTLED,
    SYNCED,
    body_size_of,
    first_ordinal,
    is_file_header,
    is_persistent,
    next_record,
    read_places,
    record_at,
)
from warren.store.index import decode_index, decode_settled, encode_index
from warren.store.lane import Cursor, Lane
from warren.store.log import SEGMENT_BYTES, LogStore
from warren.store.segment import ROW_SIZE, Row, Run, Segment, index_name, segment_name, settled_name

if TYPE_CHECKING:
    from warren.broker.queue import Queue

_LANE_FACTS: Final = struct.Struct(">IBBQ")


class RecoveredLane:
    """What the log has of one queue (or level), until that queue asks for it."""

    def __init__(self, payload: bytes) -> None:
        self.number, self.level, durable, self.watermark = _LANE_FACTS.unpack(payload[: _LANE_FACTS.size])
        self.durable = durable != 0
        names: list[str] = []
        at = _LANE_FACTS.size
        while at < len(payload):
            size = payload[at]
            names.append(payload[at + 1 : at + 1 + size].decode("utf-8", "surrogateescape"))
            at += 1 + size
        self.vhost, self.name, self.incarnation = names
        self.runs: list[tuple[int, Segment, Run]] = []

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.vhost, self.name, self.incarnation, self.level)

    def lane_for(self, store: LogStore, queue: Queue) -> Lane:
        lane = Lane(store, self.number, queue, self.level)
        lane.has_entries = True
        lane.watermark = self.watermark
        lane.recovered_watermark = self.watermark
        for _, segment, run in sorted(self.runs, key=_first_sequence):
            self._join(store, lane, segment, run)
        return lane

    def _join(self, store: LogStore, lane: Lane, segment: Segment, run: Run) -> None:
        rows = store.read_rows(segment, run, 0, run.count)
        for at in range(0, len(rows), ROW_SIZE):
            row = Row(rows, at)
            lane.last_sequence = max(lane.last_sequence, row.sequence)
            if not segment.is_settled(row.ordinal):
                lane.paged += 1
                lane.length += 1
                lane.body_bytes += row.body_size
        if run.count > 0:
            lane.cursors.append(Cursor(segment, run, 0, run.first_sequence))


def _first_sequence(row: tuple[int, Segment, Run]) -> int:
    return row[0]


def recover(disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> LogStore:
    store = LogStore(disk, segment_bytes)
    names = disk.names()
    numbers = sorted([int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdigit()])
    _remove_leftovers(disk, names, numbers)
    found = [_Found(disk, number, names) for number in numbers]
    _cut_unsynced_tail(store, found)
    for one in found:
        store.segments[one.segment.number] = one.segment
    _settle(store, names)
    _gather_lanes(store)
    last = numbers[-1] if numbers else 0
    store.start_segment(last + 1)
    for one in found:
        if one.segment.number not in store.segments:
            continue
        if not one.segment.indexed:
            store.seal(one.segment)
        else:
            store.consider(one.segment)
    return store


def _remove_leftovers(disk: Disk, names: list[str], numbers: list[int]) -> None:
    """Files that a crash left half-made or behind."""
    keep = {segment_name(number) for number in numbers}
    keep |= {index_name(number) for number in numbers} | {settled_name(number) for number in numbers}
    for name in names:
        if name not in keep and (name.endswith((".new", ".index", ".settled"))):
            disk.remove(name)


class _Found:
    """One segment as its files tell it."""

    def __init__(self, disk: Disk, number: int, names: list[str]) -> None:
        self.disk = disk
        self.damage: list[tuple[int, int]] = []
        # The furthest point that its records say was synced: segment and offset.
        self.mark: tuple[int, int] = (0, 0)
        self.data = b""
        segment: Segment | None = None
        if index_name(number) in names:
            segment = decode_index(_whole(disk, index_name(number)), number)
        if segment is None:
            segment = Segment(number)
            self.data = _whole(disk, segment_name(number))
            segment.size = len(self.data)
            self._survey()
        else:
            # An index is written only when its segment is durable from end to end.
            self.mark = (number, segment.size)
        self.segment = segment

    def _survey(self) -> None:
        """Where the damage is, and how far the log knew itself to be durable."""
        data = self.data
        at: i64 = FILE_HEADER_SIZE
        total: i64 = len(data)
        while at < total:
            end = record_at(data, at)
            if end < 0:
                following = next_record(data, at + 1)
                self.damage.append((at, following if following >= 0 else total))
                if following < 0:
                    return
                at = following
                continue
            if data[at + 2] == SYNCED:
                start = at + RECORD_HEADER_SIZE
                self.mark = max(self.mark, (read_i64_be(data, start), read_i64_be(data, start + 8)))
            at = end

    def read(self, until: int) -> None:
        """Take in the records that begin before `until`."""
        reader = _RecordReader(self.segment, self.data)
        at: i64 = FILE_HEADER_SIZE
        while at < until:
            end = record_at(self.data, at)
            if end < 0:
                at = next_record(self.data, at + 1)
                if at < 0:
                    break
                continue
            reader.read(at, end)
            at = end
        self.segment.size = min(self.segment.size, until)
        self.data = b""


def _whole(disk: Disk, name: str) -> bytes:
    handle = disk.open(name)
    try:
        return disk.read(handle, disk.size(name), 0)
    finally:
        disk.close(handle)


def _cut_unsynced_tail(store: LogStore, found: list[_Found]) -> None:
    durable = (0, 0)
    for one in found:
        durable = max(durable, one.mark)
    for place, one in enumerate(found):
        if one.segment.indexed:
            continue
        number = one.segment.number
        until = len(one.data)
        cut = False
        if not is_file_header(one.data, number) and (number, 0) >= durable:
            until, cut = 0, True
        for start, end in one.damage:
            if (number, start) >= durable:
                until, cut = min(until, start), True
                break
            store.log_lines.append(f"store: segment {number} is damaged from byte {start} to {end}")
        one.read(until)
        _sync(store.disk, number)
        if cut:
            _end_log_at(store, found, place)
            return


def _end_log_at(store: LogStore, found: list[_Found], place: int) -> None:
    """The log ends in the middle of this segment.

    That must be on disk before anything is written behind it: what comes next may be all that a second crash leaves,
    and nothing in it would tell the next recovery that the tear was already known. Newest first, so that a crash on
    the way leaves no segment behind one that is missing.
    """
    disk = store.disk
    for one in reversed(found[place + 1 :]):
        store.log_lines.append(f"store: segment {one.segment.number} was never synced and is dropped")
        disk.remove(segment_name(one.segment.number))
    disk.sync_directory()
    del found[place + 1 :]
    segment = found[place].segment
    segment.sealed = True
    data, offsets = encode_index(segment)
    disk.replace(index_name(segment.number), data)
    segment.indexed = True
    for run, offset in zip(segment.runs, offsets, strict=True):
        run.now_in_file(offset)


def _sync(disk: Disk, number: int) -> None:
    """What was only in the operating system's memory before the crash becomes durable before it is built upon."""
    handle = disk.open(segment_name(number))
    try:
        disk.sync(handle)
    finally:
        disk.close(handle)


class _RecordReader:
    """Builds a segment's knowledge from its records, as writing them did."""

    def __init__(self, segment: Segment, data: bytes) -> None:
        self.segment = segment
        self.data = data

    def read(self, at: i64, end: i64) -> None:
        kind = self.data[at + 2]
        payload = self.data[at + RECORD_HEADER_SIZE : end] if kind != MESSAGE else b""
        segment = self.segment
        if kind == MESSAGE:
            self._message(at, end)
        elif kind == SETTLED:
            segment.settled_here.write(payload)
        elif kind == LANE_OPENED:
            segment.lanes[struct.unpack(">I", payload[:4])[0]] = payload
        elif kind == LANE_DELETED:
            segment.deleted_lanes.append(struct.unpack(">I", payload)[0])
        elif kind == DELIVERED:
            lane, mark = struct.unpack(">IQ", payload)
            segment.watermarks[lane] = mark

    def _message(self, at: i64, end: i64) -> None:
        segment = self.segment
        data = self.data
        ordinal = first_ordinal(data, at)
        transient = not is_persistent(data, at)
        body_size = body_size_of(data, at)
        for place in read_places(data, at):
            # Ordinals in front of it may be missing: they were in a damaged record.
            while segment.entries < ordinal:
                segment.settle(segment.new_entry())
            segment.new_entry()
            run = self._run_for(place.lane, place.sequence)
            run.add(place.sequence, place.expires_at, at, end - at, ordinal, body_size, transient)
            if place.moved_from != 0:
                segment.settled_here.write(struct.pack(">q", place.moved_from))
            ordinal += 1

    def _run_for(self, lane: i64, sequence: i64) -> Run:
        """Moved entries go back in sequence: each time that happens, a run of its own begins."""
        run = self.segment.open_run(lane)
        if run.count > 0 and sequence < run.last_sequence:
            del self.segment.open_runs[lane]
            run = self.segment.open_run(lane)
        return run


def _settle(store: LogStore, names: list[str]) -> None:
    """Apply everything that says a message is done with. In any order: what is settled stays settled."""
    for segment in store.segments.values():
        name = settled_name(segment.number)
        if name in names:
            bits = decode_settled(_whole(store.disk, name), segment)
            for index in range(len(bits)):
                for bit in range(8):
                    if bits[index] & (1 << bit):
                        segment.settle(index * 8 + bit)
    deleted: dict[int, bool] = {}
    forgotten: dict[int, bool] = {}
    for segment in store.segments.values():
        _apply_settled(store, segment)
        for number in segment.deleted_lanes:
            deleted[number] = True
        for number, payload in segment.lanes.items():
            store.next_lane = max(store.next_lane, number + 1)
            if payload[5] == 0:
                forgotten[number] = True
    for segment in store.segments.values():
        for run in segment.runs:
            if run.lane in deleted or run.lane in forgotten:
                store.settle_lane(segment, run.lane)
            elif run.transients > 0:
                _settle_transients(store, segment, run)
        for number in segment.deleted_lanes:
            # Older segments may need this one to know that the lane is gone.
            for other in store.segments.values():
                if other is not segment and any(run.lane == number for run in other.runs):
                    segment.settles[other.number] = True


def _apply_settled(store: LogStore, segment: Segment) -> None:
    addresses = segment.settled_here.getvalue()
    for at in range(0, len(addresses), 8):
        address = read_i64_be(addresses, at)
        target = store.segments.get(address >> 32)
        if target is None:
            continue
        target.settle(address & 0xFFFFFFFF)
        if target is not segment:
            segment.settles[target.number] = True


def _settle_transients(store: LogStore, segment: Segment, run: Run) -> None:
    rows = store.read_rows(segment, run, 0, run.count)
    for at in range(0, len(rows), ROW_SIZE):
        row = Row(rows, at)
        if row.transient:
            segment.settle(row.ordinal)


def _gather_lanes(store: LogStore) -> None:
    lanes: dict[int, RecoveredLane] = {}
    for segment in store.segments.values():
        for number, payload in segment.lanes.items():
            if number not in lanes:
                lanes[number] = RecoveredLane(payload)
            lanes[number].watermark = max(lanes[number].watermark, RecoveredLane(payload).watermark)
        for number, mark in segment.watermarks.items():
            if number in lanes:
                lanes[number].watermark = max(lanes[number].watermark, mark)
        for run in segment.runs:
            lane = lanes.get(run.lane)
            if lane is not None:
                lane.runs.append((run.first_sequence, segment, run))
    deleted = {number for segment in store.segments.values() for number in segment.deleted_lanes}
    for number, lane in lanes.items():
        if lane.durable and number not in deleted:
            store.recovered[lane.key] = lane
