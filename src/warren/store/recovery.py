"""Opening a store: what the files say, whatever a crash or bad luck has done to them.

Sealed segments tell their content by their index; segments without one are scanned. Behind the last point that is
known to have been synced, the first damaged record ends the log: what follows was never promised to anybody, and a
part of it must not count without the rest. Before that point damage is bad luck, and costs only what is damaged.
Nothing is changed that a second recovery could not do again.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be

from warren.store.disk import Disk
from warren.store.format import (
    FILE_HEADER_SIZE,
)
from warren.store.found_segment import FoundSegment
from warren.store.index import decode_index, decode_settled
from warren.store.log import SEGMENT_BYTES, LogStore
from warren.store.recovered import RecoveredLane, watermarks_in
from warren.store.returned import Returned, note_payloads
from warren.store.seen import notes_in
from warren.store.segment import MARKS_IN_FILE, ROW_SIZE, LaneRun, Row, Segment, index_name, segment_name, settled_name
from warren.store.stream_recovery import recover_streams
from warren.store.walk import counted_until
from warren.store.whole_files import numbers_of, read_or_nothing

_UNKNOWN_LANES: Final = 1_000_000


def recover(disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> LogStore:
    store = LogStore(disk, segment_bytes)
    survey = Survey(disk)
    survey.repair()
    survey.fill(store)
    store.log_lines += recover_streams(store.streams)
    if store.seen.recovered:
        # First: an index tells nothing of it.
        store.seen.write_soon()
    for segment in store.segments.values():
        if not segment.indexed:
            store.seal(segment)
    store.continue_after(survey.last_number, survey.last_size)
    if survey.orphans:
        survey.bury_orphans(store)
    return store


class Survey:
    """All files of a log, and what is to be made of them. Looking changes nothing."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._names = disk.names()
        self.lines: list[str] = []
        numbers = numbers_of(self._names, ".log")
        self.found = [FoundSegment(disk, number, self._names) for number in numbers]
        # Those that the disk cannot read now. It may be able to at the next start: they stay, and so does what settles
        # anything in them.
        self.unreadable = [one.segment.number for one in self.found if one.is_unreadable]
        self.found = [one for one in self.found if not one.is_unreadable]
        for number in self.unreadable:
            self.lines.append(f"store: segment {number} cannot be read: its messages are missing until it can be again")
        # Indexes without their log. A deletion that a crash cut short leaves such, but then nothing in them lives.
        self.orphans: list[Segment] = []
        for number in numbers_of(self._names, ".index"):
            orphan = None if number in numbers else decode_index(read_or_nothing(disk, index_name(number)), number)
            if orphan is not None:
                self.orphans.append(orphan)
        self._cut_unsynced_tail()
        self.last_number: int = max([*numbers, *[orphan.number for orphan in self.orphans]], default=0)
        last = self.found[-1].segment if self.found else None
        # The one that follows tells how long the one before it was: nothing to tell when that one is dropped.
        self.last_size: int = last.size if last is not None and last.number == self.last_number else 0
        if self.last_number in self.unreadable:
            # Nobody knows how long it is: the next one must not seem to say so.
            self.last_number += 1

    def _cut_unsynced_tail(self) -> None:
        durable = max([one.mark for one in self.found], default=(0, 0))
        is_cut = False
        kept: list[FoundSegment] = []
        for index, one in enumerate(self.found):
            if is_cut or (one.previous_size < 0 and not one.segment.indexed and (one.segment.number, 0) >= durable):
                # A file without its header was only just begun, and nobody was promised anything that is behind it.
                is_cut = True
                self.lines.append(f"store: segment {one.segment.number} was never synced and is dropped")
                continue
            kept.append(one)
            if not one.segment.indexed:
                follower = self.found[index + 1] if index + 1 < len(self.found) else None
                is_cut = self._read_segment(one, follower, durable)
        self.found = kept

    def _read_segment(self, one: FoundSegment, follower: FoundSegment | None, durable: tuple[int, int]) -> bool:
        """Take in what counts of it. True when the log ends in it."""
        number = one.segment.number
        damage = one.damage if one.previous_size >= 0 else [(0, FILE_HEADER_SIZE), *one.damage]
        expected = follower.previous_size if follower is not None and follower.segment.number == number + 1 else -1
        whole, lost, is_last = counted_until(number, one.segment.size, expected, damage, one.groups, durable)
        self.lines += [f"store: segment {number} is damaged from byte {start} to {end}" for start, end in lost]
        one.read(whole)
        if is_last:
            self.lines.append(f"store: segment {number} was synced up to byte {whole}; the rest is dropped")
        return is_last

    def repair(self) -> None:
        """Make what counts durable, and what does not go away, before anything is built on it."""
        disk = self._disk
        numbers = [one.segment.number for one in self.found] + [orphan.number for orphan in self.orphans]
        numbers += self.unreadable
        keep = {segment_name(number) for number in numbers}
        keep |= {index_name(number) for number in numbers} | {settled_name(number) for number in numbers}
        for name in self._names:
            if name not in keep and name.endswith((".log", ".new", ".index", ".settled")):
                disk.remove(name)
        disk.sync_directory()
        for one in self.found:
            if not one.segment.indexed:
                one.make_durable()

    def fill(self, store: LogStore) -> None:
        """Give a store what was found."""
        for number in self.unreadable:
            store.unreadable[number] = True
        segments = [one.segment for one in self.found] + self.orphans
        for segment in sorted(segments, key=_by_number):
            store.segments[segment.number] = segment
        _settle(store, self._names)
        self._miss_marks(store)
        for orphan in self.orphans:
            self._report(store, orphan)
            del store.segments[orphan.number]
        store.seen.read(self._names)
        _gather_lanes(store, self.orphans)
        if self.unreadable:
            # Lanes may have begun there, whose numbers nobody knows.
            store.next_lane += _UNKNOWN_LANES
        store.log_lines += self.lines

    def _miss_marks(self, store: LogStore) -> None:
        """Say which settled files should be there. Those without a log go, and may have lost theirs already."""
        orphans = [orphan.number for orphan in self.orphans]
        marked = {number for segment in store.segments.values() for number in segment.marked}
        for number in sorted(marked):
            name = settled_name(number)
            if number in store.segments and number not in orphans and name not in self._names:
                self.lines.append(f"store: {name} is missing: messages that were acknowledged may come back")

    def _report(self, store: LogStore, orphan: Segment) -> None:
        """Say which queues lost what with a file that is gone."""
        for run in orphan.runs:
            rows = store.read_rows(orphan, run, 0, run.count)
            lost = sum([not orphan.is_settled(Row(rows, at).ordinal) for at in range(0, len(rows), ROW_SIZE)])
            if lost > 0 and run.lane in orphan.lanes:
                lane = RecoveredLane(orphan.lanes[run.lane])
                self.lines.append(
                    f"store: queue '{lane.name}' in vhost '{lane.vhost}' lost {lost} messages: "
                    f"the file of segment {orphan.number} is missing"
                )
        store.files.close(orphan)

    def bury_orphans(self, store: LogStore) -> None:
        """What only they say of others must be said again before they go."""
        for orphan in self.orphans:
            store.repeat(orphan)
        said_in = store.active
        # That may fill it, and begin another.
        store.write()
        self._disk.sync(said_in.handle)
        for orphan in self.orphans:
            for name in (index_name(orphan.number), settled_name(orphan.number)):
                if name in self._names:
                    self._disk.remove(name)
        self._disk.sync_directory()


