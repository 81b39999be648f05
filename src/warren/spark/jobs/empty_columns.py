"""Which columns of a table of messages hold anything at all, so that the rest stays in Java.

Of fourteen properties a message has three or four. To hand the empty ones to Python, row by row, takes longer than all
else that is done with a message on its way back to a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PROPERTIES: Final = "properties"
_HEADERS: Final = ("headers", "headers_raw")
# A message that was read keeps its mode, also none: whether the column is there says that it was read.
_KEPT: Final = "delivery_mode"


def filled_columns(table: DataFrame) -> frozenset[str]:
    """Of headers, by name, and of properties, as `properties.name`: those that some row has."""
    from pyspark.sql import functions as f

    names = [
        *(name for name in _HEADERS if name in table.columns),
        *(f"{_PROPERTIES}.{name}" for name in _fields(table)),
    ]
    if not names:
        return frozenset()
    # By place: Spark takes a dot in a name apart.
    counts = table.agg(*(f.count(name) for name in names)).first()
    assert counts is not None
    return frozenset(name for name, count in zip(names, counts, strict=True) if count)


def without_empty(rows: DataFrame, filled: frozenset[str]) -> DataFrame:
    """The same messages."""
    from pyspark.sql import functions as f

    slim = rows.drop(*(name for name in _HEADERS if name not in filled))
    fields = _fields(rows)
    kept = [name for name in fields if name == _KEPT or f"{_PROPERTIES}.{name}" in filled] or fields[:1]
    if kept == fields:
        return slim
    properties = f.col(_PROPERTIES)
    struct = f.struct(*(properties[name].alias(name) for name in kept))
    return slim.withColumn(_PROPERTIES, f.when(properties.isNotNull(), struct))


def _fields(rows: DataFrame) -> list[str]:
    from pyspark.sql.types import StructType

    kind = rows.schema[_PROPERTIES].dataType if _PROPERTIES in rows.columns else None
    return list(kind.names) if isinstance(kind, StructType) else []
