"""Methods, their reader and their writer: every method there and back, and every damage refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amqp import wire
from warren.amqp import constants
from warren.amqp.fields import Field
from warren.amqp.methods import (
    METHODS,
    BasicAck,
    BasicNack,
    BasicPublish,
    ConnectionClose,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    decode_method,
    encode_method,
    method_name,
)
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter
from warren.errors import CommandInvalid, FrameError, SyntaxRefused

kinds = pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.name)


def decoded(method_id: int, arguments: bytes) -> Method:
    return decode_method(method_id, arguments, 0, len(arguments))


@kinds
@given(st.data())
def test_every_method_comes_back_equal_and_byte_for_byte(kind: type[Method], data: st.DataObject) -> None:
    method = data.draw(wire.methods_of(kind))
    encoded = encode_method(method)
    again = decoded(kind.id, encoded)
    assert type(again) is kind
    for name in kind.fields:
        assert getattr(again, name) == getattr(method, name)
    assert encode_method(again) == encoded


@kinds
def test_a_method_cut_anywhere_is_a_syntax_error(kind: type[Method]) -> None:
    for cut in wire.truncations(encode_method(wire.full_method(kind))):
        with pytest.raises(SyntaxRefused):
            decoded(kind.id, cut)


@kinds
def test_a_method_with_a_byte_too_many_is_a_syntax_error(kind: type[Method]) -> None:
    with pytest.raises(SyntaxRefused):
        decoded(kind.id, encode_method(wire.full_method(kind)) + b"\x00")


@kinds
def test_a_length_that_lies_escapes_as_nothing_but_a_syntax_error(kind: type[Method]) -> None:
    for lie in wire.lies(encode_method(wire.full_method(kind))):
        try:
            decoded(kind.id, lie)
        except (SyntaxRefused, FrameError):
            continue


@given(st.sampled_from(METHODS), st.binary(max_size=100))
def test_arbitrary_arguments_are_a_method_or_a_syntax_error(kind: type[Method], data: bytes) -> None:
    try:
        method = decoded(kind.id, data)
    except (SyntaxRefused, FrameError):
        return
    assert decoded(kind.id, encode_method(method)) == method


@given(wire.methods, st.binary(max_size=10), st.binary(max_size=10))
def test_arguments_are_read_from_the_middle_of_a_frame(method: Method, before: bytes, after: bytes) -> None:
    encoded = encode_method(method)
    data = before + encoded + after
    assert decode_method(method.id, data, len(before), len(before) + len(encoded)) == method


def test_every_id_among_the_constants_has_a_method_of_that_name() -> None:
    ids = {
        name: value
        for name, value in vars(constants).items()
        if isinstance(value, int) and value > 0xFFFF and name not in ("BODY_HARD_MAX", "MAX_EXPIRY_MS")
    }
    assert {kind.id for kind in METHODS} == set(ids.values())
    for name, value in ids.items():
        assert method_name(value).upper().replace(".", "_").replace("-", "_") == name
    assert len(METHODS) == 66


@pytest.mark.parametrize("method_id", [0, 60, 60 << 16, 60 << 16 | 41, 40 << 16 | 41, 99 << 16 | 10, 0xFFFFFFFF])
def test_an_unknown_id_is_an_invalid_command_that_names_it(method_id: int) -> None:
    with pytest.raises(CommandInvalid) as caught:
        decoded(method_id, b"")
    assert caught.value.method_id == method_id
    assert method_name(method_id) == "none"


def test_fields_may_be_changed_in_place() -> None:
    method = BasicPublish(0, "exchange", "key", True, False)
    method.exchange = "other"
    method.mandatory = False
    assert encode_method(method) == b"\x00\x00\x05other\x03key\x00"


def test_bits_are_packed_from_the_lowest() -> None:
    assert encode_method(QueueDeclare(0, "q", durable=True, no_wait=True)) == b"\x00\x00\x01q\x12\x00\x00\x00\x00"
    assert encode_method(ExchangeDeclare(exchange="e", internal=True)) == b"\x00\x00\x01e\x06direct\x08\x00\x00\x00\x00"
    assert encode_method(BasicNack(1, False, True)) == b"\x00\x00\x00\x00\x00\x00\x00\x01\x02"


def test_bits_that_mean_nothing_are_ignored() -> None:
    assert decoded(constants.BASIC_ACK, bytes(7) + b"\x05\xff") == BasicAck(5, True)
    assert decoded(constants.BASIC_ACK, bytes(7) + b"\x05\xfe") == BasicAck(5, False)


def test_a_delivery_tag_is_unsigned() -> None:
    assert decoded(constants.BASIC_ACK, b"\xff" * 8 + b"\x00") == BasicAck((1 << 64) - 1, False)


def test_a_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FrameError, match="Malformed UTF-8 in shortstr"):
        decoded(constants.QUEUE_DECLARE, b"\x00\x00\x02\xff\xfe\x00\x00\x00\x00\x00")


def test_a_routing_key_that_is_not_utf8_survives() -> None:
    encoded = b"\x00\x00\x02\xff\xfe\x01\x80\x00"
    method = decoded(constants.BASIC_PUBLISH, encoded)
    assert encode_method(method) == encoded


def test_methods_without_arguments_to_share_do_not_share_a_table() -> None:
    first, second = QueueDeclare(), QueueDeclare()
    first.arguments["x-expires"] = Field("I", 1)
    assert second.arguments == {}


def test_methods_compare_by_kind_and_arguments() -> None:
    assert BasicAck(1) == BasicAck(1)
    assert BasicAck(1) != BasicAck(2)
    assert ConnectionClose(1, "", 0, 0) != METHODS[0]()
    assert BasicAck(1) != 1


def test_a_method_shows_its_arguments() -> None:
    assert repr(BasicAck(7, True)) == "BasicAck(delivery_tag=7, multiple=True)"


# --- reader and writer --------------------------------------------------------------------------------------------


def test_numbers_are_unsigned() -> None:
    reader = ArgumentReader(b"\xff" * 15, 0, 15)
    assert reader.octet() == 0xFF
    assert reader.short() == 0xFFFF
    assert reader.long() == 0xFFFFFFFF
    assert reader.longlong() == 0xFFFFFFFFFFFFFFFF
    reader.finish()


def test_the_reader_stays_within_its_span() -> None:
    reader = ArgumentReader(b"abcdef", 2, 3)
    assert reader.octet() == ord("c")
    with pytest.raises(SyntaxRefused):
        reader.octet()
    reader.finish()


@pytest.mark.parametrize("call", ["octet", "short", "long", "longlong", "shortstr", "longstr", "table"])
def test_nothing_is_read_from_nothing(call: str) -> None:
    reader = ArgumentReader(b"\x00" * 9, 9, 9)
    with pytest.raises(SyntaxRefused):
        getattr(reader, call)()


@pytest.mark.parametrize("size", [b"\x00\x00\x00\x02", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff"])
@pytest.mark.parametrize("call", ["longstr", "table"])
def test_a_long_length_may_not_lie(call: str, size: bytes) -> None:
    data = size + b"x"
    with pytest.raises(SyntaxRefused):
        getattr(ArgumentReader(data, 0, len(data)), call)()


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (2, 1), (0, 4), (1 << 40, 1 << 41)])
def test_a_span_outside_the_data_is_refused(start: int, end: int) -> None:
    with pytest.raises(SyntaxRefused):
        ArgumentReader(b"abc", start, end)


@pytest.mark.parametrize(("call", "bits"), [("octet", 8), ("short", 16), ("long", 32), ("longlong", 64)])
def test_a_number_must_fit_its_width(call: str, bits: int) -> None:
    for value in (0, (1 << bits) - 1, 1 << bits - 1):
        writer = ArgumentWriter()
        getattr(writer, call)(value)
        encoded = writer.getvalue()
        assert len(encoded) == bits // 8
        assert getattr(ArgumentReader(encoded, 0, len(encoded)), call)() == value
    for value in (-1, 1 << bits, 1 << 100):
        with pytest.raises(SyntaxRefused):
            getattr(ArgumentWriter(), call)(value)


def test_a_short_string_holds_255_bytes() -> None:
    ArgumentWriter().shortstr("x" * 255)
    for text in ("x" * 256, "é" * 128):
        with pytest.raises(SyntaxRefused):
            ArgumentWriter().shortstr(text)
