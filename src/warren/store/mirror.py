"""Streams read from a copy of another node's files: only what is committed, and nothing is ever written.

Files are as long as they are said to be, and each stream hears when one of its own has grown, was indexed or is gone.
Damage is not passed over as on the node that writes: another copy is whole, so whoever reads here is sent away.
"""

from __future__ import annotations

import json
from typing import Final

from mypy_extensions import i64, mypyc_attr

from warren.broker.queue.queue import Queue
from warren.broker.queue.store import Store
from warren.broker.queue.stream_log import StreamLog, StreamRecord
from warren.store.definitions import CHANGES, LOG_ENDING, changes_in
from warren.store.definitions_recovery import FoundDefinitions
from warren.store.disk import Disk
from warren.store.format import FILE_HEADER_SIZE, RECORD_HEADER_SIZE, record_at
from warren.store.log import LogStore
from warren.store.stream import DiskStreamLog
from warren.store.stream_format import (
    FILE_ENDING,
    INDEX_ENDING,
    STREAM_MESSAGE,
    body_size_of,
    claimed_size,
    offset_of,
    parse_name,
    read_file_header,
    timestamp_of,
)
from warren.store.stream_recovery import StreamSurvey
from warren.store.stream_segment import StreamSegment
from warren.store.streams import RecoveredStream, StreamLogs, stream_files
from warren.store.whole_files import read_range

# Of a file that has grown, looked at in one go: a loop that serves others does it.
PIECE_BYTES: Final[i64] = 1 << 20
# What a definition is now; None when it is gone.
Change = tuple[str, tuple[str, ...], dict[str, object] | None]


class CopyDamaged(Exception):
    """What is read here is not what was written there."""


@mypyc_attr(allow_interpreted_subclasses=True)
class CommittedDisk:
    """A Disk of which nothing is shown but what is committed of each file, and to which nothing is written."""

    def __init__(self, disk: Disk, sizes: dict[str, int]) -> None:
        self._disk = disk
        self.sizes = sizes

    def names(self) -> list[str]:
        return sorted(self.sizes)

    def size(self, name: str) -> int:
        size = self.sizes.get(name)
        if size is None:
            raise FileNotFoundError(name)
        return size

    def open(self, name: str) -> int:
        return self._disk.open(name)

    def read(self, handle: int, size: int, offset: int) -> bytes:
        return self._disk.read(handle, size, offset)

    def close(self, handle: int) -> None:
        self._disk.close(handle)

    def create(self, name: str, room: int) -> int:
        raise _refusal()

    def reopen(self, name: str, size: int) -> int:
        raise _refusal()

    def append(self, handle: int, data: bytes) -> None:
        raise _refusal()

    def truncate(self, handle: int, size: int) -> None:
        raise _refusal()

    def sync(self, handle: int) -> None:
        raise _refusal()

    def sync_directory(self) -> None:
        raise _refusal()

    def replace(self, name: str, data: bytes) -> None:
        raise _refusal()

    def remove(self, name: str) -> None:
        raise _refusal()


def _refusal() -> NotImplementedError:
    return NotImplementedError("the leader writes")


class MirroredStream(DiskStreamLog):
    def keep(self, record: StreamRecord, body_size: i64) -> None:
        raise _refusal()

    def retain(self, now: i64) -> None:
        """The leader's to decide."""

    def wound(self, segment: StreamSegment, position: i64) -> i64:
        if segment.handle >= 0:
            raise CopyDamaged(f"stream '{self.queue.name}': file {segment.number} is damaged at byte {position}")
        # Retention took it, as will be heard.
        self.vanish(segment)
        return position

    def segment_of(self, number: i64) -> StreamSegment | None:
        for segment in self.segments:
            if segment.number == number:
                return segment
        return None

    def vanish(self, segment: StreamSegment) -> None:
        """Who is in it goes on with what follows."""
        if segment.is_gone:
            return
        segment.is_gone = True
        self.segments.remove(segment)
        self.length -= segment.count
        self.body_bytes -= segment.body_bytes
        self.first_offset = self.segments[0].first_offset if self.segments else segment.end_offset

    def grow(self, number: i64, size: i64) -> bool:
        """So much of a file may be read: take in a piece of what is new. False when there is more of it."""
        segment = self.segment_of(number)
        if segment is None:
            if self.segments and number < self.segments[-1].number:
                return True
            segment = StreamSegment(self.incarnation, number)
            segment.is_sealed = True
        start = segment.size
        if size <= start:
            return True
        data = self.read(segment, start, min(size - start, PIECE_BYTES))
        needed = claimed_size(data, 0)
        if len(data) < needed <= size - start:
            data = self.read(segment, start, needed)
        if not data:
            # It is gone already.
            return True
        at: i64 = 0
        if start == 0:
            at = self._begin(segment, data)
        count, body_bytes = segment.count, segment.body_bytes
        at = _take_heads(segment, data, at)
        if at == 0:
            raise CopyDamaged(f"stream '{self.queue.name}': file {number} is damaged at byte {start}")
        segment.size = start + at
        segment.durable = segment.size
        self.length += segment.count - count
        self.body_bytes += segment.body_bytes - body_bytes
        self.last_timestamp = max(self.last_timestamp, segment.last_timestamp)
        self.next_offset = segment.end_offset
        self.committed = segment.end_offset
        self.logs.close_if_idle(segment)
        return segment.size >= size

    def _begin(self, segment: StreamSegment, data: bytes) -> i64:
        header = read_file_header(data, self.incarnation, segment.number)
        if header is None:
            raise CopyDamaged(f"stream '{self.queue.name}': file {segment.number} has no header")
        segment.header_size = header.size
        segment.first_offset = header.first_offset
        segment.end_offset = header.first_offset
        if not self.segments:
            self.first_offset = header.first_offset
        self.segments.append(segment)
        return header.size


