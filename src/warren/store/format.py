"""The bytes of a segment: a file header, then records, each with its length and checksum.

    file    "WARRENLG" version(2) segment(8) size of the segment before it(8) crc(4)
    record  magic(2) kind(1) spare(1) length(4) crc(4) payload(length)

All numbers are big-endian. docs/storage.md tells what the payloads mean and what a crash can leave of them.
A checksum starts from where its record stands, so that bytes in the wrong place, or in the wrong file, are damage too.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from warren.broker.message import Message, Origin, short
from warren.checksum import crc32
from warren.errors import WarrenError

VERSION: Final = 1
FILE_MAGIC: Final = b"WARRENLG"
FILE_HEADER_SIZE: Final = 30
RECORD_MAGIC: Final[i64] = 0x5752
RECORD_HEADER_SIZE: Final[i64] = 12

MESSAGE: Final = 1
SETTLED: Final = 2
LANE_OPENED: Final = 3
LANE_DELETED: Final = 4
SYNCED: Final = 5
DELIVERED: Final = 6
# 7 to 9 are of streams and definitions. What stands between these two counts with all of it or not at all: messages,
# and by what they will be known again.
TOGETHER: Final = 10
SEEN: Final = 11
RETURNED: Final = 12

_PERSISTENT: Final = 1
# A MESSAGE payload begins with first ordinal(4) and count of places(2).
_PLACES_AT: Final[i64] = 6
# lane(4) sequence(8) expires(8) moved from(8)
PLACE_SIZE: Final[i64] = 28
# Of one record; a message that went to more queues has several.
PLACES_MAX: Final[i64] = 0x7FFF


def file_header(segment: int, previous_size: int) -> bytes:
    head = FILE_MAGIC + struct.pack(">HQQ", VERSION, segment, previous_size)
    return head + struct.pack(">I", crc32(head))


def read_file_header(data: bytes, segment: int) -> int:
    """How long the segment before this one was when it was left; -1 when the header is damaged or another's."""
    head = data[: FILE_HEADER_SIZE - 4]
    if data[FILE_HEADER_SIZE - 4 : FILE_HEADER_SIZE] != struct.pack(">I", crc32(head)):
        return -1
    magic, version, own, previous_size = struct.unpack(">8sHQQ", head)
    if magic != FILE_MAGIC or own != segment:
        return -1
    if version != VERSION:
        raise WarrenError(f"segment {segment} has version {version} and this Warren reads version {VERSION}")
    return int(previous_size)


def seed(segment: i64, offset: i64, kind: i64, length: i64) -> int:
    """Where a checksum starts from: damage to the header's fields shows as well, and so does a record out of place."""
    return (offset * 0x1E3779B1 + (segment & 0xFFFFFFFF) * 0x05EBCA6B + length * 31 + kind) & 0xFFFFFFFF


def write_record(out: BytesWriter, kind: i64, payload: bytes, segment: i64, offset: i64) -> None:
    """Append a record that will stand at `offset` of its segment."""
    length: i64 = len(payload)
    _write_header(out, kind, length, crc32(payload, seed(segment, offset, kind, length)))
    out.write(payload)


def write_message(
    out: BytesWriter, places: bytes, count: i64, ordinal: i64, message: Message, segment: i64, offset: i64
) -> i64:
    """Append a MESSAGE record: its places in queues, its facts, its content as it stands. Gives its whole size."""
    head = BytesWriter()
    write_i32_be(head, i32(ordinal))
    write_i16_be(head, i16(count))
    head.write(places)
    origin = message.origin
    head.append(u8(_PERSISTENT if message.persistent else 0))
    head.append(u8(message.priority))
    write_i16_be(head, i16(_signed_16(message.channel)))
    write_i32_be(head, i32(message.body_size))
    if not origin.stored:
        origin.stored = _stored(origin)
    head.write(origin.stored)
    facts = head.getvalue()
    content = message.content
    length: i64 = len(facts) + len(content)
    start = seed(segment, offset, MESSAGE, length)
    _write_header(out, MESSAGE, length, crc32(content, crc32(facts, start)))
    out.write(facts)
    out.write(content)
    return RECORD_HEADER_SIZE + length


def _stored(origin: Origin) -> bytes:
    out = BytesWriter()
    write_i32_be(out, i32(origin.hidden))
    write_i32_be(out, i32(len(origin.keys)))
    out.write(short(origin.exchange))
    for key in origin.keys:
        # Those of a CC header may be longer than a routing key, and many.
        raw = key.encode("utf-8", "surrogateescape")
        write_i32_be(out, i32(len(raw)))
        out.write(raw)
    return out.getvalue()


def _signed_16(value: i64) -> i64:
    return value - 0x10000 if value > 0x7FFF else value


