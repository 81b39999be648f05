"""Reading a stream on disk: a place in it, from which records or runs of them are taken one after another.

Where something is read that is still in memory, that is used; else blocks of a file are. So a reader costs one block
of memory, however long the stream is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp.stream_run import StreamRun
from warren.broker.queue.stream_log import StreamCursor, StreamRecord
from warren.store.format import RECORD_HEADER_SIZE, record_at
from warren.store.stream_format import STREAM_MESSAGE, claimed_size, offset_of, read_stream_record
from warren.store.stream_segment import StreamSegment

if TYPE_CHECKING:
    from warren.store.stream import DiskStreamLog

BLOCK_BYTES: Final[i64] = 262144
# A run may have this part of it in vain.
_WASTE: Final[i64] = 16


class DiskCursor(StreamCursor):
    def __init__(self, log: DiskStreamLog, next_offset: i64) -> None:
        super().__init__(next_offset)
        self._log = log
        self._segment: StreamSegment | None = None
        # A part of the segment's file, where it stands in it, and how much of it was read.
        self._data = b""
        self._base: i64 = 0
        self._at: i64 = 0

    def next(self) -> StreamRecord | None:
        while True:
            segment = self._reach(BLOCK_BYTES)
            if segment is None:
                return None
            data = self._data
            at = self._at
            end = record_at(data, at, segment.seed, self._base + at)
            if end < 0:
                self._mend(segment, BLOCK_BYTES)
                continue
            self._at = end
            if data[at + 2] != STREAM_MESSAGE:
                continue
            offset = offset_of(data, at)
            if offset >= self.next_offset:
                self.next_offset = offset + 1
                return read_stream_record(data, at, end)

    def next_run(self, most_bytes: i64, most: i64) -> StreamRun | None:
        """Only heads of records are looked at. A block is read as large as a run, and mostly becomes one as it is."""
        while True:
            segment = self._reach(most_bytes)
            if segment is None:
                return None
            self._pass_over()
            run = self._cut_run(segment, most_bytes, most)
            if run is not None:
                return run
            if self._at < len(self._data):
                if 0 <= claimed_size(self._data, self._at) <= len(self._data) - self._at:
                    # Too long for a run.
                    return None
                self._mend(segment, most_bytes)

    def _reach(self, size: i64) -> StreamSegment | None:
        """See to it that there are bytes to look at, and give the segment they are of; None when there are none yet."""
        while True:
            segment = self._segment
            if segment is None or segment.is_gone:
                if not self._enter():
                    return None
            elif self._at < len(self._data):
                return segment
            elif not self._refill(segment, size):
                return None

    def _pass_over(self) -> None:
        """What is not wanted: other records, and messages before the first one that is."""
        data = self._data
        at = self._at
        size = claimed_size(data, at)
        while 0 <= size <= len(data) - at:
            if data[at + 2] == STREAM_MESSAGE and offset_of(data, at) >= self.next_offset:
                break
            at += size
            size = claimed_size(data, at)
        self._at = at

    def _cut_run(self, segment: StreamSegment, most_bytes: i64, most: i64) -> StreamRun | None:
        data = self._data
        total: i64 = len(data)
        start = self._at
        at = start
        limit = min(total, start + most_bytes)
        count: i64 = 0
        while count < most:
            size = claimed_size(data, at)
            if size < 0 or at + size > limit:
                break
            if data[at + 2] == STREAM_MESSAGE:
                self.next_offset = offset_of(data, at) + 1
                count += 1
            at += size
        if count == 0:
            return None
        self._at = at
        # The beginning of one more record in the run costs less than a copy without it.
        is_whole = start == 0 and limit == total and count < most and total - at < total // _WASTE
        return StreamRun(data if is_whole else data[start:at], segment.seed, self._base + start, count)

    def close(self) -> None:
        segment = self._segment
        if segment is not None:
            self._segment = None
            self._data = b""
            self._log.release(segment)

    def enter_at(self, segment: StreamSegment, position: i64) -> None:
        self.close()
        segment.users += 1
        self._segment = segment
        self._go_to(position)

    def _enter(self) -> bool:
        self.close()
        log = self._log
        if self.next_offset < log.first_offset:
            self.next_offset = log.first_offset
        segment = log.find(self.next_offset)
        if segment is None:
            return False
        self.enter_at(segment, log.place_of(segment, self.next_offset))
        return True

    def _go_to(self, position: i64) -> None:
        self._data = b""
        self._base = position
        self._at = 0

    def _refill(self, segment: StreamSegment, size: i64) -> bool:
        """False at the end of what may be read."""
        position = self._base + self._at
        if position >= segment.durable:
            self._go_to(position)
            following = self._log.after(segment)
            if following is None or segment.durable < segment.size:
                return False
            self.enter_at(following, following.header_size)
            return True
        block = self._log.block_at(segment, position)
        if block is not None:
            self._data = block.data
            self._base = block.start
            self._at = position - block.start
            return True
        self._read(segment, position, size)
        if not self._data:
            self._go_to(self._log.wound(segment, position))
        return True

    def _read(self, segment: StreamSegment, position: i64, size: i64) -> None:
        self._go_to(position)
        self._data = self._log.read(segment, position, min(size, segment.durable - position))

    def _mend(self, segment: StreamSegment, size: i64) -> None:
        """No whole record here: the block ends within it, or it is damaged."""
        position = self._base + self._at
        available = len(self._data) - self._at
        needed = max(claimed_size(self._data, self._at), RECORD_HEADER_SIZE)
        if available < needed <= segment.durable - position:
            self._read(segment, position, max(needed, size))
            if len(self._data) >= needed:
                return
        self._go_to(self._log.wound(segment, position))