def _by_number(segment: Segment) -> int:
    return segment.number


def _settle(store: LogStore, names: list[str]) -> None:
    """Apply everything that says a message is done with. In any order: what is settled stays settled."""
    for segment in store.segments.values():
        if settled_name(segment.number) in names:
            _apply_settled_file(store, segment)
    gone: set[int] = set()
    for segment in store.segments.values():
        _apply_settled(store, segment)
        _note_lanes(store, segment, gone)
    holders: dict[int, list[int]] = {}
    for segment in store.segments.values():
        for run in segment.runs:
            holders.setdefault(run.lane, []).append(segment.number)
            if run.lane in gone or run.transients > 0:
                _settle_gone(store, segment, run, run.lane in gone)
    for segment in store.segments.values():
        for lane in segment.deleted_lanes:
            # Those that hold something of the lane may need this one to know that it is gone.
            for holder in holders.get(lane, []):
                segment.settles[holder] = True


def _apply_settled_file(store: LogStore, segment: Segment) -> None:
    name = settled_name(segment.number)
    bits = decode_settled(read_or_nothing(store.disk, name), segment)
    if not bits and segment.entries > 0:
        store.log_lines.append(f"store: {name} is damaged: messages that were acknowledged may come back")
    for index in range(len(bits)):
        for bit in range(8):
            if bits[index] & (1 << bit):
                segment.settle(index * 8 + bit)


