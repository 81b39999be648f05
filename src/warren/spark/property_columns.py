"""Columns of basic properties as Python has them: only those that some row has, and times as the wire has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

# Name of a property, and its value in each row, or None.
PropertyColumn = tuple[str, list[Any]]


def property_columns(names: list[str], columns: list[pa.Array]) -> list[PropertyColumn]:
    """Most of the fourteen are empty in all rows: to look at those row by row is most of the work."""
    pairs = zip(names, columns, strict=True)
    return [(name, _plain(column)) for name, column in pairs if column.null_count < len(column)]


def fields_of(properties: pa.StructArray) -> list[PropertyColumn]:
    return property_columns([field.name for field in properties.type], properties.flatten())


def _plain(values: pa.Array) -> list[Any]:
    listed: list[Any] = in_seconds(values).to_pylist()
    return listed


def in_seconds(values: pa.Array) -> pa.Array:
    """Times; all else stays as it is."""
    if not pa.types.is_timestamp(values.type):
        return values
    return values.cast(pa.timestamp("s", values.type.tz), safe=False).cast(pa.int64())
