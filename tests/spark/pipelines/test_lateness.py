"""What Spark leaves out because it comes too late: found by Spark's own rule, for every kind of window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_under_test import BrokerUnderTest
from warren.spark import Pipeline
from warren.spark.pipelines.lateness import lateness_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pipeline(sql: str, folder: str = "folder") -> Pipeline:
    made = Pipeline("late", folder=folder, dead_letters={"queue": "dead"})
    made.source("o", stream="s", schema="id BIGINT, at TIMESTAMP", watermark={"column": "at", "delay": "10 seconds"})
    made.view("v", sql)
    return made.sink("q", "v", queue="out")


def until(sql: str, folder: str = "folder") -> str | None:
    definition = pipeline(sql, folder).definition
    found = lateness_of(definition, definition.sinks["q"], definition.sources["o"])
    return None if found is None else found.until


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM o",
        "SELECT count(*) FROM o GROUP BY window(CAST(id AS TIMESTAMP), '1 minute')",
        "SELECT count(*) FROM o GROUP BY window(at, INTERVAL 1 MINUTE)",
        "SELECT row_number() OVER w FROM o WINDOW w AS (ORDER BY at)",
    ],
)
def test_where_no_window_is_laid_over_the_watermark_only_spark_knows(sql: str) -> None:
    assert until(sql) is None


def test_where_executors_cannot_read_the_checkpoint_rows_are_only_counted() -> None:
    sql = "SELECT count(*) FROM o GROUP BY window(at, '1 minute')"
    assert until(sql, "s3a://bucket/p") is not None
    assert until(sql, "viewfs://c/data") is None


@pytest.mark.spark
def test_the_last_window_of_a_row_closes_when_spark_says(spark: SparkSession) -> None:
    moments = "timestamp_micros(1790000000000000 + id * 71000001 - 900000000)"
    spark.range(0, 40, 1, 1).selectExpr("id", f"{moments} AS at").createOrReplaceTempView("o")
    for window in (
        "window(at, '10 minutes')",
        "window(o.at, '1 hour 30 minutes')",
        "window(at, '10 minutes', '4 minutes')",
        "window(`at`, '10 minutes', '5 minutes', '90 seconds')",
        "session_window(at, '30 minutes')",
    ):
        ours = until(f"SELECT count(*) FROM o GROUP BY id, {window}")
        theirs = f"{window.partition('(')[0]}.end"
        rows = spark.sql(f"SELECT id, min({ours}), unix_micros(max({theirs})) FROM o GROUP BY id, {window}").collect()
        closes = {row[0]: max(each[2] for each in rows if each[0] == row[0]) for row in rows}
        assert closes == {row[0]: row[1] for row in rows}, window
        assert len(closes) == 40


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_rows_that_spark_leaves_out_are_dead_letters_of_each_query_that_misses_them(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = node.make()
    letters = f"{stream}.late"

    def run(*minutes: str) -> list[tuple[str, int]]:
        bodies = [json.dumps({"id": 1, "at": f"2026-01-01T10:{each}Z"}).encode() for each in minutes]
        node.publish(stream, bodies)
        made = Pipeline("late", broker=node.uri, folder=tmp_path, dead_letters={"queue": letters})
        watermark = {"column": "at", "delay": "10 seconds"}
        made.source("o", stream=stream, schema="id BIGINT, at TIMESTAMP", watermark=watermark)
        made.view("short", "SELECT window.start AS s, count(*) AS n FROM o GROUP BY window(at, '1 minute')")
        made.view("long", "SELECT window.start AS s, count(*) AS n FROM o GROUP BY window(at, '5 minutes', '1 minute')")
        made.sink("shorts", "short", queue=f"{stream}.short").sink("longs", "long", queue=f"{stream}.long")
        return [(query["name"], query["late"]) for query in made.run(once=True, spark=spark)["queries"]]

    assert run("00:00", "06:00") == [("shorts", 0), ("longs", 0)]
    # The windows of one minute are closed up to 05:50. Of those of five minutes only the last ones are open.
    assert dict(run("04:30", "05:20", "06:30")) == {"shorts": 1, "longs": 1}
    found = [(body, properties.headers) for _, properties, body in node.get_all(letters)]
    assert [json.loads(body)["at"] for body, _ in found] == ["2026-01-01T10:04:30Z"]
    headers = found[0][1]
    assert headers["x-misfit-reason"] == (
        'comes too late for "shorts": its window was closed, the watermark is 2026-01-01T10:05:50Z'
    )
    assert headers["x-deduplication-header"] == f"late/late/shorts/o/{stream}/2"
