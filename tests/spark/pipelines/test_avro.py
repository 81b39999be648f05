"""Bodies in Avro: schemas as Spark's, and bytes that are records or are told apart from them."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastavro import schemaless_writer

from tests.spark.broker_under_test import BrokerUnderTest
from warren.spark import Pipeline
from warren.spark.pipelines.avro import _record, ddl_of, parsed_schema
from warren.spark.pipelines.schema_text import SchemaError, parse_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"], "default": None},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "extra", "type": {"type": "map", "values": ["null", "double"]}},
        {
            "name": "buyer",
            "type": {"type": "record", "name": "Buyer", "fields": [{"name": "name", "type": "string"}]},
        },
    ],
}


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "state": "PAID",
        "before": "NEW" if number % 2 else None,
        "amount": Decimal("1.25"),
        "at": datetime(2026, 11, 15, 12, tzinfo=UTC),
        "day": date(2026, 11, 15),
        "tags": ["a", "b"],
        "extra": {"x": 0.5, "y": None},
        "buyer": {"name": "Ada"},
    }


def encoded(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parsed_schema(json.dumps(ORDER)), record)
    return out.getvalue()


def test_a_schema_becomes_sparks() -> None:
    ddl = ddl_of(json.dumps(ORDER))
    assert ddl == (
        "`id` BIGINT, `state` STRING, `before` STRING, `amount` DECIMAL(9,2), `at` TIMESTAMP, `day` DATE, "
        "`tags` ARRAY<STRING>, `extra` MAP<STRING, DOUBLE>, `buyer` STRUCT<`name`: STRING>"
    )
    assert len(parse_schema(ddl)) == 9


def field(kind: object) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("long", "is a record"),
        (field({"type": "int", "logicalType": "time-millis"}), 'the logical type "time-millis" has no type in Spark'),
        (field(["null", "R"]), "holds itself"),
        (field(["null"]), "a union is of"),
        ({"type": "record", "name": "R"}, "the record has no fields"),
        ({"type": "record", "name": "R", "fields": [{"name": "x"}]}, "Record field 'x' is missing 'type'"),
        (field({"type": "array"}), 'a type lacks "items"'),
        (field(5), "this is no Avro schema"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_serve_is_refused(schema: object, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        ddl_of(json.dumps(schema))


def test_every_body_is_a_record_or_a_reason() -> None:
    schema, body = parsed_schema(json.dumps(ORDER)), encoded(order(1))
    assert _record(body, schema, "why") == order(1)
    for wrong in (None, b"", b"\xff" * 40, b'{"id": 1}', *(body[:end] for end in range(len(body)))):
        reason = _record(wrong, schema, "why")["why"]
        assert reason.startswith("the body is not Avro of this schema: ")
    assert _record(body + b"xy", schema, "why")["why"].endswith("2 bytes are left behind the record")


@pytest.mark.spark
@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore")
def test_a_pipeline_reads_avro_and_puts_poison_aside(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = node.make()
    node.publish(stream, [encoded(order(number)) for number in range(4)] + [b"poison", b""])
    pipeline = Pipeline("avro", broker=node.uri, folder=tmp_path, dead_letters={"queue": "avro.misfits"})
    pipeline.source("orders", stream=stream, body="avro", schema=ORDER, expect={"small": "id < 3"})
    pipeline.view(
        "flat", "SELECT id, before, amount * 2 AS twice, year(at) AS y, extra['x'] AS x, buyer.name FROM orders"
    )
    pipeline.sink("out", "flat", queue="avro.out")
    assert pipeline.plan().startswith(f"orders  (stream {stream}, Avro)")
    (query,) = pipeline.run(once=True, spark=spark)["queries"]
    assert (query["rows"], query["misfits"]) == (6, 3)
    found = sorted((json.loads(body) for _, _, body in node.get_all("avro.out")), key=lambda row: row["id"])
    assert found == [
        {"id": number, **({"before": "NEW"} if number % 2 else {}), "twice": 2.5, "y": 2026, "x": 0.5, "name": "Ada"}
        for number in range(3)
    ]
    letters = {body: properties.headers["x-misfit-reason"] for _, properties, body in node.get_all("avro.misfits")}
    assert letters[b""] == "the body is not Avro of this schema: it ends too early"
    assert letters[b"poison"].startswith("the body is not Avro of this schema: ")
    assert letters[encoded(order(3))] == 'expectation "small" is not met: id < 3'
