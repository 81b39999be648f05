"""A stream on disk: files that are appended to, and that retention takes away again.

What was just written is also in memory, one copy for all who read along. Reading: stream_cursor.py.
"""

from __future__ import annotations

from collections import deque
from errno import EIO
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.queue.stream_log import StreamCursor, StreamLog, StreamRecord, is_spent
from warren.broker.world import ERROR
from warren.store.format import SEEN, SYNCED, TOGETHER, write_record
from warren.store.seen import write_note
from warren.store.stream_archive import archive_folder
from warren.store.stream_cursor import DiskCursor
from warren.store.stream_format import FileHeader, file_name, index_name, write_stream_record
from warren.store.stream_segment import StreamSegment, position_of, rows_of_index
from warren.store.walk import next_record

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.store.streams import StreamLogs

TAIL_BYTES: Final[i64] = 524288
# A file is no longer than this, whatever a declaration allows: a restart reads the last one.
FILE_BYTES: Final[i64] = 64 * 1024 * 1024
_OFFSET_COLUMN: Final[i64] = 0
_TIME_COLUMN: Final[i64] = 8


class Block:
    """Bytes that were written at one time, still in memory."""

    def __init__(self, segment: StreamSegment, start: i64, data: bytes) -> None:
        self.segment = segment
        self.start: i64 = start
        self.data = data


