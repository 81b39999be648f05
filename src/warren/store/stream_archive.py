"""Files of streams on their way into an archive: which, where to, and their records as deliveries.

Retention asks for it before it deletes a file. The loop only notes what is wanted; a thread writes the archive
(server/archiver.py), and the file goes once that is durable.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be, write_i64_le
from mypy_extensions import i16, i32, i64

from warren.store.format import next_record, record_at
from warren.store.stream_format import STREAM_MESSAGE, file_name, read_stream_record

if TYPE_CHECKING:
    from warren.store.stream import DiskStreamLog
    from warren.store.stream_segment import StreamSegment

# Of a folder's name; file systems allow 255 bytes.
_NAME_MAX: Final = 200
_BASIC: Final = 60
_DELIVER: Final = 60


def archive_folder(vhost: str, stream: str, incarnation: str) -> str:
    """Below the folder of all archives. A stream that is deleted and declared again numbers its messages anew."""
    return f"{_one_name(vhost)}/{_one_name(stream)}/{_one_name(incarnation)}"


def _one_name(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    name = quote(raw, safe="")
    if name.strip(".") == "":
        # Empty, or a way up.
        name = "%" + name.replace(".", "%2E")
    if len(name) <= _NAME_MAX:
        return name
    return f"{name[: _NAME_MAX - 33]}~{hashlib.sha256(raw).hexdigest()[:32]}"


class ArchiveJob:
    """One file of a stream, which nobody writes to any more. Nothing in it changes while a thread works on it."""

    def __init__(self, log: DiskStreamLog, segment: StreamSegment) -> None:
        self.log = log
        self.segment = segment
        self.root = log.archive_root
        self.folder = log.archive_folder
        self.stream = log.queue.name
        self.source = file_name(segment.incarnation, int(segment.number))
        self.seed = int(segment.seed)
        self.size = int(segment.durable)
        self.header_size = int(segment.header_size)
        self.first_offset = int(segment.first_offset)
        self.end_offset = int(segment.end_offset)


class Deliverer:
    """The records of a file, a few at a time, as a consumer would have got them."""

    def __init__(self, data: bytes, at: i64, seed: i64) -> None:
        self._data = data
        self._at: i64 = at
        self._seed: i64 = seed
        self.count: i64 = 0
        # When each was stored: milliseconds, 64 bits, little-endian.
        self.times = b""

    def next(self, most: i64, most_bytes: i64) -> bytes:
        """Frames of up to `most` deliveries; empty at the end. What is damaged is passed over."""
        data, at, size = self._data, self._at, i64(len(self._data))
        out, times = BytesWriter(), BytesWriter()
        count: i64 = 0
        while at < size and count < most and len(out) < most_bytes:
            end = record_at(data, at, self._seed, at)
            if end < 0:
                at = next_record(data, at + 1, self._seed)
                if at < 0:
                    at = size
                continue
            if data[at + 2] == STREAM_MESSAGE:
                record = read_stream_record(data, at, end)
                _write_delivery(out, record.wire, record.suffix_size)
                write_i64_le(times, record.timestamp)
                count += 1
            at = end
        self._at = at
        self.count = count
        self.times = times.getvalue()
        return out.getvalue()


def _write_delivery(out: BytesWriter, wire: bytes, suffix_size: i64) -> None:
    """basic.deliver without a consumer tag; its end, the suffix, stands in the record already."""
    out.append(1)
    write_i16_be(out, 1)
    write_i32_be(out, i32(4 + 1 + 9 + suffix_size - 1))
    write_i16_be(out, i16(_BASIC))
    write_i16_be(out, i16(_DELIVER))
    out.append(0)
    write_i64_be(out, 0)
    out.append(0)
    out.write(wire)
