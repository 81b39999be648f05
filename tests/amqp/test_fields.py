"""Field tables: what goes in comes out, and nothing that is malformed comes through."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amqp import wire
from warren.amqp.fields import Field, Table, field_of, plain, plain_table, table_of, type_name
from warren.amqp.tables import check_table, decode_table, encode_table
from warren.errors import SyntaxRefused


def decoded(contents: bytes) -> Table:
    return decode_table(contents, 0, len(contents))


def refused(contents: bytes) -> str:
    """Both readers refuse, in the same words."""
    with pytest.raises(SyntaxRefused) as from_check:
        check_table(contents, 0, len(contents))
    with pytest.raises(SyntaxRefused) as from_decode:
        decoded(contents)
    assert from_check.value.explanation == from_decode.value.explanation
    return from_check.value.explanation


def survives(contents: bytes) -> bool:
    """Whether the bytes are a table; anything but a syntax error fails the test."""
    try:
        check_table(contents, 0, len(contents))
    except SyntaxRefused:
        with pytest.raises(SyntaxRefused):
            decoded(contents)
        return False
    decoded(contents)
    return True


@pytest.mark.parametrize("tag", sorted(wire.SCALARS))
@given(st.data())
def test_every_type_comes_back_equal_and_byte_for_byte(tag: str, data: st.DataObject) -> None:
    field = data.draw(wire.SCALARS[tag])
    encoded = encode_table({"key": field})
    table = decode_table(encoded, 4, len(encoded))
    assert table == {"key": field}
    assert encode_table(table) == encoded


@given(wire.tables)
def test_every_table_comes_back_equal_and_byte_for_byte(table: Table) -> None:
    encoded = encode_table(table)
    assert struct.unpack(">I", encoded[:4])[0] == len(encoded) - 4
    check_table(encoded, 4, len(encoded))
    again = decode_table(encoded, 4, len(encoded))
    assert again == table
    assert list(again) == list(table)
    assert encode_table(again) == encoded


@given(wire.tables, st.binary(max_size=20), st.binary(max_size=20))
def test_a_table_is_read_from_the_middle_of_other_bytes(table: Table, before: bytes, after: bytes) -> None:
    contents = wire.contents_of(table)
    data = before + contents + after
    start, end = len(before), len(before) + len(contents)
    check_table(data, start, end)
    assert decode_table(data, start, end) == table


@pytest.mark.parametrize(
    ("wire_bytes", "field"),
    [
        (b"S\x00\x00\x00\x02hi", Field("S", "hi")),
        (b"S\x00\x00\x00\x01\xff", Field("S", b"\xff")),
        (b"I\xff\xff\xff\xff", Field("I", -1)),
        (b"i\xff\xff\xff\xff", Field("i", 4294967295)),
        (b"s\xff\xfe", Field("s", -2)),
        (b"u\xff\xfe", Field("u", 65534)),
        (b"b\x80", Field("b", -128)),
        (b"B\x80", Field("B", 128)),
        (b"l" + b"\xff" * 8, Field("l", -1)),
        (b"L" + b"\xff" * 8, Field("L", -1)),
        (b"T" + b"\xff" * 8, Field("T", 18446744073709551615)),
        (b"D\x02\x00\x00\x01\x3a", Field("D", Decimal("3.14"))),
        (b"D\xff\xff\xff\xff\xff", Field("D", Decimal("4294967295E-255"))),
        (b"x\x00\x00\x00\x01a", Field("x", b"a")),
        (b"t\x00", Field("t", False)),
        (b"t\x01", Field("t", True)),
        (b"V", Field("V", None)),
        (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", Field("d", 1.5)),
        (b"f\xbf\x00\x00\x00", Field("f", -0.5)),
        (b"F\x00\x00\x00\x03\x01kV", Field("F", {"k": Field("V", None)})),
        (b"A\x00\x00\x00\x03Vt\x01", Field("A", [Field("V", None), Field("t", True)])),
    ],
)
def test_the_bytes_of_each_type_are_those_of_rabbitmq(wire_bytes: bytes, field: Field) -> None:
    contents = b"\x01k" + wire_bytes
    assert decoded(contents) == {"k": field}
    assert wire.contents_of({"k": field}) == contents


def test_any_byte_but_zero_is_true_and_goes_out_as_one() -> None:
    table = decoded(b"\x01kt\x07")
    assert table == {"k": Field("t", True)}
    assert wire.contents_of(table) == b"\x01kt\x01"


def test_of_a_repeated_key_the_first_counts() -> None:
    assert decoded(b"\x01kB\x01\x01kB\x02") == {"k": Field("B", 1)}


def test_a_key_that_is_not_utf8_survives() -> None:
    contents = b"\x02\xff\xfeV"
    assert wire.contents_of(decoded(contents)) == contents


def test_an_empty_table_is_four_zeros() -> None:
    assert encode_table({}) == b"\x00\x00\x00\x00"
    assert decoded(b"") == {}


# --- refusals -----------------------------------------------------------------------------------------------------


def test_a_table_cut_anywhere_is_refused_or_a_shorter_table() -> None:
    contents = wire.contents_of(wire.sample_table())
    whole = [cut for cut in wire.truncations(contents) if survives(cut)]
    # Between two entries a cut leaves a valid table: one for each entry but the last, and the empty one.
    assert len(whole) == len(wire.sample_table())


def test_a_length_that_lies_never_reads_beyond_its_table() -> None:
    for lie in wire.lies(wire.contents_of(wire.sample_table())):
        survives(lie)


@pytest.mark.parametrize("tag", [b"S", b"x", b"F", b"A"])
@pytest.mark.parametrize("length", [1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_length_beyond_the_end_is_refused(tag: bytes, length: int) -> None:
    assert refused(b"\x01k" + tag + struct.pack(">I", length)) == "field table value exceeds its table"


@pytest.mark.parametrize("tag", [b"F", b"A"])
def test_an_inner_value_may_not_reach_into_the_outer_table(tag: bytes) -> None:
    inner = (b"\x01k" if tag == b"F" else b"") + b"S\x00\x00\x00\x04"
    contents = b"\x01k" + tag + struct.pack(">I", len(inner)) + inner + b"abcd"
    assert refused(contents) == "field table value exceeds its table"


@pytest.mark.parametrize("tag", sorted(set("IisubBlLTDtdf")))
def test_a_value_of_fixed_width_that_is_cut_is_refused(tag: str) -> None:
    whole = wire.contents_of({"k": wire.sample_table()[tag]})
    for cut in range(3, len(whole)):
        assert refused(whole[:cut]) == "field table value exceeds its table"


def test_a_key_without_a_value_is_refused() -> None:
    assert refused(b"\x01k") == "field table key exceeds its table"
    assert refused(b"\xffk") == "field table key exceeds its table"


@pytest.mark.parametrize("tag", sorted(set(range(256)) - {ord(tag) for tag in "SIisubBlLTDFAxtVdf"}))
def test_an_unknown_type_is_refused(tag: int) -> None:
    assert refused(b"\x01k" + bytes([tag]) + bytes(16)) == f"unknown field table type {tag}"


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("tag", ["d", "f"])
def test_a_number_that_is_not_finite_is_refused_both_ways(tag: str, number: float) -> None:
    refused(b"\x01k" + tag.encode() + struct.pack(">" + tag, number))
    with pytest.raises(SyntaxRefused):
        encode_table({"k": Field(tag, number)})


def test_sixteen_levels_pass() -> None:
    for contents in (wire.nested_tables(16), wire.nested_arrays(16)):
        check_table(contents, 0, len(contents))
        assert wire.contents_of(decoded(contents)) == contents


@pytest.mark.parametrize("depth", [17, 18, 5000])
def test_seventeen_levels_and_more_are_refused(depth: int) -> None:
    assert refused(wire.nested_tables(depth)) == "field table nested deeper than 16"
    assert refused(wire.nested_arrays(depth)) == "field table nested deeper than 16"


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 5), (5, 5), (0, 1 << 40)])
def test_a_span_outside_the_data_is_refused(start: int, end: int) -> None:
    with pytest.raises(SyntaxRefused):
        check_table(b"abcd", start, end)
    with pytest.raises(SyntaxRefused):
        decode_table(b"abcd", start, end)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_table_or_a_syntax_error(data: bytes) -> None:
    survives(data)


@given(wire.tables, st.data())
def test_a_table_with_one_byte_changed_is_a_table_or_a_syntax_error(table: Table, data: st.DataObject) -> None:
    contents = bytearray(wire.contents_of(table))
    if contents:
        contents[data.draw(st.integers(0, len(contents) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(contents))


# --- encoding what cannot be encoded ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "low", "high"),
    [
        ("I", -(1 << 31), (1 << 31) - 1),
        ("i", 0, (1 << 32) - 1),
        ("s", -(1 << 15), (1 << 15) - 1),
        ("u", 0, (1 << 16) - 1),
        ("b", -128, 127),
        ("B", 0, 255),
        ("l", -(1 << 63), (1 << 63) - 1),
        ("L", -(1 << 63), (1 << 63) - 1),
        ("T", 0, (1 << 64) - 1),
    ],
)
def test_an_integer_must_fit_its_type(tag: str, low: int, high: int) -> None:
    for value in (low, high):
        assert decoded(wire.contents_of({"k": Field(tag, value)})) == {"k": Field(tag, value)}
    for value in (low - 1, high + 1, 10**5000):
        with pytest.raises(SyntaxRefused):
            encode_table({"k": Field(tag, value)})


@pytest.mark.parametrize(
    "value", ["-1", "4294967296", "1E+10", "1E-256", "NaN", "Infinity", "1" * 5000, "1E+999999999"]
)
def test_a_decimal_must_fit_a_scale_and_thirty_two_bits(value: str) -> None:
    with pytest.raises(SyntaxRefused):
        encode_table({"k": Field("D", Decimal(value))})


def test_a_decimal_with_a_positive_exponent_is_written_out() -> None:
    assert decoded(wire.contents_of({"k": Field("D", Decimal("12E+3"))})) == {"k": Field("D", Decimal(12000))}


@pytest.mark.parametrize(
    "field",
    [
        Field("S", 1),
        Field("I", "1"),
        Field("F", [Field("V", None)]),
        Field("A", {}),
        Field("x", "text"),
        Field("D", 1.5),
        Field("d", "1.5"),
        Field("t", 2),
        Field("Z", 1),
        Field("", None),
        Field("SS", "x"),
        Field("f", 1e300),
        Field("d", 10**400),
    ],
)
def test_a_value_of_another_type_than_its_tag_is_refused(field: Field) -> None:
    with pytest.raises(SyntaxRefused):
        encode_table({"k": field})


def test_a_key_longer_than_a_short_string_is_refused() -> None:
    assert encode_table({"k" * 255: Field("V", None)})
    with pytest.raises(SyntaxRefused):
        encode_table({"k" * 256: Field("V", None)})
    with pytest.raises(SyntaxRefused):
        encode_table({"é" * 128: Field("V", None)})


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(SyntaxRefused):
        encode_table({"k": Field("S", "\ud800")})


def test_nesting_is_bounded_on_the_way_out_too() -> None:
    table: Table = {}
    array: list[Field] = []
    for _ in range(16):
        table = {"k": Field("F", table)}
        array = [Field("A", array)]
    for deep in (table, {"k": Field("A", array)}):
        with pytest.raises(SyntaxRefused):
            encode_table(deep)


# --- plain values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("text", Field("S", "text")),
        (True, Field("t", True)),
        (0, Field("I", 0)),
        (-(1 << 31), Field("I", -(1 << 31))),
        (1 << 31, Field("l", 1 << 31)),
        (-(1 << 63), Field("l", -(1 << 63))),
        (1.5, Field("d", 1.5)),
        (None, Field("V", None)),
        (b"\xff", Field("x", b"\xff")),
        (Decimal("1.5"), Field("D", Decimal("1.5"))),
        ({"a": [1, "b"]}, Field("F", {"a": Field("A", [Field("I", 1), Field("S", "b")])})),
        (Field("u", 3), Field("u", 3)),
    ],
)
def test_a_python_value_becomes_the_field_a_client_would_send(value: object, field: Field) -> None:
    assert field_of(value) == field


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, object(), {1, 2}])
def test_a_value_that_no_type_holds_is_refused(value: object) -> None:
    with pytest.raises(SyntaxRefused):
        field_of(value)


def test_plain_values_that_nest_too_deep_are_refused() -> None:
    table: dict[str, object] = {}
    array: list[object] = []
    for _ in range(5000):
        table = {"k": table}
        array = [array]
    for deep in (table, array):
        with pytest.raises(SyntaxRefused):
            table_of({"k": deep})


def test_what_table_of_accepts_encode_table_accepts() -> None:
    table: dict[str, object] = {}
    for _ in range(15):
        table = {"k": table}
    assert plain_table(decoded(wire.contents_of(table_of(table)))) == table
    with pytest.raises(SyntaxRefused):
        table_of({"k": table})


def test_plain_shows_what_management_shows() -> None:
    table = wire.sample_table()
    assert plain_table(table) == {
        "S": "text",
        "I": -5,
        "i": 4294967295,
        "s": -300,
        "u": 65535,
        "b": -1,
        "B": 255,
        "l": -(1 << 63),
        "L": 1 << 40,
        "T": (1 << 64) - 1,
        "D": 3.14,
        "F": {"inner": "Not UTF-8, base64 is: //4="},
        "A": [1, {"deep": True}, []],
        "x": "\x00\x01",
        "t": False,
        "V": None,
        "d": 1.5,
        "f": -0.25,
    }


def test_long_bytes_are_shown_in_lines_of_seventy_six() -> None:
    shown = plain(Field("x", b"\xff" * 100))
    assert isinstance(shown, str)
    assert [len(line) for line in shown.removeprefix("Not UTF-8, base64 is: ").split("\n")] == [76, 60]


@given(wire.tables)
def test_plain_is_always_valid_json_in_utf8(table: Table) -> None:
    values = plain_table(table)
    assert json.loads(json.dumps(values, ensure_ascii=False, allow_nan=False).encode()) == values


def test_fields_compare_by_tag_and_value() -> None:
    assert Field("I", 1) == Field("I", 1)
    assert Field("I", 1) != Field("l", 1)
    assert Field("I", 1) != Field("I", 2)
    assert Field("I", 1) != 1
    assert repr(Field("I", 1)) == "Field('I', 1)"


def test_every_type_has_rabbitmqs_name() -> None:
    names = {tag: type_name(tag) for tag in "SIisubBlLTDFAxtVdf"}
    assert names == {
        "S": "longstr",
        "I": "signedint",
        "i": "unsignedint",
        "s": "short",
        "u": "unsignedshort",
        "b": "byte",
        "B": "unsignedbyte",
        "l": "long",
        "L": "long",
        "T": "timestamp",
        "D": "decimal",
        "F": "table",
        "A": "array",
        "x": "binary",
        "t": "bool",
        "V": "void",
        "d": "double",
        "f": "float",
    }
