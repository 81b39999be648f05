"""What a stream asks of whoever keeps its messages, and the log that keeps them in memory.

Records are only ever appended, in segments, and leave by whole segments, the oldest first. Whoever reads has a cursor
and moves at a pace of its own. Nobody is shown a record before it is committed (durable, where there is a disk):
otherwise an offset that a consumer has noted could stand for another message after a crash.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.stamp import stamped
from warren.amqp.stream_run import StreamRun
from warren.broker.message import Message
from warren.broker.queue.backing import Backing

# As RabbitMQ's.
SEGMENT_BYTES: Final[i64] = 500_000_000
# Consumers mostly sit on the first channel of their connection; frames for it go out as they are kept.
KEPT_CHANNEL: Final[i64] = 1
_OFFSET: Final = STREAM_OFFSET.encode()
# What a record costs beside its bytes on the wire.
RECORD_OVERHEAD: Final[i64] = 48


class StreamRecord:
    """One message of a stream, ready to be sent."""

    def __init__(self, offset: i64, timestamp: i64, filter_value: bytes | None, suffix_size: i64, wire: bytes) -> None:
        self.offset: i64 = offset
        # Milliseconds; never smaller than the one before it.
        self.timestamp: i64 = timestamp
        self.filter_value = filter_value
        # The end of basic.deliver (see Origin.suffix), then the content with its offset among the headers.
        self.suffix_size: i64 = suffix_size
        self.wire = wire

    def size(self) -> i64:
        return len(self.wire) + RECORD_OVERHEAD


class StreamCursor:
    """A reader's place in a stream."""

    def __init__(self, next_offset: i64) -> None:
        # What it wants next; records before it are passed over.
        self.next_offset: i64 = next_offset

    def next(self) -> StreamRecord | None:
        """The next record that is committed; None when there is none yet."""
        raise NotImplementedError

    def next_run(self, most_bytes: i64, most: i64) -> StreamRun | None:
        """The next records in one piece; None when there is none, or `next` has to give it on its own."""
        return None

    def close(self) -> None:
        """It will not be used again."""


class StreamLog(Backing):
    """`length` and `body_bytes` count all that is kept, readable or not."""

    def __init__(self) -> None:
        super().__init__()
        self.first_offset: i64 = 0
        self.next_offset: i64 = 0
        # Everything below may be read.
        self.committed: i64 = 0
        self.last_timestamp: i64 = 0
        # The rules of retention; -1 = none.
        self.segment_bytes: i64 = SEGMENT_BYTES
        self.max_bytes: i64 = -1
        self.max_age: i64 = -1
        # What retention takes goes to an archive first, and stays as long as it cannot.
        self.archives = False
        # The folder of all archives, and this stream's below it; empty where there are no files.
        self.archive_root = ""
        self.archive_folder = ""
        # Why it cannot, at the moment.
        self.archive_error = ""

    def append(self, message: Message, filter_value: bytes | None, now: i64) -> None:
        offset = self.next_offset
        self.next_offset = offset + 1
        # Clocks are set back between two lives of a broker; who looks for a time relies on order.
        self.last_timestamp = max(now, self.last_timestamp)
        suffix = message.origin.suffix
        wire = suffix + stamped(message.content, KEPT_CHANNEL, _OFFSET, offset)
        self.length += 1
        self.body_bytes += message.body_size
        self.keep(StreamRecord(offset, self.last_timestamp, filter_value, len(suffix), wire), message.body_size)

    def keep(self, record: StreamRecord, body_size: i64) -> None:
        raise NotImplementedError

    def cursor(self, offset: i64) -> StreamCursor:
        """For one who wants everything from `offset` on."""
        raise NotImplementedError

    def offset_at(self, timestamp: i64) -> i64:
        """The first offset that is not older; the next one to come when all are."""
        raise NotImplementedError

    def segment_count(self) -> i64:
        raise NotImplementedError

    def retain(self, now: i64) -> None:
        """Give up the oldest segments that are too many or too old; never the last."""
        raise NotImplementedError

    def disk_bytes(self) -> i64:
        return 0


class MemorySegment:
    def __init__(self, first_offset: i64) -> None:
        self.first_offset: i64 = first_offset
        self.records: list[StreamRecord] = []
        self.bytes: i64 = 0
        self.body_bytes: i64 = 0

    def end(self) -> i64:
        return self.first_offset + len(self.records)

    def last_timestamp(self) -> i64:
        return self.records[-1].timestamp if self.records else 0


class MemoryCursor(StreamCursor):
    def __init__(self, log: MemoryStreamLog, next_offset: i64) -> None:
        super().__init__(next_offset)
        self._log = log
        self._segment = MemorySegment(0)

    def next(self) -> StreamRecord | None:
        log = self._log
        if self.next_offset >= log.next_offset:
            return None
        if self.next_offset < log.first_offset:
            self.next_offset = log.first_offset
        segment = self._segment
        if self.next_offset >= segment.end() or self.next_offset < segment.first_offset:
            segment = log.segment_of(self.next_offset)
            self._segment = segment
        record = segment.records[self.next_offset - segment.first_offset]
        self.next_offset += 1
        return record


class MemoryStreamLog(StreamLog):
    def __init__(self) -> None:
        super().__init__()
        self._segments: deque[MemorySegment] = deque([MemorySegment(0)])
        self._bytes: i64 = 0

    def keep(self, record: StreamRecord, body_size: i64) -> None:
        segment = self._segments[-1]
        if segment.bytes >= self.segment_bytes:
            segment = MemorySegment(record.offset)
            self._segments.append(segment)
        segment.records.append(record)
        segment.bytes += record.size()
        segment.body_bytes += body_size
        self._bytes += record.size()
        self.committed = self.next_offset
        if len(segment.records) == 1:
            self.retain(record.timestamp)

    def cursor(self, offset: i64) -> StreamCursor:
        return MemoryCursor(self, offset)

    def segment_of(self, offset: i64) -> MemorySegment:
        found = self._segments[0]
        for segment in self._segments:
            if segment.first_offset <= offset:
                found = segment
        return found

    def offset_at(self, timestamp: i64) -> i64:
        for segment in self._segments:
            if segment.last_timestamp() < timestamp:
                continue
            low, high = 0, len(segment.records)
            while low < high:
                middle = (low + high) // 2
                if segment.records[middle].timestamp < timestamp:
                    low = middle + 1
                else:
                    high = middle
            return segment.first_offset + low
        return self.next_offset

    def segment_count(self) -> i64:
        return len(self._segments)

    def retain(self, now: i64) -> None:
        if self.archives:
            # There is no file to archive, and what is to be kept is not thrown away.
            return
        segments = self._segments
        while len(segments) > 1 and is_spent(self, self._bytes, segments[0].last_timestamp(), now):
            gone = segments.popleft()
            self._bytes -= gone.bytes
            self.length -= len(gone.records)
            self.body_bytes -= gone.body_bytes
            self.first_offset = segments[0].first_offset


def is_spent(log: StreamLog, total_bytes: i64, last_timestamp: i64, now: i64) -> bool:
    """Whether the oldest segment must go: all together are too long, or the youngest record in it is too old."""
    if 0 <= log.max_bytes < total_bytes:
        return True
    return log.max_age >= 0 and last_timestamp < now - log.max_age
