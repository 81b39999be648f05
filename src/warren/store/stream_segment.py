"""One file of a stream, what is known of it in memory, and its index file.

The index is sparse: a row for every 64 KiB says which offset and which time begin where. The rows of the file that is
being written are in memory; those of the others are in their index files and read when somebody looks for a place.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.checksum import crc32
from warren.store.stream_format import file_seed

VERSION: Final = 1
_INDEX_MAGIC: Final = b"WARRENSI"
_INDEX_HEAD: Final = struct.Struct(">8sHQQQQQQQQQ")
# offset(8) timestamp(8) position(8)
ROW_SIZE: Final[i64] = 24
ROW_EVERY: Final[i64] = 65536


class StreamSegment:
    def __init__(self, incarnation: str, number: i64) -> None:
        self.incarnation = incarnation
        self.number: i64 = number
        self.seed: i64 = file_seed(incarnation, number)
        self.first_offset: i64 = 0
        # The offset that follows its last.
        self.end_offset: i64 = 0
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        self.first_timestamp: i64 = 0
        self.last_timestamp: i64 = 0
        self.header_size: i64 = 0
        self.size: i64 = 0
        # How much of it is durable: nobody reads further.
        self.durable: i64 = 0
        # Its name is durable as well. No other file is begun before that.
        self.is_named = False
        self.is_sealed = False
        self.is_indexed = False
        self.is_gone = False
        # All of it is durable in the stream's archive.
        self.is_archived = False
        self.handle = -1
        # As a segment of the log has it.
        self.has_seen = False
        self.seen: list[bytes] = []
        # Cursors that are in it; its file is open as long as there is one.
        self.users: i64 = 0
        self._rows = BytesWriter()
        self._next_row_at: i64 = 0
        # Where damage begins, and where reading goes on behind it.
        self.wounds: dict[int, int] = {}

    def add(self, offset: i64, timestamp: i64, body_size: i64, position: i64) -> None:
        """A record stands at this position of the file."""
        if self.count == 0:
            self.first_offset = offset
            self.first_timestamp = timestamp
        if position >= self._next_row_at:
            write_i64_be(self._rows, offset)
            write_i64_be(self._rows, timestamp)
            write_i64_be(self._rows, position)
            self._next_row_at = position + ROW_EVERY
        self.count += 1
        self.body_bytes += body_size
        self.end_offset = offset + 1
        self.last_timestamp = timestamp

    def rows_in_memory(self) -> bytes:
        return self._rows.getvalue()

    def forget_rows(self) -> None:
        """They are in the index file now."""
        self.is_indexed = True
        self._rows = BytesWriter()


def position_of(rows: bytes, column: i64, value: i64, default: i64) -> i64:
    """Where to begin in search of an offset (column 0) or a time (column 8): the last row that is below it."""
    low: i64 = 0
    high: i64 = len(rows) // ROW_SIZE
    while low < high:
        middle = (low + high) // 2
        if read_i64_be(rows, middle * ROW_SIZE + column) < value:
            low = middle + 1
        else:
            high = middle
    return default if low == 0 else read_i64_be(rows, (low - 1) * ROW_SIZE + 16)


def encode_index(segment: StreamSegment) -> bytes:
    head = _INDEX_HEAD.pack(
        _INDEX_MAGIC,
        VERSION,
        segment.number,
        segment.size,
        segment.header_size,
        segment.first_offset,
        segment.end_offset,
        segment.count,
        segment.body_bytes,
        segment.first_timestamp,
        segment.last_timestamp,
    )
    body = head + segment.rows_in_memory()
    return body + struct.pack(">I", crc32(body, int(segment.seed)))


def decode_index(data: bytes, incarnation: str, number: int) -> StreamSegment | None:
    """The segment as its index tells it; None when the file is damaged or another's."""
    if len(data) < _INDEX_HEAD.size + 4:
        return None
    segment = StreamSegment(incarnation, number)
    if crc32(data[:-4], int(segment.seed)) != struct.unpack(">I", data[-4:])[0]:
        return None
    magic, version, own, size, header_size, first, end, count, body_bytes, first_time, last_time = _INDEX_HEAD.unpack(
        data[: _INDEX_HEAD.size]
    )
    if magic != _INDEX_MAGIC or version != VERSION or own != number:
        return None
    segment.size = size
    segment.durable = size
    segment.header_size = header_size
    segment.first_offset = first
    segment.end_offset = end
    segment.count = count
    segment.body_bytes = body_bytes
    segment.first_timestamp = first_time
    segment.last_timestamp = last_time
    segment.is_named = True
    segment.is_sealed = True
    segment.is_indexed = True
    return segment


def rows_of_index(data: bytes, segment: StreamSegment) -> bytes:
    """None at all when the file is damaged: then a search begins at the beginning."""
    if decode_index(data, segment.incarnation, segment.number) is None:
        return b""
    return data[_INDEX_HEAD.size : -4]
