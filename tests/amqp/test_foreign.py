"""The same bytes as pamqp, a codec by other hands: methods, properties, tables and whole frames."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pamqp.base
import pamqp.body
import pamqp.commands
import pamqp.common
import pamqp.decode
import pamqp.encode
import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amqp import wire
from warren.amqp.fields import Field, Table, plain_table
from warren.amqp.frames import content_frames
from warren.amqp.methods import METHODS, Method, decode_method, encode_method
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.replies import frame
from warren.amqp.tables import decode_table, encode_table

# pamqp has no access class.
FOREIGN = [kind for kind in METHODS if kind.name.split(".")[0] != "access"]
# Arguments that mean nothing any more: pamqp insists on one value of each.
RESERVED: dict[str, object] = {
    "ticket": 0,
    "capabilities": "",
    "insist": False,
    "known_hosts": "",
    "out_of_band": "0",
    "channel_id": b"0",
    "cluster_id": "",
}
OUR_NAMES = {"nowait": "no_wait", "exchange_type": "type"}
# Names that pamqp takes: it checks their characters and their length.
names = st.text("abcXYZ019-_.:", min_size=1, max_size=30)

kinds = pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.name)


def foreign_kind(kind: type[Method]) -> type[pamqp.base.Frame]:
    class_name, method = kind.name.split(".")
    group = getattr(pamqp.commands, class_name.capitalize())
    found: type[pamqp.base.Frame] = getattr(group, "".join(part.capitalize() for part in method.split("-")))
    return found


def restrain(method: Method) -> None:
    """Keep to what pamqp can hold: it reads tags as signed, and long strings as text."""
    for name in method.fields:
        value: object = getattr(method, name)
        if name in RESERVED:
            setattr(method, name, RESERVED[name])
        elif isinstance(value, dict):
            setattr(method, name, {"x-key": Field("S", "välue"), "y": Field("b", -3), "z": Field("t", True)})
        elif isinstance(value, bytes):
            setattr(method, name, "téxt".encode())
        elif name == "delivery_tag" and isinstance(value, int):
            setattr(method, name, value >> 1)


def as_pamqp_shows(value: object) -> object:
    if isinstance(value, dict):
        return plain_table(value)
    return value.decode() if isinstance(value, bytes) else value


@kinds
def test_ids_are_the_same(kind: type[Method]) -> None:
    foreign = foreign_kind(kind)
    assert foreign.frame_id == kind.id & 0xFFFF
    assert foreign.index == kind.id


@kinds
@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
@given(st.data())
def test_what_we_write_pamqp_reads_and_writes_again_byte_for_byte(kind: type[Method], data: st.DataObject) -> None:
    method = data.draw(wire.methods_of(kind, names))
    restrain(method)
    encoded = encode_method(method)
    foreign = foreign_kind(kind)()
    foreign.unmarshal(encoded)
    assert len(foreign) == len(kind.fields)
    for (foreign_name, value), name in zip(foreign, kind.fields, strict=True):
        if name not in RESERVED:
            assert OUR_NAMES.get(foreign_name, foreign_name) == name
        assert value == as_pamqp_shows(getattr(method, name)), name
    assert foreign.marshal() == encoded
    assert decode_method(kind.id, foreign.marshal(), 0, len(encoded)) == method


numbers = st.integers(-(1 << 63), (1 << 63) - 1)
foreign_values = st.recursive(
    st.one_of(
        st.booleans(),
        numbers,
        st.text(st.characters(codec="utf-8"), max_size=20),
        st.none(),
        st.binary(max_size=20).map(bytearray),
        st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(names, foreign_values, max_size=5))
def test_a_table_that_pamqp_wrote_comes_back_byte_for_byte(values: pamqp.common.FieldTable) -> None:
    encoded = pamqp.encode.field_table(values)
    assert encode_table(decode_table(encoded, 4, len(encoded))) == encoded


@given(wire.tables)
def test_a_table_that_we_wrote_pamqp_consumes_to_the_last_byte(table: Table) -> None:
    # pamqp has years up to 9999 and reads L as it pleases; everything else must be read.
    readable = {key.encode(errors="replace").decode(): field for key, field in table.items() if is_readable(field)}
    encoded = encode_table(readable)
    consumed, values = pamqp.decode.field_table(encoded)
    assert consumed == len(encoded)
    assert list(values) == list(readable)


def is_readable(field: Field) -> bool:
    if isinstance(field.value, dict):
        return all(is_readable(inner) and key.isprintable() for key, inner in field.value.items())
    if isinstance(field.value, list):
        return all(is_readable(inner) for inner in field.value)
    return field.tag not in "TL"


def test_pamqp_sees_the_values_that_we_mean() -> None:
    table = wire.sample_table()
    table["T"] = Field("T", 1700000000)
    del table["L"]
    _, values = pamqp.decode.field_table(encode_table(table))
    assert values == {
        **plain_table(table),
        "T": datetime.datetime.fromtimestamp(1700000000, datetime.UTC),
        "D": Decimal("3.140"),
        "F": {"inner": b"\xff\xfe"},
        "x": bytearray(b"\x00\x01"),
    }


texts = st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
octets = st.none() | st.integers(1, 2)


@given(texts, texts, texts, texts, texts, st.none() | st.integers(0, 9), octets, st.none() | st.integers(0, 1 << 32))
def test_properties_are_the_same_bytes(
    content_type: str | None,
    correlation_id: str | None,
    reply_to: str | None,
    message_id: str | None,
    app_id: str | None,
    priority: int | None,
    delivery_mode: int | None,
    timestamp: int | None,
) -> None:
    ours = Properties(
        content_type=content_type,
        headers={"a": Field("S", "b")},
        correlation_id=correlation_id,
        reply_to=reply_to,
        message_id=message_id,
        app_id=app_id,
        priority=priority,
        delivery_mode=delivery_mode,
        timestamp=timestamp,
    )
    when = None if timestamp is None else datetime.datetime.fromtimestamp(timestamp, datetime.UTC)
    theirs = pamqp.commands.Basic.Properties(
        content_type=content_type,
        headers={"a": "b"},
        correlation_id=correlation_id,
        reply_to=reply_to,
        message_id=message_id,
        app_id=app_id,
        priority=priority,
        delivery_mode=delivery_mode,
        timestamp=when,
    )
    assert encode_properties(ours) == theirs.marshal()


def test_whole_frames_are_the_same_bytes() -> None:
    publish = pamqp.commands.Basic.Publish(exchange="amq.topic", routing_key="a.b", mandatory=True)
    ours = decode_method(publish.index, publish.marshal(), 0, len(publish.marshal()))
    assert frame(5, ours) == pamqp.frame.marshal(publish, 5)
    header = pamqp.header.ContentHeader(body_size=11, properties=pamqp.commands.Basic.Properties(delivery_mode=2))
    theirs = pamqp.frame.marshal(header, 5) + pamqp.frame.marshal(pamqp.body.ContentBody(b"hello world"), 5)
    assert content_frames(5, encode_properties(Properties(delivery_mode=2)), b"hello world", 4096) == theirs
