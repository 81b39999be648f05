"""Columns of properties and headers become the encoded properties of content headers, row by row.

`properties` is a struct of any of the basic properties, `headers` a map of strings, `headers_raw` a field table as it
is on the wire, which wins where both are given.
"""

from __future__ import annotations

from typing import Any, Final

from warren.amqp.fields import Field, Table
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.tables import decode_table
from warren.errors import AmqpError
from warren.spark.property_columns import fields_of

NO_PROPERTIES: Final = b"\x00\x00"
NUMBERS: Final = ("delivery_mode", "priority")
TIMES: Final = ("timestamp",)
# Beyond headers, these are all that checks and routing look at; hashes may look at the rest.
ROUTING_NAMES: Final = ("expiration", "user_id", "reply_to")
HASHED_NAMES: Final = ("correlation_id", "message_id", "timestamp")


class BadTable(Exception):
    """headers_raw is no field table: what the broker says of it."""

    def __init__(self, error: AmqpError) -> None:
        super().__init__(error.reply_text)
        self.error = error


def encoded_properties(properties: Any, headers: Any, headers_raw: Any, rows: int) -> list[bytes | BadTable] | None:
    """One encoding per row; None when no row has any property. Each argument is an Arrow array or None."""
    fields = [] if properties is None else fields_of(properties)
    tables = _tables(headers, headers_raw, rows)
    if not fields and tables is None:
        return None
    columns = [column for _, column in fields]
    names = [name for name, _ in fields]
    encoded: list[bytes | BadTable] = []
    for at in range(rows):
        table = None if tables is None else tables[at]
        if isinstance(table, BadTable):
            encoded.append(table)
            continue
        values = {name: column[at] for name, column in zip(names, columns, strict=True) if column[at] is not None}
        if not values and table is None:
            encoded.append(NO_PROPERTIES)
        else:
            encoded.append(_encoded(Properties(headers=table, **values)))
    return encoded


def _encoded(properties: Properties) -> bytes | BadTable:
    try:
        return encode_properties(properties)
    except AmqpError as error:
        return BadTable(error)


def _tables(headers: Any, headers_raw: Any, rows: int) -> list[Table | BadTable | None] | None:
    raw = None if headers_raw is None or headers_raw.null_count == rows else headers_raw.to_pylist()
    plain = None if headers is None or headers.null_count == rows else headers.to_pylist()
    if raw is None and plain is None:
        return None
    tables: list[Table | BadTable | None] = []
    for at in range(rows):
        if raw is not None and raw[at] is not None:
            tables.append(_table(raw[at]))
        elif plain is not None and plain[at] is not None:
            tables.append({key: _field(value) for key, value in plain[at]})
        else:
            tables.append(None)
    return tables


def _field(value: str | None) -> Field:
    return Field("V", None) if value is None else Field("S", value)


def _table(raw: bytes) -> Table | BadTable:
    # With the length before it, as encode_table writes it, or without: no table begins with its own length.
    start = 4 if len(raw) >= 4 and int.from_bytes(raw[:4], "big") == len(raw) - 4 else 0
    try:
        return decode_table(raw, start, len(raw))
    except AmqpError as error:
        return BadTable(error)
