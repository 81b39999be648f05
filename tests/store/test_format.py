"""The bytes of a record, as they have been since the first version: what one says of it and what it finds in it."""

from __future__ import annotations

import struct
import zlib

import pytest
from librt.strings import BytesWriter

from tests.store.stored_world import message_of
from warren.store.format import (
    LANE_DELETED,
    PLACE_SIZE,
    RECORD_HEADER_SIZE,
    _write_header,
    body_size_of,
    file_header,
    first_ordinal,
    has_place,
    is_persistent,
    read_file_header,
    read_message,
    read_places,
    record_at,
    write_message,
    write_place,
    write_record,
)

SEGMENT, OFFSET = 7, 4000
PLACES = [(3, 11, 0x7FFFFFFFFFFFFFFF, 0), (4, 1 << 40, 1_700_000_000_000, 5 << 32 | 9)]


def record(channel: int = 1, persistent: bool = True) -> bytes:
    """Of a message in two lanes."""
    places = BytesWriter()
    for place in PLACES:
        write_place(places, *place)
    message = message_of("body", persistent)
    message.channel = channel
    message.priority = 200
    out = BytesWriter()
    assert write_message(out, places.getvalue(), 2, 300, message, SEGMENT, OFFSET) == len(out)
    return out.getvalue()


def checksum(payload: bytes, kind: int) -> int:
    """As docs/storage.md tells it."""
    start = (OFFSET * 0x1E3779B1 + SEGMENT * 0x05EBCA6B + len(payload) * 31 + kind) & 0xFFFFFFFF
    return zlib.crc32(payload, start)


def test_a_record_is_what_it_has_always_been() -> None:
    out = BytesWriter()
    write_record(out, LANE_DELETED, b"payload", SEGMENT, OFFSET)
    head = struct.pack(">HBBII", 0x5752, LANE_DELETED, 0, 7, checksum(b"payload", LANE_DELETED))
    assert out.getvalue() == head + b"payload"


@pytest.mark.parametrize("channel", [1, 0x7FFF, 0x8000, 0xFFFF])
def test_a_message_comes_back_as_it_was(channel: int) -> None:
    data = record(channel)
    end = int(record_at(data, 0, SEGMENT, OFFSET))
    assert end == len(data)
    message = read_message(data, 0, end, None)
    like = message_of("body")
    assert (message.channel, message.persistent, message.priority) == (channel, True, 200)
    assert (message.content, message.body_size) == (like.content, 4)
    assert (message.origin.exchange, message.origin.keys) == (like.origin.exchange, like.origin.keys)
    assert (first_ordinal(data, 0), body_size_of(data, 0)) == (300, 4)
    assert is_persistent(data, 0)
    assert not is_persistent(record(persistent=False), 0)


def test_the_origin_of_the_message_before_is_taken_only_where_it_is_the_same() -> None:
    data = record()
    other = message_of("body")
    other.origin.stored = b"another one"
    first = read_message(data, 0, len(data), other)
    assert first.origin is not other.origin
    assert read_message(data, 0, len(data), first).origin is first.origin


def test_every_place_is_found_and_no_other() -> None:
    data = record()
    found = [(place.lane, place.sequence, place.expires_at, place.moved_from) for place in read_places(data, 0)]
    assert found == PLACES
    assert [has_place(data, 0, lane, sequence) for lane, sequence, _, _ in PLACES] == [True, True]
    # A lane with another's sequence, and what stands behind the last place.
    assert not has_place(data, 0, 3, 1 << 40)
    assert not has_place(data, 0, 4, 11)
    behind = RECORD_HEADER_SIZE + 6 + 2 * PLACE_SIZE
    lane, sequence = struct.unpack_from(">IQ", data, behind)
    assert not has_place(data, 0, lane, sequence)


def test_a_record_that_is_cut_anywhere_is_none_wherever_it_stands() -> None:
    data = record()
    before = bytes(100)
    assert record_at(before + data, 100, SEGMENT, OFFSET) == 100 + len(data)
    for size in range(len(data)):
        assert record_at(data[:size], 0, SEGMENT, OFFSET) == -1
        assert record_at(before + data[:size], 100, SEGMENT, OFFSET) == -1


def test_an_empty_record_at_the_very_end_counts() -> None:
    out = BytesWriter()
    write_record(out, LANE_DELETED, b"", SEGMENT, OFFSET)
    assert record_at(out.getvalue(), 0, SEGMENT, OFFSET) == RECORD_HEADER_SIZE


def test_a_length_below_zero_is_damage() -> None:
    data = record()
    assert record_at(data[:4] + b"\xff\xff\xff\xff" + data[8:], 0, SEGMENT, OFFSET) == -1


def test_a_header_of_another_segment_or_a_damaged_one_is_none() -> None:
    header = file_header(SEGMENT, 12345)
    assert header[:8] == b"WARRENLG"
    assert read_file_header(header, SEGMENT) == 12345
    assert read_file_header(header, SEGMENT + 1) == -1
    for at in range(len(header)):
        damaged = header[:at] + bytes([header[at] ^ 1]) + header[at + 1 :]
        assert read_file_header(damaged, SEGMENT) == -1


def test_a_checksum_is_written_whatever_its_highest_bit() -> None:
    for crc in (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        out = BytesWriter()
        _write_header(out, LANE_DELETED, 5, crc)
        assert out.getvalue() == struct.pack(">HBBII", 0x5752, LANE_DELETED, 0, 5, crc)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_is_read_as_persistent_as_it_was_written(persistent: bool) -> None:
    data = record(persistent=persistent)
    assert read_message(data, 0, len(data), None).persistent is persistent
