"""Every pipeline of examples/pipelines does what its first lines say: real Spark, a real broker, real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from tests.spark.broker_under_test import BrokerUnderTest
from warren.spark.pipelines.model import Definition
from warren.spark.pipelines.read_file import load
from warren.spark.pipelines.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"


def example(name: str, node: BrokerUnderTest, folder: Path, **variables: str) -> Definition:
    places = {"STATE": str(folder / "state"), "TABLE": str(folder / "table"), "WARREN_AMQP_URL": node.uri}
    return load(EXAMPLES / f"{name}.yaml", {**places, **variables})


def listen(node: BrokerUnderTest, exchange: str, key: str = "#") -> str:
    """A queue of somebody who is interested."""
    queue = f"heard-{exchange}-{key}"
    with node.channel() as channel:
        channel.exchange_declare(exchange, "topic", durable=True)
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange, key)
    return queue


def heard(node: BrokerUnderTest, queue: str) -> list[tuple[str, Any]]:
    return [(method.routing_key, json.loads(body)) for method, _, body in node.get_all(queue)]


def table(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dataset.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
    return found


def test_dead_letters_are_kept_and_counted(spark: SparkSession, node: BrokerUnderTest, tmp_path: Path) -> None:
    definition = example("dead-letters", node, tmp_path)
    counts = listen(node, "dead-letter-counts")
    with node.channel() as channel:
        channel.exchange_declare("dlx", "topic", durable=True)
        # The input stream is there from the first run on; letters that died before are not seen.
        channel.queue_declare("pipeline.dead-letters.letters", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind("pipeline.dead-letters.letters", "dlx", "#")
        channel.queue_declare("billing", durable=True, arguments={"x-dead-letter-exchange": "dlx"})
        channel.queue_declare("mail", durable=True, arguments={"x-dead-letter-exchange": "dlx", "x-message-ttl": 0})
        for number in range(3):
            channel.basic_publish("", "billing", f"bill {number}".encode())
            method, _, _ = channel.basic_get("billing")
            channel.basic_nack(method.delivery_tag, requeue=False)
        channel.basic_publish("", "mail", b"too late")
    run(definition, once=True, spark=spark)
    assert sorted(heard(node, counts), key=str) == [
        ("billing.rejected", {"queue": "billing", "reason": "rejected", "letters": 3}),
        ("mail.expired", {"queue": "mail", "reason": "expired", "letters": 1}),
    ]
    kept = sorted((row["queue"], row["reason"], row["times"], row["text"]) for row in table(tmp_path / "table"))
    assert kept == [("billing", "rejected", 1, f"bill {n}") for n in range(3)] + [("mail", "expired", 1, "too late")]


def test_changes_of_several_tables_become_one_log(spark: SparkSession, node: BrokerUnderTest, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    definition = example("cdc", node, tmp_path)
    states = listen(node, "states")
    for name in ("cdc.customers", "cdc.orders"):
        node.declare(name, **{"x-queue-type": "stream"})
    created = {"op": "c", "ts_ms": 1_790_000_000_000, "after": {"id": 1, "name": "Ann"}}
    deleted = {"op": "d", "ts_ms": 1_790_000_001_000, "before": {"id": 1, "name": "Ann"}}
    placed = {"op": "c", "ts_ms": 1_790_000_002_000, "after": {"id": 9, "state": "placed"}}
    node.publish("cdc.customers", [json.dumps(created).encode(), b"{}", json.dumps(deleted).encode()])
    node.publish("cdc.orders", [json.dumps(placed).encode()])
    run(definition, once=True, spark=spark)
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert sorted((row["entity"], row["op"], row["id"], row["after"]) for row in rows) == [
        ("customers", "c", 1, '{"id":1,"name":"Ann"}'),
        ("customers", "d", 1, None),
        ("orders", "c", 9, '{"id":9,"state":"placed"}'),
    ]
    assert sorted(key for key, _ in heard(node, states)) == ["customers.1", "customers.1", "orders.9"]
    assert node.count("cdc.misfits") == 1


def test_clicks_become_visits(spark: SparkSession, node: BrokerUnderTest, tmp_path: Path) -> None:
    definition = example("sessions", node, tmp_path)
    visits = listen(node, "visits")
    node.declare("clicks", **{"x-queue-type": "stream"})
    clicks = [("ann", "/", "10:00"), ("bob", "/", "10:05"), ("ann", "/tea", "10:20"), ("ann", "/buy", "10:40")]
    later = [("ann", "/", "12:00"), ("eve", "/", "15:00")]
    bodies = [
        json.dumps({"user": user, "page": page, "at": f"2026-11-15T{at}:00Z"}).encode()
        for user, page, at in clicks + later
    ]
    node.publish("clicks", [*bodies, b"a click"])
    run(definition, once=True, spark=spark)
    found = sorted(
        (row["user"], row["began"][11:16], row["ended"][11:16], row["clicks"], row["first_page"], row["last_page"])
        for key, row in heard(node, visits)
        if key == "visit.ended"
    )
    # Eve may still come back.
    assert found == [
        ("ann", "10:00", "11:10", 3, "/", "/buy"),
        ("ann", "12:00", "12:30", 1, "/", "/"),
        ("bob", "10:05", "10:35", 1, "/", "/"),
    ]
    (misfit,) = table(tmp_path / "table")
    assert misfit["reason"] == "the body is not JSON: Expecting value: line 1 column 1 (char 0)"
    assert misfit["body"] == b"a click"
    # Ann's first visit is over and told; a click that comes only now is left out, counted, and kept with the misfits.
    node.publish("clicks", [json.dumps({"user": "ann", "page": "/", "at": "2026-11-15T10:01:00Z"}).encode()])
    (query,) = run(definition, once=True, spark=spark)["queries"]
    assert (query["rows"], query["late"]) == (1, 1)
    (late,) = [row for row in table(tmp_path / "table") if row["body"] != b"a click"]
    assert late["reason"] == (
        'comes too late for "visits": its window was closed, the watermark is 2026-11-15T14:50:00Z'
    )


def test_what_is_over_its_limit_is_told_by_severity(spark: SparkSession, node: BrokerUnderTest, tmp_path: Path) -> None:
    (tmp_path / "limits").mkdir()
    limits = pa.table({"sensor": ["oven", "fridge"], "warning": [200.0, 8.0], "critical": [250.0, 12.0]})
    parquet.write_table(limits, tmp_path / "limits" / "limits.parquet")
    definition = example("alerts", node, tmp_path, LIMITS=str(tmp_path / "limits"))
    critical, everything = listen(node, "alerts", "critical.#"), listen(node, "alerts")
    node.declare("readings")
    readings = [("oven", 180.0), ("oven", 210.0), ("fridge", 30.0), ("fridge", -500.0), ("door", 99.0)]
    node.publish("readings", [json.dumps({"sensor": name, "value": value}).encode() for name, value in readings])
    run(definition, once=True, spark=spark)
    assert [key for key, _ in heard(node, critical)] == ["critical.fridge"]
    assert sorted(key for key, _ in heard(node, everything)) == ["critical.fridge", "warning.oven"]
    ((_, properties, body),) = node.get_all("readings.misfits")
    assert json.loads(body) == {"sensor": "fridge", "value": -500.0}
    assert properties.headers["x-misfit-reason"] == (
        'expectation "possible" is not met: value BETWEEN -273.15 AND 10000'
    )
    assert node.count("readings") == 0


def test_history_comes_back_from_the_archive_as_it_was(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    from warren.spark.jobs.archive import Archive
    from warren.spark.pipelines.model import SourceKind

    stream = node.make()
    with node.channel() as channel:
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_bind(stream, "shop", "#")
        for number in range(4):
            properties = pika.BasicProperties(message_id=str(number), headers={"n": number}, delivery_mode=2)
            channel.basic_publish("shop", "order.placed" if number % 2 else "basket", b"%d" % number, properties)
    Archive(SourceKind.STREAM, stream, tmp_path / "table", node.uri).run(spark)
    history = listen(node, "history")
    run(example("backfill", node, tmp_path), once=True, spark=spark)
    found = sorted(node.get_all(history), key=lambda each: bytes(each[2]))
    assert [(method.routing_key, properties.message_id, body) for method, properties, body in found] == [
        ("order.placed", "1", b"1"),
        ("order.placed", "3", b"3"),
    ]
    assert [properties.headers["x-backfill"] for _, properties, _ in found] == ["1", "3"]