class DiskStreamLog(StreamLog):
    def __init__(self, logs: StreamLogs, queue: Queue, segments: list[StreamSegment], next_number: i64) -> None:
        super().__init__()
        self.logs = logs
        self.queue = queue
        self.incarnation = queue.incarnation
        # Oldest first. The last one is written to, unless it is sealed.
        self.segments = segments
        # As in RecoveredStream.
        self.unreadable: list[StreamSegment] = []
        self._next_number: i64 = next_number
        self._out = BytesWriter()
        # A TOGETHER record is in `_out`, and its SEEN is not.
        self._is_together = False
        self._seen = BytesWriter()
        self._tail: deque[Block] = deque()
        self._tail_bytes: i64 = 0
        self.archive_root = logs.archive_root
        self.archive_folder = archive_folder(queue.vhost, queue.name, queue.incarnation)
        # How far the log knows itself to be durable, to be written with the next batch.
        self.mark = b""
        for segment in segments:
            self.length += segment.count
            self.body_bytes += segment.body_bytes
            self.last_timestamp = max(self.last_timestamp, segment.last_timestamp)
        if segments:
            self.first_offset = segments[0].first_offset
            self.next_offset = segments[-1].end_offset
            self.committed = self.next_offset

    def skip_to(self, offset: i64) -> None:
        """Below it there may be messages in files that cannot be read now."""
        self.next_offset = offset
        self.committed = offset
        if not self.segments:
            self.first_offset = offset

    # -- in --------------------------------------------------------------------------------------------------------

    def begin_together(self) -> None:
        if not self._is_together:
            self._is_together = True
            self._add_record(self._active(self.next_offset), TOGETHER, b"")

    def remember(self, key: bytes, number: i64) -> None:
        self.logs.store.seen.queues[self.queue] = True
        write_note(self._seen, 0, key, number)
        self.logs.changed(self)

    def _add_record(self, segment: StreamSegment, kind: i64, payload: bytes) -> None:
        write_record(self._out, kind, payload, segment.seed, segment.size + len(self._out))

    def keep(self, record: StreamRecord, body_size: i64) -> None:
        segment = self._active(record.offset)
        position = segment.size + len(self._out)
        write_stream_record(self._out, record, body_size, segment.seed, position)
        segment.add(record.offset, record.timestamp, body_size, position)
        self.logs.changed(self)

    def _active(self, next_offset: i64) -> StreamSegment:
        if self.segments and not self.segments[-1].is_sealed:
            return self.segments[-1]
        number = self._next_number
        self._next_number = number + 1
        # Nothing where nobody knows it: of a file that cannot be read.
        previous_size = self.segments[-1].size if self.segments and self.segments[-1].number == number - 1 else 0
        segment = StreamSegment(self.incarnation, number)
        segment.first_offset = next_offset
        segment.end_offset = segment.first_offset
        queue = self.queue
        header = FileHeader(queue.vhost, queue.name, self.incarnation, number, previous_size, segment.first_offset)
        self._out.write(header.encode())
        segment.header_size = header.size
        self.segments.append(segment)
        return segment

    def write(self) -> StreamSegment:
        """Hand what was appended to the operating system; gives the segment that it went to."""
        segment = self.segments[-1]
        is_new = segment.handle < 0
        if is_new:
            segment.handle = self.logs.disk.create(file_name(self.incarnation, segment.number), 0)
        if self._is_together:
            self._is_together = False
            self._add_record(segment, SEEN, self._seen.getvalue())
            self._seen.truncate(0)
            segment.has_seen = True
        if self.mark:
            self._add_record(segment, SYNCED, self.mark)
            self.mark = b""
        data = self._out.getvalue()
        self._out = BytesWriter()
        self.logs.disk.append(segment.handle, data)
        self._remember(Block(segment, segment.size, data))
        segment.size += len(data)
        self.logs.store.bytes_written += len(data)
        if is_new:
            self.retain(self.last_timestamp)
        return segment

    def _remember(self, block: Block) -> None:
        tail = self._tail
        tail.append(block)
        self._tail_bytes += len(block.data)
        while len(tail) > 1 and self._tail_bytes > TAIL_BYTES:
            self._tail_bytes -= len(tail.popleft().data)

    def is_full(self, segment: StreamSegment) -> bool:
        return segment.size >= min(self.segment_bytes, FILE_BYTES) and segment.is_named

    def retain(self, now: i64) -> None:
        segments = self.segments
        self.logs.archive_wanted.pop(self, None)
        total: i64 = 0
        for segment in segments:
            total += segment.size
        while len(segments) > 1 and is_spent(self, total, segments[0].last_timestamp, now):
            if self.archives and not segments[0].is_archived and segments[0].count > 0:
                # It goes when it is in the archive, and nothing younger goes before it.
                self.logs.archive_wanted[self] = segments[0]
                return
            gone = segments.pop(0)
            total -= gone.size
            self.length -= gone.count
            self.body_bytes -= gone.body_bytes
            self.first_offset = segments[0].first_offset
            self.logs.drop(gone)

    def last_sealed(self) -> int:
        """The number of the last file that will not be written to any more."""
        is_open = bool(self.segments) and not self.segments[-1].is_sealed
        return self._next_number - 2 if is_open else self._next_number - 1

    def segment_count(self) -> i64:
        return len(self.segments)

    def disk_bytes(self) -> i64:
        total: i64 = 0
        for segment in self.segments:
            total += segment.size
        return total

    # -- out -------------------------------------------------------------------------------------------------------

    def cursor(self, offset: i64) -> StreamCursor:
        return DiskCursor(self, offset)

    def offset_at(self, timestamp: i64) -> i64:
        for segment in self.segments:
            if segment.last_timestamp < timestamp:
                continue
            cursor = DiskCursor(self, segment.first_offset)
            cursor.enter_at(segment, position_of(self.rows(segment), _TIME_COLUMN, timestamp, segment.header_size))
            record = cursor.next()
            while record is not None and record.timestamp < timestamp:
                record = cursor.next()
            cursor.close()
            return self.committed if record is None else record.offset
        return self.next_offset

    def find(self, offset: i64) -> StreamSegment | None:
        """The segment that has the offset, or would have it."""
        found: StreamSegment | None = None
        for segment in self.segments:
            if found is None or segment.first_offset <= offset:
                found = segment
        return found

    def place_of(self, segment: StreamSegment, offset: i64) -> i64:
        if offset >= segment.end_offset:
            # Only where it is being written, what is not yet in the file counts as well.
            is_last = segment is self.segments[-1]
            return segment.size + len(self._out) if is_last else segment.size
        return position_of(self.rows(segment), _OFFSET_COLUMN, offset + 1, segment.header_size)

    def rows(self, segment: StreamSegment) -> bytes:
        if not segment.is_indexed:
            return segment.rows_in_memory()
        return rows_of_index(self.logs.read_whole(index_name(self.incarnation, segment.number)), segment)

    def after(self, segment: StreamSegment) -> StreamSegment | None:
        for other in self.segments:
            if other.number > segment.number:
                return other
        return None

    def block_at(self, segment: StreamSegment, position: i64) -> Block | None:
        """What is in memory from there on. The youngest first: there may be thousands, and most who ask read along."""
        for block in reversed(self._tail):
            if block.segment is segment and block.start <= position:
                return block if position < block.start + len(block.data) else None
        return None

    def read(self, segment: StreamSegment, position: i64, size: i64) -> bytes:
        try:
            if segment.handle < 0:
                segment.handle = self.logs.disk.open(file_name(self.incarnation, segment.number))
            return self.logs.disk.read(segment.handle, size, position)
        except OSError as error:
            if error.errno != EIO and not isinstance(error, FileNotFoundError):
                raise
            # A bad sector, or a file that somebody took away, is damage like any other.
            return b""

    def wound(self, segment: StreamSegment, position: i64) -> i64:
        """There is damage at this position: where does reading go on? Told once, whoever comes across it."""
        known = segment.wounds.get(position)
        if known is not None:
            return known
        rest = self.read(segment, position, segment.durable - position)
        found = next_record(rest, 1, segment.seed, position)
        end = position + found if found >= 0 else segment.durable
        segment.wounds[position] = end
        self.queue.node.host.log(
            ERROR,
            f"store: stream '{self.queue.name}' in vhost '{self.queue.vhost}' lost messages: "
            f"{file_name(self.incarnation, segment.number)} is damaged from byte {position} to {end}",
        )
        return end

    def release(self, segment: StreamSegment) -> None:
        """A cursor has left it."""
        segment.users -= 1
        self.logs.close_if_idle(segment)
