"""Fields: the typed values of AMQP arguments and headers, in RabbitMQ's dialect; from plain Python, and to it.

A Field keeps the tag it had on the wire, so that what came in goes out byte for byte (tables.py).
"""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from typing import Final, TypeAlias

from warren.amqp.numbers import encode_text
from warren.errors import SyntaxRefused

# A hostile peer nests without end; Python's stack would not.
DEPTH_MAX: Final = 16

TYPE_NAMES: Final = {
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


class Field:
    """One value with its wire type. A long string that is not UTF-8 has `bytes` for a value."""

    def __init__(self, tag: str, value: FieldValue) -> None:
        self.tag = tag
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and self.tag == other.tag and self.value == other.value

    def __repr__(self) -> str:
        return f"Field({self.tag!r}, {self.value!r})"


Table: TypeAlias = dict[str, Field]
FieldValue: TypeAlias = bool | int | float | str | bytes | Decimal | dict[str, Field] | list[Field] | None


def type_name(tag: str) -> str:
    """RabbitMQ's name of a wire type, as its error texts and its management show it."""
    return TYPE_NAMES[tag]


def field_of(value: object) -> Field:
    """The field that a client library would send for a Python value."""
    return _field_of(value, 1)


def table_of(values: dict[str, object]) -> Table:
    return _table_of(values, 1)


def _field_of(value: object, depth: int) -> Field:
    if isinstance(value, Field):
        return value
    if value is None:
        return Field("V", None)
    if isinstance(value, bool):
        return Field("t", value)
    if isinstance(value, str):
        return Field("S", value)
    if isinstance(value, int):
        return _integer_field(value)
    if isinstance(value, float):
        return Field("d", value)
    if isinstance(value, bytes):
        return Field("x", value)
    if isinstance(value, Decimal):
        return Field("D", value)
    if isinstance(value, dict):
        return Field("F", _table_of(value, depth + 1))
    if isinstance(value, list):
        return Field("A", _array_of(value, depth + 1))
    raise SyntaxRefused(f"no field type holds a {type(value).__name__}")


def _integer_field(value: int) -> Field:
    if -(1 << 31) <= value < 1 << 31:
        return Field("I", value)
    if -(1 << 63) <= value < 1 << 63:
        return Field("l", value)
    raise SyntaxRefused("integer too large for a field of type long")


def _table_of(values: dict[str, object], depth: int) -> Table:
    if depth > DEPTH_MAX:
        raise SyntaxRefused(f"field table nested deeper than {DEPTH_MAX}")
    table: Table = {}
    for key, value in values.items():
        table[key] = _field_of(value, depth)
    return table


def _array_of(values: list[object], depth: int) -> list[Field]:
    if depth > DEPTH_MAX:
        raise SyntaxRefused(f"field table nested deeper than {DEPTH_MAX}")
    items: list[Field] = []
    for value in values:
        items.append(_field_of(value, depth))
    return items


def plain(field: Field) -> object:
    """The value as JSON can show it."""
    value = field.value
    if isinstance(value, dict):
        return plain_table(value)
    if isinstance(value, list):
        items: list[object] = []
        for item in value:
            items.append(plain(item))
        return items
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return _safe_text(value)
    return value


def _safe_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        # RabbitMQ's words, with its lines of 76: its tools know how to read them back.
        encoded = b64encode(value).decode()
        lines: list[str] = []
        for at in range(0, len(encoded), 76):
            lines.append(encoded[at : at + 76])
        return "Not UTF-8, base64 is: " + "\n".join(lines)


def plain_table(table: Table) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, field in table.items():
        # A key that is not UTF-8 holds surrogates here, which no JSON encoder may send.
        values[encode_text(key).decode("utf-8", "replace")] = plain(field)
    return values


def plain_body(body: bytes) -> tuple[str, str]:
    """A body as JSON has it, text where it is some, and what RabbitMQ's management calls its encoding."""
    try:
        return body.decode(), "string"
    except UnicodeDecodeError:
        return b64encode(body).decode(), "base64"
