"""The columns of a message, as Arrow lays them out."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from warren.spark.schema import COLUMNS, PROPERTIES

ARRIVED_AT: Final = "arrived_at"
# By the names that Spark's SQL has for them.
_TYPES: Final = {
    "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
PROPERTIES_TYPE: Final = pa.struct([(name, _TYPES[kind]) for name, kind in PROPERTIES])
HEADERS_TYPE: Final = pa.map_(pa.string(), pa.string())
_NESTED: Final = {"properties": PROPERTIES_TYPE, "headers": HEADERS_TYPE}
ARROW: Final = pa.schema([(name, _NESTED.get(name) or _TYPES[kind]) for name, kind in COLUMNS])


def struct_of(columns: str) -> pa.StructType:
    """Of columns as Spark's SQL writes them, plain ones: "code int, text string"."""
    pairs = (column.split() for column in columns.split(","))
    return pa.struct([(name, _TYPES[kind]) for name, kind in pairs])


def spark_type(kind: pa.DataType) -> str:
    """How Spark's SQL writes it."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    return next(name for name, known in _TYPES.items() if known == kind)
