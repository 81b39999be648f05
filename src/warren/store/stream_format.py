"""The bytes of a stream's files: a header that says whose it is, then records as in the log (format.py).

    file    "WARRENSM" version(2) header size(2) number(8) size of the file before it(8) first offset(8)
            vhost, stream, incarnation: short strings   crc(4)
    record  kind 7: offset(8) timestamp(8) body size(4) filter size or -1(4) suffix size(2) filter, suffix, content
            kind 5: file(8) position(8): the stream is durable up to there

Suffix and content stand together as they go out: the end of basic.deliver, the header frame with the offset among the
headers, the body frames. A checksum starts from where its record stands and in which file.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from warren.broker.message import short
from warren.broker.queue.stream_log import StreamRecord
from warren.checksum import crc32
from warren.errors import WarrenError
from warren.store.format import RECORD_HEADER_SIZE, RECORD_MAGIC, write_record

VERSION: Final = 1
FILE_MAGIC: Final = b"WARRENSM"
STREAM_MESSAGE: Final = 7
FILE_ENDING: Final = ".stream"
INDEX_ENDING: Final = ".stream-index"

_HEAD: Final = struct.Struct(">8sHHQQQ")
# Of a record's payload: what comes before filter, suffix and content.
FACTS_SIZE: Final[i64] = 26


def file_name(incarnation: str, number: int) -> str:
    return f"{incarnation}.{number:012d}{FILE_ENDING}"


def index_name(incarnation: str, number: int) -> str:
    return f"{incarnation}.{number:012d}{INDEX_ENDING}"


def parse_name(name: str, ending: str) -> tuple[str, int] | None:
    """Incarnation and number; None when it is no such file."""
    if not name.endswith(ending):
        return None
    incarnation, _, number = name[: -len(ending)].rpartition(".")
    return (incarnation, int(number)) if incarnation and number.isdigit() else None


def file_seed(incarnation: str, number: int) -> int:
    """What tells the records of one file from those of all others."""
    return crc32(incarnation.encode("utf-8", "surrogateescape"), number & 0xFFFFFFFF)


class FileHeader:
    def __init__(
        self, vhost: str, name: str, incarnation: str, number: int, previous_size: int, first_offset: int
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.incarnation = incarnation
        self.number = number
        self.previous_size = previous_size
        self.first_offset = first_offset
        self.size = 0

    def encode(self) -> bytes:
        names = short(self.vhost) + short(self.name) + short(self.incarnation)
        size = _HEAD.size + len(names) + 4
        head = _HEAD.pack(FILE_MAGIC, VERSION, size, self.number, self.previous_size, self.first_offset) + names
        self.size = size
        return head + struct.pack(">I", crc32(head))


def read_file_header(data: bytes, incarnation: str, number: int) -> FileHeader | None:
    """None when it is damaged, torn or another file's."""
    if len(data) < _HEAD.size + 4:
        return None
    magic, version, size, own, previous_size, first_offset = _HEAD.unpack(data[: _HEAD.size])
    if magic != FILE_MAGIC or not _HEAD.size + 4 <= size <= len(data):
        return None
    if data[size - 4 : size] != struct.pack(">I", crc32(data[: size - 4])):
        return None
    if version != VERSION:
        raise WarrenError(f"a file of a stream has version {version} and this Warren reads version {VERSION}")
    names: list[str] = []
    at = _HEAD.size
    while at < size - 4:
        names.append(data[at + 1 : at + 1 + data[at]].decode("utf-8", "surrogateescape"))
        at += 1 + data[at]
    if len(names) != 3 or names[2] != incarnation or own != number:
        return None
    header = FileHeader(names[0], names[1], incarnation, number, previous_size, first_offset)
    header.size = size
    return header


def write_stream_record(out: BytesWriter, record: StreamRecord, body_size: i64, seed: i64, position: i64) -> None:
    """Append a record that will stand at `position` of its file."""
    payload = BytesWriter()
    write_i64_be(payload, record.offset)
    write_i64_be(payload, record.timestamp)
    write_i32_be(payload, i32(body_size))
    value = record.filter_value
    write_i32_be(payload, i32(-1 if value is None else len(value)))
    write_i16_be(payload, i16(record.suffix_size))
    if value is not None:
        payload.write(value)
    payload.write(record.wire)
    write_record(out, STREAM_MESSAGE, payload.getvalue(), seed, position)


def read_stream_record(data: bytes, at: i64, end: i64) -> StreamRecord:
    """Of a record [at, end) whose checksum was found right."""
    start = at + RECORD_HEADER_SIZE
    filter_size = i64(read_i32_be(data, start + 20))
    place = start + FACTS_SIZE
    value: bytes | None = None
    if filter_size >= 0:
        value = data[place : place + filter_size]
        place += filter_size
    return StreamRecord(
        read_i64_be(data, start),
        read_i64_be(data, start + 8),
        value,
        i64(read_i16_be(data, start + 24)),
        data[place:end],
    )


def offset_of(data: bytes, at: i64) -> i64:
    return read_i64_be(data, at + RECORD_HEADER_SIZE)


def timestamp_of(data: bytes, at: i64) -> i64:
    return read_i64_be(data, at + RECORD_HEADER_SIZE + 8)


def body_size_of(data: bytes, at: i64) -> i64:
    return i64(read_i32_be(data, at + RECORD_HEADER_SIZE + 16))


def claimed_size(data: bytes, at: i64) -> i64:
    """How long the record at `at` says it is; -1 when none begins there, or its length is cut off."""
    if len(data) - at < RECORD_HEADER_SIZE or i64(read_i16_be(data, at)) != RECORD_MAGIC:
        return -1
    length = i64(read_i32_be(data, at + 4))
    return RECORD_HEADER_SIZE + length if length >= 0 else -1
