"""The columns of a message, as Arrow lays them out."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from warren.spark.schema import PROPERTIES

ARRIVED_AT: Final = "arrived_at"
_ARROW_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
PROPERTIES_TYPE: Final = pa.struct([pa.field(name, _ARROW_TYPES[kind]) for name, kind in PROPERTIES])
HEADERS_TYPE: Final = pa.map_(pa.string(), pa.string())
ARROW: Final = pa.schema(
    [
        ("body", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("queue", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("redelivered", pa.bool_()),
        ("properties", PROPERTIES_TYPE),
        ("headers", HEADERS_TYPE),
        ("headers_raw", pa.binary()),
        (ARRIVED_AT, pa.timestamp("us", tz="UTC")),
    ]
)
