"""Basic properties: both readers agree on what is valid, and a peek sees what a decode would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amqp import wire
from warren.amqp.fields import Field
from warren.amqp.properties import Properties, PropertyPeek, decode_properties, encode_properties, peek_properties
from warren.amqp.tables import decode_table
from warren.errors import SyntaxRefused

FULL = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers=wire.sample_table(),
    delivery_mode=2,
    priority=9,
    correlation_id="correlation",
    reply_to="amq.rabbitmq.reply-to",
    expiration="60000",
    message_id="message",
    timestamp=1700000000,
    type="type",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)


def decoded(data: bytes) -> Properties:
    return decode_properties(data, 0, len(data))


def peeked(data: bytes) -> PropertyPeek:
    return peek_properties(data, 0, len(data))


def survives(data: bytes) -> bool:
    """Whether the bytes are properties. Both readers must agree, and nothing but a syntax error may escape."""
    try:
        peek = peeked(data)
    except SyntaxRefused:
        with pytest.raises(SyntaxRefused):
            decoded(data)
        return False
    assert_peek_matches(peek, decoded(data), data)
    return True


def assert_peek_matches(peek: PropertyPeek, properties: Properties, data: bytes) -> None:
    assert peek.delivery_mode == (properties.delivery_mode or 0)
    assert peek.priority == (-1 if properties.priority is None else properties.priority)
    assert peek.expiration == properties.expiration
    assert peek.user_id == properties.user_id
    assert peek.reply_to == properties.reply_to
    assert peek.message_id == properties.message_id
    if properties.headers is None:
        assert (peek.headers_start, peek.headers_end) == (0, 0)
    else:
        assert peek.headers_start > 0
        assert decode_table(data, peek.headers_start, peek.headers_end) == properties.headers


@given(wire.properties)
def test_properties_come_back_equal_and_byte_for_byte(properties: Properties) -> None:
    encoded = encode_properties(properties)
    assert decoded(encoded) == properties
    assert encode_properties(decoded(encoded)) == encoded
    assert_peek_matches(peeked(encoded), properties, encoded)


@given(wire.properties, st.binary(max_size=10), st.binary(max_size=10))
def test_properties_are_read_from_the_middle_of_a_frame(properties: Properties, before: bytes, after: bytes) -> None:
    encoded = encode_properties(properties)
    data = before + encoded + after
    start, end = len(before), len(before) + len(encoded)
    assert decode_properties(data, start, end) == properties
    peek = peek_properties(data, start, end)
    assert peek.message_id == properties.message_id
    if properties.headers is not None:
        assert decode_table(data, peek.headers_start, peek.headers_end) == properties.headers


def test_no_properties_are_two_zero_bytes() -> None:
    assert encode_properties(Properties()) == b"\x00\x00"
    assert decoded(b"\x00\x00") == Properties()


def test_the_flags_stand_in_the_order_of_the_spec() -> None:
    names = list(Properties.__dataclass_fields__)
    for index, name in enumerate(names):
        properties = Properties()
        setattr(properties, name, getattr(FULL, name))
        encoded = encode_properties(properties)
        assert int.from_bytes(encoded[:2], "big") == 1 << (15 - index), name


def test_an_empty_header_table_is_not_an_absent_one() -> None:
    encoded = encode_properties(Properties(headers={}))
    peek = peeked(encoded)
    assert (peek.headers_start, peek.headers_end) == (6, 6)
    assert decoded(encoded).headers == {}


def test_a_timestamp_beyond_63_bits_comes_back() -> None:
    encoded = encode_properties(Properties(timestamp=(1 << 64) - 1))
    assert decoded(encoded).timestamp == (1 << 64) - 1
    assert_peek_matches(peeked(encoded), decoded(encoded), encoded)


def test_text_that_is_not_utf8_survives() -> None:
    encoded = b"\x00\x80\x02\xff\xfe"
    assert encode_properties(decoded(encoded)) == encoded
    assert peeked(encoded).message_id == decoded(encoded).message_id


def test_flags_may_continue_with_words_that_say_nothing() -> None:
    for data in (b"\x10\x01\x00\x00\x02", b"\x10\x01\x00\x01\x00\x00\x02"):
        assert decoded(data) == Properties(delivery_mode=2)
        assert peeked(data).delivery_mode == 2


def test_the_bit_that_rabbitmq_ignores_is_ignored() -> None:
    assert decoded(b"\x10\x02\x02") == Properties(delivery_mode=2)
    assert peeked(b"\x10\x02\x02").delivery_mode == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x00\x01",
        b"\x00\x01\x00",
        b"\x00\x01\x80\x00",
        b"\x00\x01\x00\x02",
        b"\x00\x01" + b"\x00\x01" * 9,
    ],
)
def test_flags_that_end_too_early_or_name_unknown_properties_are_refused(data: bytes) -> None:
    assert not survives(data)


def test_bytes_left_over_are_refused() -> None:
    assert not survives(encode_properties(FULL) + b"\x00")
    assert not survives(b"\x00\x00\x00")


def test_properties_cut_anywhere_are_refused() -> None:
    for cut in wire.truncations(encode_properties(FULL)):
        assert not survives(cut)


def test_a_length_that_lies_never_reads_beyond_the_frame() -> None:
    for lie in wire.lies(encode_properties(FULL)):
        survives(lie)


def test_each_property_alone_is_refused_when_cut() -> None:
    for name in Properties.__dataclass_fields__:
        properties = Properties()
        setattr(properties, name, getattr(FULL, name))
        for cut in wire.truncations(encode_properties(properties)):
            assert not survives(cut), name


@pytest.mark.parametrize("depth", [17, 3000])
def test_headers_that_nest_too_deep_are_refused(depth: int) -> None:
    contents = wire.nested_tables(depth)
    assert not survives(b"\x20\x00" + len(contents).to_bytes(4, "big") + contents)


def test_headers_of_sixteen_levels_pass() -> None:
    contents = wire.nested_tables(16)
    assert survives(b"\x20\x00" + len(contents).to_bytes(4, "big") + contents)


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_properties_or_a_syntax_error(data: bytes) -> None:
    survives(data)


@given(wire.properties, st.data())
def test_properties_with_one_byte_changed_are_properties_or_a_syntax_error(
    properties: Properties, data: st.DataObject
) -> None:
    encoded = bytearray(encode_properties(properties))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(encoded))


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 5), (2, 3), (1 << 40, 1 << 41)])
def test_a_span_outside_the_data_is_refused(start: int, end: int) -> None:
    with pytest.raises(SyntaxRefused):
        peek_properties(b"\x00\x00\x00\x00", start, end)
    with pytest.raises(SyntaxRefused):
        decode_properties(b"\x00\x00\x00\x00", start, end)


@pytest.mark.parametrize(
    "properties",
    [
        Properties(delivery_mode=256),
        Properties(priority=-1),
        Properties(timestamp=1 << 64),
        Properties(message_id="x" * 256),
        Properties(headers={"k": Field("I", 1 << 40)}),
    ],
)
def test_what_does_not_fit_is_refused_on_the_way_out(properties: Properties) -> None:
    with pytest.raises(SyntaxRefused):
        encode_properties(properties)
