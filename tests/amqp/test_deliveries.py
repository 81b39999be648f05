"""Deliveries taken apart in bulk give what each of them says, however they are cut and whatever comes between them."""

from __future__ import annotations

import itertools
import struct
from decimal import Decimal

import pytest

from warren.amqp.deliveries import Column, Deliveries, SparseColumn, text_of
from warren.amqp.fields import Field, Table
from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicCancel, BasicDeliver
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.replies import frame
from warren.amqp.tables import decode_table, encode_table
from warren.errors import FrameError

PLACE = "x-stream-offset"
ALL_TYPES: Table = {
    "S": Field("S", "text"),
    "I": Field("I", -5),
    "l": Field("l", 1 << 40),
    "t": Field("t", True),
    "d": Field("d", 1.5),
    "D": Field("D", Decimal("12.50")),
    "T": Field("T", 1_700_000_000),
    "V": Field("V", None),
    "x": Field("x", b"\xff\x00"),
    "F": Field("F", {"in": Field("S", "side")}),
    "A": Field("A", [Field("I", 1), Field("S", "two")]),
}


def delivery(
    place: int | None,
    body: bytes = b"hello",
    tag: int = 1,
    headers: Table | None = None,
    frame_max: int = 131072,
    **properties: object,
) -> bytes:
    table = dict(headers or {})
    if place is not None:
        table[PLACE] = Field("l", place)
    encoded = encode_properties(Properties(headers=table or None, **properties))  # type: ignore[arg-type]
    deliver = BasicDeliver("ctag", tag, place == 7, "ex", "key.\u00e9")
    return frame(1, deliver) + content_frames(1, encoded, body, frame_max)


def full(deliveries: Deliveries, column: Column) -> list[bytes]:
    frames = bytes(deliveries.frames())
    return [frames[start:end] for start, end in struct.iter_unpack("<ii", column.edges.getvalue())]


def values(column: SparseColumn) -> list[bytes]:
    data = column.values.getvalue()
    ends = [0, *(end for (end,) in struct.iter_unpack("<i", column.ends.getvalue()))]
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def rows(column: SparseColumn) -> list[int]:
    return [row for (row,) in struct.iter_unpack("<i", column.rows.getvalue())]


def places(deliveries: Deliveries) -> list[int]:
    return [place for (place,) in struct.iter_unpack("<q", deliveries.places.getvalue())]


def test_what_a_delivery_says_is_in_the_columns() -> None:
    deliveries = Deliveries(PLACE)
    wire = delivery(7, b"one", 3) + delivery(8, b"", 4, message_id="id", priority=5)
    assert deliveries.take(wire, 0, 10) == len(wire)
    assert deliveries.count == 2
    assert full(deliveries, deliveries.body) == [b"one", b""]
    assert full(deliveries, deliveries.exchange) == [b"ex", b"ex"]
    assert full(deliveries, deliveries.routing_key) == ["key.\u00e9".encode()] * 2
    assert places(deliveries) == [7, 8]
    assert deliveries.redelivered.getvalue() == b"\1\0"
    assert (rows(deliveries.message_id), values(deliveries.message_id)) == ([1], [b"id"])
    assert struct.unpack("<q", deliveries.priority.values.getvalue()) == (5,)
    assert (deliveries.first_place, deliveries.last_place, deliveries.last_tag) == (7, 8, 4)


def test_deliveries_cut_at_every_byte_come_out_whole() -> None:
    wire = delivery(1, b"a" * 50, headers=ALL_TYPES, frame_max=30) + delivery(2, b"second")
    for cut in range(len(wire)):
        deliveries = Deliveries(PLACE)
        at = deliveries.take(wire[:cut], 0, 10)
        rest = wire[:cut][at:] + wire[cut:]
        assert deliveries.take(rest, 0, 10) == len(rest)
        assert full(deliveries, deliveries.body) == [b"a" * 50, b"second"]
        assert places(deliveries) == [1, 2]


