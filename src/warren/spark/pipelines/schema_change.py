"""What becomes of a table when the rows that are written to it have other columns than those before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from warren.errors import WarrenError
from warren.spark.folders import Folder
from warren.spark.pipelines.model import SchemaChange
from warren.spark.pipelines.parquet_table import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def schema_of_table(folder: Folder) -> StructType | None:
    """None when no pipeline of ours has written it."""
    from pyspark.sql.types import StructType

    text = folder.read(SCHEMA)
    return None if text is None else StructType.fromJson(json.loads(text))


def widened(known: StructType | None, new: StructType, rule: SchemaChange, table: str) -> StructType:
    """The columns of the table with these rows in it. A column keeps its type, or all files would have to be written
    anew; one that the rows lack is null in them."""
    if known is None:
        return new
    if rule is SchemaChange.FAIL:
        before, after = ({each.name for each in schema.fields} for schema in (known, new))
        if before != after:
            words = [f"{name} is new" for name in sorted(after - before)]
            words += [f"{name} is missing" for name in sorted(before - after)]
            raise WarrenError(f"the columns of {table} have changed: {', '.join(words)}; schema-change: add permits it")
    return _union(known, new, table, "")


def _union(known: StructType, new: StructType, table: str, path: str) -> StructType:
    from pyspark.sql.types import StructField, StructType

    fields = {each.name.lower(): each for each in known.fields}
    for each in new.fields:
        old = fields.get(each.name.lower())
        if old is None:
            fields[each.name.lower()] = StructField(each.name, each.dataType)
        elif isinstance(old.dataType, StructType) and isinstance(each.dataType, StructType):
            inner = _union(old.dataType, each.dataType, table, f"{path}{each.name}.")
            fields[each.name.lower()] = StructField(old.name, inner)
        elif old.dataType.simpleString() != each.dataType.simpleString():
            was, became = old.dataType.simpleString(), each.dataType.simpleString()
            raise WarrenError(
                f"the column {path}{each.name} of {table} is {was} and would become {became}: cast it, name it "
                "differently, or write to another table"
            )
    return StructType(list(fields.values()))
