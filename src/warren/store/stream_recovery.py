"""Opening the streams of a store: what their files say, by the rules that recovery.py has for the log.

A file with an index is taken at its index's word; others are read. Behind the last point that is known to have been
synced, the first damage ends the stream: what follows was promised to nobody. Damage before it costs what is damaged.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.store.disk import Disk
from warren.store.format import RECORD_HEADER_SIZE, SEEN
from warren.store.seen import notes_in
from warren.store.stream_format import (
    FACTS_SIZE,
    STREAM_MESSAGE,
    FileHeader,
    body_size_of,
    file_name,
    index_name,
    offset_of,
    read_file_header,
    timestamp_of,
)
from warren.store.stream_segment import StreamSegment, decode_index
from warren.store.streams import RecoveredStream, StreamLogs, stream_files, stream_indexes
from warren.store.walk import RecordWalk, counted_until, next_record
from warren.store.whole_files import cut_and_sync, read_or_nothing, read_whole, start_or_nothing

# A file's header tells whose it is, by names of at most 255 bytes each.
HEADER_READ: Final[i64] = 1024
# What a message takes at least.
_LEAST_RECORD: Final[i64] = RECORD_HEADER_SIZE + FACTS_SIZE


def recover_streams(logs: StreamLogs) -> list[str]:
    """Give the store what is there. The lines tell what is lost."""
    disk = logs.disk
    names = disk.names()
    lines: list[str] = []
    surveys: list[StreamSurvey] = []
    files = stream_files(names)
    for incarnation, numbers in files.items():
        surveys.append(StreamSurvey(disk, incarnation, numbers, names))
    for survey in surveys:
        survey.repair()
        lines += survey.lines
        logs.recovered[survey.stream.incarnation] = survey.stream
        for segment in survey.stream.segments:
            notes = [(key, number) for payload in segment.seen for _, key, number in notes_in(payload)]
            segment.seen.clear()
            if notes:
                logs.store.seen.take(survey.stream.incarnation, segment.number, notes)
    has_orphans = _remove_orphans(disk, files, names)
    if surveys or has_orphans:
        disk.sync_directory()
    return lines


def _remove_orphans(disk: Disk, files: dict[str, list[int]], names: list[str]) -> bool:
    """Indexes without their files: a removal that a crash cut short."""
    found = False
    for incarnation, numbers in stream_indexes(names).items():
        for number in numbers:
            if number not in files.get(incarnation, []):
                disk.remove(index_name(incarnation, number))
                found = True
    return found


class StreamSurvey:
    """The files of one stream, and what is to be made of them. Looking changes nothing."""

    def __init__(self, disk: Disk, incarnation: str, numbers: list[int], names: list[str]) -> None:
        self._disk = disk
        self.stream = RecoveredStream(incarnation)
        self.stream.next_number = numbers[-1] + 1
        self.lines: list[str] = []
        found = [_FoundFile(disk, incarnation, number, names) for number in numbers]
        self.found = [one for one in found if not one.is_unreadable]
        self._unreadable = [one for one in found if one.is_unreadable]
        # Files behind the end of what was synced.
        self.dropped: list[_FoundFile] = []
        for one in self.found:
            if one.header is not None and not self.stream.name:
                self.stream.vhost, self.stream.name = one.header.vhost, one.header.name
        self._cut_unsynced_tail()
        self._tell_gaps()
        self._keep_unreadable()

    def _whose(self) -> str:
        stream = self.stream
        return f"stream '{stream.name}' in vhost '{stream.vhost}'" if stream.name else f"stream {stream.incarnation}"

    def _cut_unsynced_tail(self) -> None:
        durable = max([one.mark for one in self.found + self._unreadable])
        is_cut = False
        for index, one in enumerate(self.found):
            segment = one.segment
            if is_cut or (one.header is None and not segment.is_indexed and (int(segment.number), 0) >= durable):
                is_cut = True
                self.dropped.append(one)
                self.lines.append(f"store: {self._whose()}: {one.name} was never synced and is dropped")
                continue
            if not segment.is_indexed:
                follower = self.found[index + 1] if index + 1 < len(self.found) else None
                is_cut = self._read(one, follower, durable)
            if segment.count == 0 and self.stream.segments:
                # Nothing is left of it, and retention must not take it for the youngest.
                self.dropped.append(one)
                continue
            self.stream.segments.append(segment)

    def _read(self, one: _FoundFile, follower: _FoundFile | None, durable: tuple[int, int]) -> bool:
        """Take in what counts of it. True when the stream ends in it."""
        number = int(one.segment.number)
        expected = -1
        if follower is not None and follower.segment.number == number + 1 and follower.header is not None:
            expected = follower.header.previous_size or -1
        whole, lost, is_last = counted_until(number, one.size, expected, one.damage, one.groups, durable)
        for start, end in lost:
            self.lines.append(f"store: {self._whose()} lost messages: {one.name} is damaged from byte {start} to {end}")
        one.read(whole)
        if is_last:
            self.lines.append(f"store: {self._whose()}: {one.name} was synced up to byte {whole}; the rest is dropped")
        return is_last

    def _tell_gaps(self) -> None:
        """A file in the middle that is not there any more."""
        before: StreamSegment | None = None
        unreadable = [one.segment.number for one in self._unreadable]
        for segment in self.stream.segments:
            if (
                before is not None
                and segment.number > before.number + 1
                and before.number + 1 not in unreadable
                and segment.first_offset > before.end_offset
            ):
                self.lines.append(
                    f"store: {self._whose()} lost messages {before.end_offset} to {segment.first_offset - 1}: "
                    f"{file_name(self.stream.incarnation, before.number + 1)} is missing"
                )
            before = segment

    def _keep_unreadable(self) -> None:
        for one in self._unreadable:
            self.stream.unreadable.append(one.segment)
            self.lines.append(
                f"store: {self._whose()}: {one.name} cannot be read: its messages are missing until it can be again"
            )
        last = self.found[-1].segment if self.found else None
        if last is None and self._unreadable:
            # No file has so many messages.
            self.stream.next_offset = int(self._unreadable[-1].segment.number) << 32
        elif last is not None and self._unreadable and self._unreadable[-1].segment.number > last.number:
            sizes = [one.size for one in self._unreadable if one.segment.number > last.number]
            most = [size // _LEAST_RECORD for size in [*sizes, self.found[-1].size]]
            self.stream.next_offset = int(last.first_offset) + sum(most)

    def repair(self) -> None:
        """Make what counts durable, and what does not go away."""
        for one in self.dropped:
            self._disk.remove(one.name)
        for one in self.found:
            if one not in self.dropped and not one.segment.is_indexed:
                one.make_durable()


class _FoundFile:
    def __init__(self, disk: Disk, incarnation: str, number: int, names: list[str]) -> None:
        self._disk = disk
        self.name = file_name(incarnation, number)
        self.damage: list[tuple[int, int]] = []
        self.groups: list[tuple[int, int]] = []
        # The furthest point that it says was synced: file and position.
        self.mark: tuple[int, int] = (0, 0)
        self.size: int = disk.size(self.name)
        self.header: FileHeader | None = None
        self.is_unreadable = False
        segment: StreamSegment | None = None
        if index_name(incarnation, number) in names:
            segment = decode_index(read_or_nothing(disk, index_name(incarnation, number)), incarnation, number)
        if segment is None:
            segment = StreamSegment(incarnation, number)
            self.segment = segment
            data = read_or_nothing(disk, self.name)
            if not data and self.size > 0:
                self.is_unreadable = True
                # It was begun when all before it was durable.
                self.mark = (number, 0)
                return
            self._survey(data)
        else:
            self.segment = segment
            self.mark = (number, int(segment.size))
            self.header = read_file_header(start_or_nothing(disk, self.name, HEADER_READ), incarnation, number)

    def _survey(self, data: bytes) -> None:
        """Where the damage is, and how far the stream knew itself to be durable."""
        segment = self.segment
        self.header = read_file_header(data, segment.incarnation, segment.number)
        at: i64 = 0
        if self.header is not None:
            at = self.header.size
            segment.header_size = at
            segment.first_offset = self.header.first_offset
            segment.end_offset = segment.first_offset
        else:
            at = next_record(data, 0, segment.seed)
            at = len(data) if at < 0 else at
            segment.header_size = at
            self.damage.append((0, at))
        walk = RecordWalk(data, at, segment.seed)
        walk.survey()
        self.damage += walk.damage
        self.mark = walk.mark
        self.groups = walk.groups

    def read(self, until: int) -> None:
        """Take in the records that begin before `until`."""
        segment = self.segment
        data = read_whole(self._disk, self.name)
        walk = RecordWalk(data, segment.header_size, segment.seed, until)
        while walk.next():
            if walk.kind() == STREAM_MESSAGE:
                at = walk.at
                segment.add(offset_of(data, at), timestamp_of(data, at), body_size_of(data, at), at)
            elif walk.kind() == SEEN:
                segment.has_seen = True
                segment.seen.append(walk.payload())
        segment.size = min(self.size, until)
        segment.durable = segment.size
        segment.is_named = True
        segment.is_sealed = True

    def make_durable(self) -> None:
        cut_and_sync(self._disk, self.name, self.segment.size)
