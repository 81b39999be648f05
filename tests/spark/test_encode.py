"""Rows laid out by column are the frames that each message would have by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field, Table
from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicPublish
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.tables import encode_table
from warren.client.address import parse_uri
from warren.client.session import CHANNEL, frame_of
from warren.errors import WarrenError
from warren.spark.arrow_schema import HEADERS_TYPE, PROPERTIES_TYPE
from warren.spark.encode import Encoder
from warren.spark.options import WriteOptions
from warren.spark.schema import PROPERTIES

FRAME_MAX = 4096
TARGET = parse_uri("amqp://localhost")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = {
    "string": TEXT,
    "int": st.integers(0, 255),
    # A bigint for what is unsigned on the wire.
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
}
PROPERTY_ROWS = st.none() | st.fixed_dictionaries({name: st.none() | VALUES[kind] for name, kind in PROPERTIES})
ROWS = st.tuples(PROPERTY_ROWS, st.none() | st.dictionaries(TEXT, TEXT, max_size=2), st.binary(max_size=30))


def alone(row: int, given_row: tuple[Any, Any, bytes], header: str, persistent: bool | None) -> bytes:
    """What the broker is sent for one row."""
    properties, headers, body = given_row
    values = {name: value for name, value in (properties or {}).items() if value is not None}
    if "timestamp" in values:
        values["timestamp"] %= 1 << 64
    if persistent is not None or properties is None:
        values["delivery_mode"] = 1 if persistent is False else 2
    table: Table | None = None if headers is None else {name: Field("S", value) for name, value in headers.items()}
    if header and header not in (table or {}):
        table = {**(table or {}), header: Field("S", f"q/0/1/{row}")}
    publish = frame_of(BasicPublish(exchange="", routing_key="to"))
    encoded = encode_properties(Properties(headers=table, **values))
    return publish + content_frames(CHANNEL, encoded, body, FRAME_MAX)


def frames_of(batch: pa.RecordBatch, options: WriteOptions) -> tuple[bytes, int]:
    encoder = Encoder(options, FRAME_MAX, "q/0/1")
    chunks = [chunk for piece in (batch.slice(0, 2), batch.slice(2)) for chunk in encoder.chunks(piece, 3, 200)]
    return b"".join(frames for frames, _ in chunks), sum(count for _, count in chunks)


@given(st.lists(ROWS, max_size=12), st.sampled_from(["", "x-id"]), st.sampled_from([None, True, False]))
def test_the_frames_are_those_of_single_messages(
    rows: list[tuple[Any, Any, bytes]], header: str, persistent: bool | None
) -> None:
    columns = {
        "body": pa.array([body for *_, body in rows], pa.binary()),
        "properties": pa.array([properties for properties, *_ in rows], PROPERTIES_TYPE),
        "headers": pa.array([None if each is None else list(each.items()) for _, each, _ in rows], HEADERS_TYPE),
    }
    options = WriteOptions(TARGET, "", "to", persistent=persistent, deduplication_header=header)
    wanted = b"".join(alone(row, each, header, persistent) for row, each in enumerate(rows))
    assert frames_of(pa.RecordBatch.from_pydict(columns), options) == (wanted, len(rows))


def test_an_empty_table_of_headers_stays_one() -> None:
    batch = pa.RecordBatch.from_pydict({"body": [b"", b""], "headers_raw": pa.array([encode_table({}), None])})
    publish = frame_of(BasicPublish(exchange="", routing_key="to"))
    tables: list[Table | None] = [{}, None]
    wanted = [encode_properties(Properties(headers=table, delivery_mode=2)) for table in tables]
    options = WriteOptions(TARGET, "", "to", deduplication_header="")
    assert frames_of(batch, options)[0] == b"".join(publish + content_frames(CHANNEL, each, b"", 0) for each in wanted)


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("message_id", pa.array(["fits", None, "ä" * 128]), "a short string cannot hold 256 bytes"),
        ("priority", pa.array([9, None, 256]), "number does not fit an octet"),
        ("priority", pa.array([9, None, -1]), "number does not fit an octet"),
        ("headers_raw", pa.array([None, None, b"\0\0\0\1x"]), "cannot be sent"),
    ],
)
def test_a_row_for_which_the_wire_has_no_room_is_named(name: str, column: pa.Array, said: str) -> None:
    batch = pa.RecordBatch.from_pydict({"body": [b"a", b"b", b"c"], name: column})
    with pytest.raises(WarrenError, match=rf"^row q/0/1/2 cannot be sent: .*{said}|^row q/0/1/2 {said}"):
        frames_of(batch, WriteOptions(TARGET, "", "to"))