def test_no_more_are_taken_than_asked_for() -> None:
    deliveries = Deliveries(PLACE)
    wire = delivery(1) + delivery(2) + delivery(3)
    at = deliveries.take(wire, 0, 2)
    assert places(deliveries) == [1, 2]
    assert deliveries.take(wire, at, 2) == len(wire)


def test_messages_outside_the_limits_are_left_out_but_noted() -> None:
    deliveries = Deliveries(PLACE)
    deliveries.limit(2, 4)
    deliveries.take(b"".join(delivery(place, tag=place) for place in range(1, 6)), 0, 10)
    assert places(deliveries) == [2, 3]
    assert (deliveries.first_place, deliveries.last_place, deliveries.last_tag) == (1, 5, 5)


def test_the_place_is_cut_out_of_the_headers_wherever_it_stands() -> None:
    for names in (["a", PLACE, "b"], [PLACE, "a"], ["a", PLACE]):
        table = {name: Field("l", 9) if name == PLACE else Field("S", name * 3) for name in names}
        deliveries = Deliveries(PLACE)
        deliveries.take(delivery(None, headers=table), 0, 1)
        expected = {name: field for name, field in table.items() if name != PLACE}
        assert places(deliveries) == [9]
        assert values(deliveries.headers) == [encode_table(expected)]
        assert values(deliveries.header_names) == [name.encode() for name in expected]
        assert values(deliveries.header_values) == [name.encode() * 3 for name in expected]


def test_a_message_whose_only_header_is_its_place_has_none() -> None:
    deliveries = Deliveries(PLACE)
    deliveries.take(delivery(5), 0, 1)
    assert values(deliveries.headers) == []


def test_headers_of_every_type_are_kept_byte_for_byte_and_shown_as_text() -> None:
    deliveries = Deliveries(PLACE)
    deliveries.take(delivery(5, headers=ALL_TYPES), 0, 1)
    raw = values(deliveries.headers)[0]
    assert raw == encode_table(ALL_TYPES)
    assert decode_table(raw, 4, len(raw)) == ALL_TYPES
    shown = dict(zip(values(deliveries.header_names), values(deliveries.header_values), strict=True))
    assert shown[b"S"] == b"text"
    assert shown[b"t"] == b"true"
    assert shown[b"I"] == b"-5"
    assert shown[b"F"] == b'{"in": "side"}'
    assert shown[b"A"] == b'[1, "two"]'
    assert set(shown) == {name.encode() for name in ALL_TYPES}


def test_of_a_repeated_header_the_first_is_shown() -> None:
    entry = b"\x01aS\x00\x00\x00\x01"
    table = entry + b"1" + entry + b"2"
    properties = b"\x20\x00" + len(table).to_bytes(4, "big") + table
    deliver = BasicDeliver("c", 1, False, "", "q")
    deliveries = Deliveries(PLACE)
    deliveries.take(frame(1, deliver) + content_frames(1, properties, b"", 0), 0, 1)
    assert values(deliveries.header_values) == [b"1"]


def test_another_method_interrupts() -> None:
    cancel = BasicCancel("ctag")
    first = delivery(1)
    wire = first + frame(1, cancel)
    deliveries = Deliveries(PLACE)
    assert deliveries.take(wire, 0, 10) == len(first)
    assert deliveries.is_interrupted


@pytest.mark.parametrize("at", [0, -1])
def test_what_is_no_frame_is_refused(at: int) -> None:
    wire = bytearray(delivery(1))
    wire[at] = 77
    with pytest.raises(FrameError):
        Deliveries(PLACE).take(bytes(wire), 0, 1)


def test_a_body_longer_than_announced_is_refused() -> None:
    wire = bytearray(delivery(1, b"12345"))
    at = wire.index(b"\x02\x00\x01")
    wire[at + 11 : at + 19] = (3).to_bytes(8, "big")
    with pytest.raises(FrameError):
        Deliveries(PLACE).take(bytes(wire), 0, 1)


def test_text_of_a_field_is_json_unless_it_is_a_string() -> None:
    assert text_of(Field("S", "plain")) == "plain"
    assert text_of(Field("V", None)) == "null"
    assert text_of(Field("d", 0.5)) == "0.5"
