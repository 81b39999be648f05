"""Schemas in Spark's own words, understood without Spark."""

from __future__ import annotations

import pytest

from warren.spark.pipelines.schema_text import SchemaError, SchemaField, Type, parse_schema


def test_fields_have_names_types_and_may_be_required() -> None:
    assert parse_schema("id BIGINT NOT NULL, `a name` string COMMENT 'x', price decimal(10, 2)") == (
        SchemaField("id", Type("bigint"), is_required=True),
        SchemaField("a name", Type("string")),
        SchemaField("price", Type("decimal")),
    )


def test_types_nest() -> None:
    (found,) = parse_schema("items ARRAY<STRUCT<sku: STRING NOT NULL, sizes: MAP<STRING, INT>>>")
    sizes = Type("map", (Type("string"), Type("int")))
    struct = Type("struct", (), (SchemaField("sku", Type("string"), is_required=True), SchemaField("sizes", sizes)))
    assert found == SchemaField("items", Type("array", (struct,)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id", 'the field "id" has no type'),
        ("id BIGINT,", "a field's name is missing"),
        ("id BIGINT name STRING", 'expected a comma before "name"'),
        ("id NUMBER", 'the field "id" has the unknown type NUMBER; did you mean NUMERIC?'),
        ("id STRNG", 'the field "id" has the unknown type STRNG; did you mean STRING?'),
        ("id INT NOT", 'expected "null" after "NOT", but it ends'),
        ("a MAP<STRING>", 'expected "," between key and value of "MAP", but found ">"'),
        ("a STRUCT<>", 'expected the name of a field, but found ">"'),
        ("a INT, A STRING", 'the field "a" is there twice'),
        ("a INT; b INT", 'cannot read "; b INT"'),
        ("price DECIMAL(10", 'expected ")" after the numbers of DECIMAL, but it ends'),
    ],
)
def test_a_wrong_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as found:
        parse_schema(text)
    assert str(found.value) == reason