def _note_lanes(store: LogStore, segment: Segment, gone: set[int]) -> None:
    """The numbers that are taken, and which of them were deleted, or did not outlive the restart."""
    for number in segment.deleted_lanes:
        gone.add(number)
        # Also when nothing else is left of it: another lane of that number would be deleted with it.
        store.next_lane = max(store.next_lane, number + 1)
    for number, payload in segment.lanes.items():
        store.next_lane = max(store.next_lane, number + 1)
        if payload[5] == 0:
            gone.add(number)


def _apply_settled(store: LogStore, segment: Segment) -> None:
    addresses = segment.settled_here.getvalue()
    for at in range(0, len(addresses), 8):
        address = read_i64_be(addresses, at)
        if address & 0xFFFFFFFF == MARKS_IN_FILE:
            segment.marked[address >> 32] = True
            continue
        target = store.segments.get(address >> 32)
        if target is None:
            if address >> 32 in store.unreadable:
                segment.settles[address >> 32] = True
            continue
        target.settle(address & 0xFFFFFFFF)
        if target is not segment:
            segment.settles[target.number] = True


def _settle_gone(store: LogStore, segment: Segment, run: LaneRun, is_gone: bool) -> None:
    """What did not outlive the restart: the whole lane, or what was transient in it."""
    rows = store.read_rows(segment, run, 0, run.count)
    for at in range(0, len(rows), ROW_SIZE):
        row = Row(rows, at)
        if is_gone or row.transient:
            segment.settle(row.ordinal)


def _gather_lanes(store: LogStore, orphans: list[Segment]) -> None:
    lanes: dict[int, RecoveredLane] = {}
    for segment in store.segments.values():
        for number, payload in segment.lanes.items():
            if number not in lanes:
                lanes[number] = RecoveredLane(payload)
    returned: Returned = {}
    deleted: set[int] = set()
    for segment in [*orphans, *store.segments.values()]:
        note_payloads(returned, segment.returned)
        deleted.update(segment.deleted_lanes)
        for number, mark in watermarks_in(segment).items():
            if number in lanes:
                lanes[number].watermark = max(lanes[number].watermark, mark)
    for segment in store.segments.values():
        for run in segment.runs:
            lane = lanes.get(run.lane)
            if lane is not None:
                lane.runs.append((segment, run))
    for number, lane in lanes.items():
        lane.returned = returned.get(number, {})
        if lane.durable and number not in deleted:
            store.unclaimed.lanes[lane.key] = lane
    for segment in store.segments.values():
        _gather_notes(store, segment, {number: lane for number, lane in lanes.items() if number not in deleted})


def _gather_notes(store: LogStore, segment: Segment, lanes: dict[int, RecoveredLane]) -> None:
    notes: dict[str, list[tuple[bytes, int]]] = {}
    for payload in segment.seen:
        for number, key, value in notes_in(payload):
            lane = lanes.get(number)
            if lane is not None and lane.durable:
                notes.setdefault(lane.incarnation, []).append((key, value))
    segment.seen.clear()
    for incarnation, found in notes.items():
        store.seen.take(incarnation, segment.number, found)