def _write_header(out: BytesWriter, kind: i64, length: i64, crc: int) -> None:
    write_i16_be(out, i16(RECORD_MAGIC))
    out.append(u8(kind))
    out.append(0)
    write_i32_be(out, i32(length))
    write_i32_be(out, i32(crc if crc < 0x80000000 else crc - 0x100000000))


def record_at(data: bytes, at: i64, segment: i64, offset: i64) -> i64:
    """Where the record at `at` of `data`, and at `offset` of its segment, ends; -1 if it is torn or damaged."""
    total: i64 = len(data)
    if total - at < RECORD_HEADER_SIZE or i64(read_i16_be(data, at)) != RECORD_MAGIC:
        return -1
    length = i64(read_i32_be(data, at + 4))
    end = at + RECORD_HEADER_SIZE + length
    if length < 0 or end > total:
        return -1
    crc = i64(read_i32_be(data, at + 8)) & 0xFFFFFFFF
    payload = data[at + RECORD_HEADER_SIZE : end]
    if crc32(payload, seed(segment, offset, data[at + 2], length)) != crc:
        return -1
    return end


class Place:
    """Where a stored message stands: which lane, which sequence, until when, and whence it was moved."""

    def __init__(self, lane: i64, sequence: i64, expires_at: i64, moved_from: i64) -> None:
        self.lane: i64 = lane
        self.sequence: i64 = sequence
        self.expires_at: i64 = expires_at
        self.moved_from: i64 = moved_from


def write_place(out: BytesWriter, lane: i64, sequence: i64, expires_at: i64, moved_from: i64) -> None:
    write_i32_be(out, i32(lane))
    write_i64_be(out, sequence)
    write_i64_be(out, expires_at)
    write_i64_be(out, moved_from)


def read_places(data: bytes, at: i64) -> list[Place]:
    """Of a MESSAGE record that begins at `at`."""
    start = at + RECORD_HEADER_SIZE
    count = i64(read_i16_be(data, start + 4)) & 0xFFFF
    places: list[Place] = []
    place = start + _PLACES_AT
    for _ in range(count):
        places.append(
            Place(
                i64(read_i32_be(data, place)),
                read_i64_be(data, place + 4),
                read_i64_be(data, place + 12),
                read_i64_be(data, place + 20),
            )
        )
        place += PLACE_SIZE
    return places


def read_message(data: bytes, at: i64, end: i64, like: Message | None) -> Message:
    """Of a MESSAGE record [at, end) whose checksum was found right. Most were published as the one before was."""
    facts = _facts_at(data, at)
    if like is not None and data.startswith(like.origin.stored, facts + 8):
        origin = like.origin
    else:
        origin = _read_origin(data, facts + 8)
    start = facts + 8 + len(origin.stored)
    channel = i64(read_i16_be(data, facts + 2)) & 0xFFFF
    message = Message(origin, data[start:end], channel, i64(read_i32_be(data, facts + 4)))
    message.persistent = data[facts] & _PERSISTENT != 0
    message.priority = data[facts + 1]
    return message


def _read_origin(data: bytes, at: i64) -> Origin:
    hidden = i64(read_i32_be(data, at))
    count = i64(read_i32_be(data, at + 4))
    place = at + 8
    size: i64 = data[place]
    exchange = data[place + 1 : place + 1 + size].decode("utf-8", "surrogateescape")
    place += 1 + size
    keys: list[str] = []
    for _ in range(count):
        size = i64(read_i32_be(data, place))
        keys.append(data[place + 4 : place + 4 + size].decode("utf-8", "surrogateescape"))
        place += 4 + size
    origin = Origin(exchange, keys, hidden)
    origin.stored = data[at:place]
    return origin


def _facts_at(data: bytes, at: i64) -> i64:
    start = at + RECORD_HEADER_SIZE
    return start + _PLACES_AT + (i64(read_i16_be(data, start + 4)) & 0xFFFF) * PLACE_SIZE


def first_ordinal(data: bytes, at: i64) -> i64:
    """The ordinal of a MESSAGE record's first place; the others follow it."""
    return i64(read_i32_be(data, at + RECORD_HEADER_SIZE))


def is_persistent(data: bytes, at: i64) -> bool:
    return data[_facts_at(data, at)] & _PERSISTENT != 0


def has_place(data: bytes, at: i64, lane: i64, sequence: i64) -> bool:
    """Is this the record that an index row meant?"""
    start = at + RECORD_HEADER_SIZE
    place = start + _PLACES_AT
    end = place + (i64(read_i16_be(data, start + 4)) & 0xFFFF) * PLACE_SIZE
    while place < end:
        if i64(read_i32_be(data, place)) == lane and read_i64_be(data, place + 4) == sequence:
            return True
        place += PLACE_SIZE
    return False


def body_size_of(data: bytes, at: i64) -> i64:
    """Of a MESSAGE record, without building anything."""
    facts = _facts_at(data, at)
    return i64(read_i32_be(data, facts + 4))
