"""Field tables on the wire: bytes to a Table and back, and whether bytes are one at all.

What a peer sends is checked before anything is made of it: sizes, tags, and how deep it is nested. Two things are not
kept, as in RabbitMQ: a true `t` goes out as 1, and of a repeated key only the first counts.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f32_be,
    write_f64_be,
    write_i64_be,
)
from mypy_extensions import i64

from warren.amqp.fields import DEPTH_MAX, TYPE_NAMES, Field, Table, type_name
from warren.amqp.numbers import encode_text, text_at, write_shortstr, write_u16, write_u32
from warren.errors import SyntaxRefused

_DOUBLE_MAX: Final = 1.7976931348623157e308
_FLOAT_MAX: Final = 3.4028234663852886e38

_S: Final = 0x53
_I: Final = 0x49
_i: Final = 0x69
_s: Final = 0x73
_u: Final = 0x75
_b: Final = 0x62
_B: Final = 0x42
_l: Final = 0x6C
_L: Final = 0x4C
_T: Final = 0x54
_D: Final = 0x44
_F: Final = 0x46
_A: Final = 0x41
_x: Final = 0x78
_t: Final = 0x74
_V: Final = 0x56
_d: Final = 0x64
_f: Final = 0x66


# --- from bytes ---------------------------------------------------------------------------------------------------


def check_table(data: bytes, start: i64, end: i64) -> None:
    """Refuse what decode_table would refuse, without making a single object."""
    _check_span(data, start, end)
    _check_entries(data, start, end, 1)


def decode_table(data: bytes, start: i64, end: i64) -> Table:
    """The contents between start and end (without the length before them), which they must fill exactly."""
    # All refusals live in the check: what passed it can be read without looking at bounds again.
    check_table(data, start, end)
    return _read_table(data, start, end)


def _check_span(data: bytes, start: i64, end: i64) -> None:
    if start < 0 or end < start or end > len(data):
        raise SyntaxRefused("field table exceeds its frame")


def _check_entries(data: bytes, start: i64, end: i64, depth: i64) -> None:
    if depth > DEPTH_MAX:
        raise SyntaxRefused(f"field table nested deeper than {DEPTH_MAX}")
    at: i64 = start
    while at < end:
        at += 1 + i64(data[at])
        if at >= end:
            raise SyntaxRefused("field table key exceeds its table")
        at = _check_value(data, at, end, depth)


def _check_array(data: bytes, start: i64, end: i64, depth: i64) -> None:
    if depth > DEPTH_MAX:
        raise SyntaxRefused(f"field table nested deeper than {DEPTH_MAX}")
    at: i64 = start
    while at < end:
        at = _check_value(data, at, end, depth)


def _check_value(data: bytes, at: i64, end: i64, depth: i64) -> i64:
    """Where the value after the tag at `at` ends."""
    tag: i64 = i64(data[at])
    at += 1
    if tag == _S or tag == _x:
        return _skip_sized(data, at, end)
    if tag == _F:
        after = _skip_sized(data, at, end)
        _check_entries(data, at + 4, after, depth + 1)
        return after
    if tag == _A:
        after = _skip_sized(data, at, end)
        _check_array(data, at + 4, after, depth + 1)
        return after
    width = _width(tag)
    if width < 0:
        raise SyntaxRefused(f"unknown field table type {tag}")
    if width > end - at:
        raise SyntaxRefused("field table value exceeds its table")
    # No JSON and no Erlang float can hold an infinity or a NaN: RabbitMQ refuses them too.
    if tag == _d and (i64(read_i16_be(data, at)) & 0x7FF0) == 0x7FF0:
        raise SyntaxRefused("double is not a finite number")
    if tag == _f and (i64(read_i16_be(data, at)) & 0x7F80) == 0x7F80:
        raise SyntaxRefused("float is not a finite number")
    return at + width


def _skip_sized(data: bytes, at: i64, end: i64) -> i64:
    if end - at < 4:
        raise SyntaxRefused("field table value exceeds its table")
    size: i64 = i64(read_i32_be(data, at)) & 0xFFFFFFFF
    if size > end - at - 4:
        raise SyntaxRefused("field table value exceeds its table")
    return at + 4 + size


def _width(tag: i64) -> i64:
    """Bytes of a value of fixed width; -1 for a type nobody knows."""
    if tag == _I or tag == _i or tag == _f:
        return 4
    if tag == _t or tag == _b or tag == _B:
        return 1
    if tag == _l or tag == _L or tag == _T or tag == _d:
        return 8
    if tag == _s or tag == _u:
        return 2
    if tag == _D:
        return 5
    return 0 if tag == _V else -1


def _read_table(data: bytes, start: i64, end: i64) -> Table:
    table: Table = {}
    at: i64 = start
    while at < end:
        size: i64 = i64(data[at])
        key = text_at(data, at + 1, at + 1 + size)
        at += 1 + size
        field = _read_field(data, at)
        # The first of a repeated key, as RabbitMQ's lookups find it.
        if key not in table:
            table[key] = field
        at = after_value(data, at)
    return table


def _read_array(data: bytes, start: i64, end: i64) -> list[Field]:
    items: list[Field] = []
    at: i64 = start
    while at < end:
        items.append(_read_field(data, at))
        at = after_value(data, at)
    return items


def after_value(data: bytes, at: i64) -> i64:
    """Where a checked value ends, its tag at `at`."""
    width = _width(i64(data[at]))
    if width >= 0:
        return at + 1 + width
    return at + 5 + (i64(read_i32_be(data, at + 1)) & 0xFFFFFFFF)


def _read_field(data: bytes, at: i64) -> Field:
    tag: i64 = i64(data[at])
    at += 1
    if tag == _S or tag == _x or tag == _F or tag == _A:
        start: i64 = at + 4
        end: i64 = start + (i64(read_i32_be(data, at)) & 0xFFFFFFFF)
        if tag == _S:
            return Field("S", _text_or_bytes(data[start:end]))
        if tag == _F:
            return Field("F", _read_table(data, start, end))
        if tag == _A:
            return Field("A", _read_array(data, start, end))
        return Field("x", data[start:end])
    if tag == _t:
        return Field("t", data[at] != 0)
    if tag == _V:
        return Field("V", None)
    if tag == _d:
        return Field("d", read_f64_be(data, at))
    if tag == _f:
        return Field("f", read_f32_be(data, at))
    if tag == _D:
        return Field("D", _read_decimal(data, at))
    return Field(chr(tag), _read_integer(data, at, tag))


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _read_decimal(data: bytes, at: i64) -> Decimal:
    value: int = i64(read_i32_be(data, at + 1)) & 0xFFFFFFFF
    # Through text, because arithmetic would round to the context and lose trailing zeros.
    return Decimal(f"{value}E-{data[at]}")


def _read_integer(data: bytes, at: i64, tag: i64) -> int:
    if tag == _I:
        return i64(read_i32_be(data, at))
    if tag == _l or tag == _L:
        return read_i64_be(data, at)
    if tag == _i:
        return i64(read_i32_be(data, at)) & 0xFFFFFFFF
    if tag == _s:
        return i64(read_i16_be(data, at))
    if tag == _u:
        return i64(read_i16_be(data, at)) & 0xFFFF
    octet: i64 = i64(data[at])
    if tag == _B:
        return octet
    if tag == _b:
        return octet if octet < 128 else octet - 256
    seconds: int = read_i64_be(data, at)
    return seconds if seconds >= 0 else seconds + 0x10000000000000000


# --- to bytes -----------------------------------------------------------------------------------------------------


def encode_table(table: Table) -> bytes:
    """The table with its four bytes of length before it."""
    writer = BytesWriter()
    _write_sized(writer, _table_contents(table, 1))
    return writer.getvalue()


def depth_of(fields: list[Field]) -> int:
    """How deep tables and arrays are nested in these; 0 when there are none."""
    deepest = 0
    for field in fields:
        value = field.value
        if isinstance(value, dict):
            deepest = max(deepest, 1 + depth_of(list(value.values())))
        elif isinstance(value, list):
            deepest = max(deepest, 1 + depth_of(value))
    return deepest


def _table_contents(table: Table, depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise SyntaxRefused(f"field table nested deeper than {DEPTH_MAX}")
    writer = BytesWriter()
    for key, field in table.items():
        write_shortstr(writer, key)
        _write_field(writer, field, depth)
    return writer.getvalue()


def _array_contents(items: list[Field], depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise SyntaxRefused(f"field table nested deeper than {DEPTH_MAX}")
    writer = BytesWriter()
    for field in items:
        _write_field(writer, field, depth)
    return writer.getvalue()


def _write_sized(writer: BytesWriter, contents: bytes) -> None:
    write_u32(writer, len(contents))
    writer.write(contents)


def _write_field(writer: BytesWriter, field: Field, depth: int) -> None:
    tag = field.tag
    value = field.value
    if tag not in TYPE_NAMES:
        raise SyntaxRefused(f"unknown field table type {tag!r}")
    writer.append(ord(tag))
    if tag == "V":
        return
    if isinstance(value, str) and tag == "S":
        _write_sized(writer, encode_text(value))
    elif isinstance(value, bytes) and tag in "Sx":
        _write_sized(writer, value)
    elif isinstance(value, dict) and tag == "F":
        _write_sized(writer, _table_contents(value, depth + 1))
    elif isinstance(value, list) and tag == "A":
        _write_sized(writer, _array_contents(value, depth + 1))
    elif isinstance(value, Decimal) and tag == "D":
        _write_decimal(writer, value)
    elif isinstance(value, float) and tag in "df":
        _write_float(writer, tag, value)
    elif isinstance(value, int) and tag in "tIisubBlLT":
        _write_integer(writer, tag, value)
    else:
        raise SyntaxRefused(f"a field of type {type_name(tag)} cannot hold a {type(value).__name__}")


def _write_decimal(writer: BytesWriter, value: Decimal) -> None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or sign or exponent < -255 or exponent + len(digits) > 10:
        raise SyntaxRefused("number does not fit a field of type decimal")
    scale = max(0, -exponent)
    unscaled = int("".join(map(str, digits))) * 10 ** max(0, exponent)
    if unscaled > 0xFFFFFFFF:
        raise SyntaxRefused("number does not fit a field of type decimal")
    writer.append(scale)
    write_u32(writer, unscaled)


def _write_float(writer: BytesWriter, tag: str, value: float) -> None:
    # A NaN compares false with everything, so it is refused here too.
    if tag == "d" and abs(value) <= _DOUBLE_MAX:
        write_f64_be(writer, value)
    elif tag == "f" and abs(value) <= _FLOAT_MAX:
        write_f32_be(writer, value)
    else:
        raise SyntaxRefused(f"number does not fit a field of type {type_name(tag)}")


def _write_integer(writer: BytesWriter, tag: str, value: int) -> None:
    low, high = _limits(tag)
    if not low <= value <= high:
        raise SyntaxRefused(f"integer too large for a field of type {type_name(tag)}")
    if tag in "tbB":
        writer.append(value & 0xFF)
    elif tag in "su":
        write_u16(writer, value & 0xFFFF)
    elif tag in "Ii":
        write_u32(writer, value & 0xFFFFFFFF)
    else:
        write_i64_be(writer, value if value < 1 << 63 else value - (1 << 64))


def _limits(tag: str) -> tuple[int, int]:
    if tag == "t":
        return 0, 1
    bits = 8 if tag in "bB" else 16 if tag in "su" else 32 if tag in "Ii" else 64
    if tag in "BuiT":
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
