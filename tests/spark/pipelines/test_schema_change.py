"""Tables whose rows change: columns are added or refused by rule, and never lost or turned into something else."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from warren.errors import WarrenError
from warren.spark.pipelines.model import SchemaChange
from warren.spark.pipelines.schema_change import widened


def columns(**types: str | StructType) -> StructType:
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


def test_the_first_rows_make_the_table() -> None:
    assert widened(None, columns(id="long"), SchemaChange.FAIL, "t") == columns(id="long")


def test_columns_are_added_behind_those_that_are_there_and_none_goes() -> None:
    known = columns(id="long", old="string")
    assert widened(known, columns(new="double", id="long"), SchemaChange.ADD, "t") == columns(
        id="long", old="string", new="double"
    )


def test_fields_of_a_struct_are_added_too() -> None:
    known, new = columns(at=columns(x="long")), columns(at=columns(y="long"))
    assert widened(known, new, SchemaChange.ADD, "t") == columns(at=columns(x="long", y="long"))


def test_a_table_may_refuse_to_change() -> None:
    known = columns(id="long", old="string")
    assert widened(known, known, SchemaChange.FAIL, "t") == known
    told = r"^the columns of t have changed: new is new, old is missing; schema-change: add permits it$"
    with pytest.raises(WarrenError, match=told):
        widened(known, columns(id="long", new="double"), SchemaChange.FAIL, "t")


@pytest.mark.parametrize("rule", SchemaChange)
def test_a_column_never_changes_its_type(rule: SchemaChange) -> None:
    with pytest.raises(WarrenError, match=r"^the column at.x of t is bigint and would become string: cast it"):
        widened(columns(at=columns(x="long")), columns(at=columns(x="string")), rule, "t")