def _take_heads(segment: StreamSegment, data: bytes, at: i64) -> i64:
    """Of the whole records in a part of a file, whose checksums are asked by those who read them. Where they end."""
    base = segment.size
    size = claimed_size(data, at)
    while 0 <= size <= len(data) - at:
        if data[at + 2] == STREAM_MESSAGE:
            segment.add(offset_of(data, at), timestamp_of(data, at), body_size_of(data, at), base + at)
        at += size
        size = claimed_size(data, at)
    return at


class CopySurvey:
    """What a copy has when one begins to read from it. It may take a while, and is done in a thread.

    Raises OSError when a file went meanwhile: then it is to be done again.
    """

    def __init__(self, disk: CommittedDisk) -> None:
        names = disk.names()
        found = FoundDefinitions(disk)
        self.disk = disk
        self.damage = found.damage
        self.rows = found.folded.rows()
        self.streams: dict[str, RecoveredStream] = {}
        for incarnation, numbers in stream_files(names).items():
            survey = StreamSurvey(disk, incarnation, numbers, names)
            self.damage += [line for line in survey.lines if "lost messages" in line]
            self.streams[incarnation] = survey.stream


class MirrorStore(Store):
    def __init__(self, survey: CopySurvey) -> None:
        super().__init__()
        self.disk = survey.disk
        self._recovered = survey.streams
        self._files: StreamLogs = LogStore(survey.disk).streams
        self._logs: dict[str, MirroredStream] = {}
        # Files of streams that have grown, and to what size.
        self._growing: dict[tuple[str, int], int] = {}
        self._committed: dict[Queue, bool] = {}

    def open_stream(self, queue: Queue) -> StreamLog:
        incarnation = queue.incarnation
        recovered = self._recovered.pop(incarnation, None)
        if recovered is None:
            # Declared just now: its first file comes after it.
            recovered = RecoveredStream(incarnation)
        log = MirroredStream(self._files, queue, recovered.segments, recovered.next_number)
        self._logs[incarnation] = log
        return log

    def take_committed(self) -> list[Queue]:
        if not self._committed:
            return []
        committed, self._committed = self._committed, {}
        return [queue for queue in committed if not queue.deleted]

    # -- what the leader did ---------------------------------------------------------------------------------------

    def changes(self, name: str, size: int) -> list[Change]:
        """A log of definitions has grown to this size. Raises OSError when it is not there any more."""
        start = max(self.disk.sizes.get(name, 0), int(FILE_HEADER_SIZE))
        self.disk.sizes[name] = size
        data = read_range(self.disk, name, start, max(size - start, 0))
        number = int(name[: -len(LOG_ENDING)])
        found: list[Change] = []
        at: i64 = 0
        while at < len(data):
            end = record_at(data, at, number, start + at)
            if end < 0:
                raise CopyDamaged(f"{name} is damaged at byte {start + at}")
            if data[at + 2] == CHANGES:
                for key, value in changes_in(data[at + RECORD_HEADER_SIZE : end]):
                    kind, *names = json.loads(key)
                    found.append((kind, tuple(names), json.loads(value) if value else None))
            at = end
        return found

    def file_changed(self, name: str, size: int) -> None:
        """Of a stream, or of no interest. Negative: it is gone."""
        if size < 0:
            self.disk.sizes.pop(name, None)
        else:
            self.disk.sizes[name] = size
        ended = parse_name(name, FILE_ENDING)
        if ended is not None:
            if size >= 0:
                self._growing[ended] = size
                return
            self._growing.pop(ended, None)
            log = self._logs.get(ended[0])
            segment = None if log is None else log.segment_of(ended[1])
            if log is not None and segment is not None:
                log.vanish(segment)
            return
        indexed = parse_name(name, INDEX_ENDING)
        if indexed is not None and size >= 0 and indexed[0] in self._logs:
            segment = self._logs[indexed[0]].segment_of(indexed[1])
            if segment is not None:
                segment.forget_rows()

    def grow(self) -> bool:
        """A piece of what has grown. False when that was all."""
        if not self._growing:
            return False
        (incarnation, number), size = next(iter(self._growing.items()))
        log = self._logs.get(incarnation)
        if log is None or log.grow(number, size):
            del self._growing[(incarnation, number)]
        if log is not None:
            self._committed[log.queue] = True
        return True

    def close(self) -> None:
        """Nobody reads any further, not even what is in memory: the files may be others at once."""
        for log in self._logs.values():
            for segment in log.segments:
                segment.is_gone = True
                if segment.handle >= 0:
                    self.disk.close(segment.handle)
                    segment.handle = -1
            log.segments.clear()
