"""A pipeline at work: what goes out, what is put aside, what is told, and that being killed changes nothing of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pyarrow as pa
import pyarrow.dataset as dataset
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.serving import environment, run_warren
from tests.management.asking import Asking
from tests.spark.broker_under_test import BrokerUnderTest
from warren import Broker
from warren.errors import WarrenError
from warren.spark import Pipeline
from warren.spark.pipelines.model import Definition, Source, SourceKind
from warren.spark.pipelines.read_file import load, loads
from warren.spark.pipelines.runner import run
from warren.spark.pipelines.state import State
from warren.spark.pipelines.tables import _files_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

FILE = """\
pipeline: {name}
broker: {broker}
api: {api}
sources:
  orders:
    stream: {stream}
    schema: id BIGINT NOT NULL, amount DOUBLE
    max-rows: {rows}
views:
  doubled: SELECT id, amount * 2 AS amount FROM orders
sinks:
  publish:
    from: doubled
    queue: {out}
  keep:
    from: orders
    parquet: table
dead-letters:
  queue: {out}.misfits
spark:
  spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


def write_file(folder: Path, served: Broker, stream: str, out: str, rows: int) -> Path:
    file = folder / "pipeline.yaml"
    name = f"p-{stream}"
    file.write_text(FILE.format(name=name, broker=served.url, api=served.http_url, stream=stream, out=out, rows=rows))
    return file


def orders(start: int, end: int) -> list[bytes]:
    return [json.dumps({"id": number, "amount": number / 2}).encode() for number in range(start, end)]


def kept(folder: Path) -> list[int]:
    table = dataset.dataset(folder / "table", format="parquet").to_table(columns=["id"])
    found: list[int] = table.column("id").to_pylist()
    return sorted(found)


def test_it_goes_on_where_it_was_and_tells_how_it_is_doing(
    spark: SparkSession, served: Broker, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream, out = node.make(), "out-of-one"
    file = write_file(tmp_path, served, stream, out, rows=1000)
    node.publish(stream, [*orders(0, 5), b"poison", b'{"amount": 1}', b'{"id": 1, "amount": []}', *orders(5, 10)])
    told: list[dict[str, Any]] = []
    status = run(load(file), once=True, spark=spark, watch=told.append)
    assert status["state"] == "finished"
    assert [(query["name"], query["rows"], query["misfits"], query["lag"]) for query in status["queries"]] == [
        ("publish", 13, 3, 0),
        ("keep", 13, 3, 0),
    ]
    assert told[0]["state"] == "starting"
    assert Asking(served).get(f"/api/pipelines/%2F/p-{stream}").json["state"] == "finished"
    found = {json.loads(body)["id"]: json.loads(body)["amount"] for _, _, body in node.get_all(out)}
    assert found == {number: float(number) for number in range(10)}
    reasons = [properties.headers["x-misfit-reason"] for _, properties, _ in node.get_all(f"{out}.misfits")]
    assert sorted(reasons) == [
        "the body is not JSON: Expecting value: line 1 column 1 (char 0)",
        "the field amount is [], which is no DOUBLE",
        "the field id is missing",
    ]
    node.publish(stream, orders(10, 12))
    assert run(load(file), once=True, spark=spark)["queries"][0]["rows"] == 2
    assert sorted(json.loads(body)["id"] for _, _, body in node.get_all(out)) == [10, 11]
    assert kept(tmp_path) == list(range(12))


@pytest.mark.long
def test_killed_in_the_middle_its_outputs_are_those_of_an_undisturbed_run(
    spark: SparkSession, served: Broker, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream, out = node.make(), "out-of-killed"
    node.declare(out, **{"x-message-deduplication": True, "x-cache-size": 100_000})
    file = write_file(tmp_path, served, stream, out, rows=100)
    count = 600
    node.publish(stream, [*orders(0, count - 1), b"poison"])
    log = (tmp_path / "log").open("w")
    command = [sys.executable, "-m", "warren", "pipeline", "run", "--master", "local[2,4]", str(file)]
    runner = subprocess.Popen(command, stdout=log, stderr=log, env=environment(), start_new_session=True)
    log.close()
    try:
        await_some(runner, tmp_path, node, out)
    finally:
        os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()
    assert 0 < node.count(out) < count - 1
    # What Java and Spark have to say does not get between the lines of a table.
    assert "Spark" not in (tmp_path / "log").read_text()
    assert "Spark" in State(load(file).folder).log_file.read_text()
    state = State(load(file).folder).read()
    assert state is not None
    assert state["state"] == "killed"
    assert run_warren("pipeline", "status", str(file)).returncode == 3
    # The batch that was interrupted is the same again; those after it may be larger.
    run(load(write_file(tmp_path, served, stream, out, rows=count)), once=True, spark=spark)
    assert sorted(json.loads(body)["id"] for _, _, body in node.get_all(out)) == list(range(count - 1))
    assert kept(tmp_path) == list(range(count - 1))
    misfits = {properties.headers["x-deduplication-header"] for _, properties, _ in node.get_all(f"{out}.misfits")}
    assert misfits == {f"misfit/p-{stream}/orders/{stream}/{count - 1}"}


def await_some(runner: subprocess.Popen[bytes], folder: Path, node: BrokerUnderTest, out: str) -> None:
    """Until both queries have put something out."""
    deadline = time.monotonic() + 120
    while not any((folder / "table").glob("*.parquet")) or not node.count(out):
        assert runner.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)


def test_functions_are_steps_too_and_schemas_can_be_inferred(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = node.make()
    node.publish(stream, [b'{"word": "tea", "n": 2}', b'{"word": "mug", "n": 3}', b"poison"])
    pipeline = Pipeline("words", broker=node.uri, folder=tmp_path / "state")
    pipeline.source("words", stream=stream, schema="infer", on_error="drop")

    @pipeline.step("words")
    def repeated(words: DataFrame) -> DataFrame:
        return words.selectExpr("repeat(word, CAST(n AS INT)) AS body")

    pipeline.sink("out", "repeated", queue="words.out")
    (query,) = pipeline.run(once=True, spark=spark)["queries"]
    assert (query["rows"], query["misfits"]) == (3, 1)
    assert sorted(body for _, _, body in node.get_all("words.out")) == [b"mugmugmug", b"teatea"]


def test_clients_publish_to_a_pipeline_and_consume_its_results(
    spark: SparkSession, served: Broker, node: BrokerUnderTest, tmp_path: Path
) -> None:
    pipeline = Pipeline("scores", broker=node.uri, api=served.http_url, folder=tmp_path, dead_letters={"queue": "bad"})
    pipeline.source("requests", x_pipeline="scoring", schema="id BIGINT, text STRING")
    high = "if(length(text) > 3, 'score.high', 'score.low') AS routing_key"
    pipeline.view("scored", f"SELECT id, length(text) AS score, {high} FROM requests")
    pipeline.sink("results", "scored", x_pipeline="scoring")
    with node.channel() as channel:
        channel.exchange_declare("scoring", "x-pipeline", durable=True, arguments={"x-pipeline": "scores"})
        channel.queue_declare("high", durable=True)
        channel.queue_bind("high", "scoring", "score.high")
    requests = [json.dumps({"id": number, "text": "x" * number}).encode() for number in range(6)]
    node.publish("request", requests, exchange="scoring")
    assert node.count("high") == 0
    assert pipeline.run(once=True, spark=spark)["queries"][0]["rows"] == 6
    assert [json.loads(body) for _, _, body in node.get_all("high")] == [
        {"id": 4, "score": 4},
        {"id": 5, "score": 5},
    ]
    shown = Asking(served).get("/api/exchanges/%2F/scoring").json["pipeline"]
    assert shown == {"name": "scores", "state": "finished", "input": "pipeline.scoring"}


KINDS = """\
pipeline: kinds
broker: {broker}
sources:
  notes:
    stream: {stream}
    body: text
    expect: {{short: length(body) < 10}}
  entries:
    files: in/*.json
    schema: id BIGINT, word STRING
  words:
    delta: words
views:
  joined: SELECT entries.id, words.meaning FROM entries JOIN words ON entries.word = words.word
  counted: SELECT meaning, count(*) AS n FROM joined GROUP BY meaning
  twice: SELECT explode(array(body, upper(body))) AS body, headers FROM notes
sinks:
  shown: {{from: counted, console: true, mode: complete}}
  out: {{from: twice, queue: kinds.out}}
dead-letters:
  exchange: kinds.dead
  routing-key: misfit
"""


def test_files_tables_texts_and_the_terminal_are_sources_and_sinks_too(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = node.make()
    node.publish(stream, [b"tea", b"much too long"], pika.BasicProperties(headers={"x-deduplication-header": "of tea"}))
    # What is made of one message is more than one.
    node.declare("kinds.out", **{"x-message-deduplication": True})
    with node.channel() as channel:
        channel.exchange_declare("kinds.dead", "topic", durable=True)
        channel.queue_declare("kinds.misfits", durable=True)
        channel.queue_bind("kinds.misfits", "kinds.dead", "misfit")
    write_deltalake(str(tmp_path / "words"), pa.table({"word": ["tee", "bier"], "meaning": ["tea", "beer"]}))
    (tmp_path / "in").mkdir()
    rows = [{"id": number, "word": "tee" if number else "bier"} for number in range(3)]
    (tmp_path / "in" / "a.json").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "kinds.yaml").write_text(KINDS.format(broker=node.uri, stream=stream))
    status = run(load(tmp_path / "kinds.yaml"), once=True, spark=spark)
    assert status["state"] == "finished"
    assert [body for _, _, body in node.get_all("kinds.out")] == [b"tea", b"TEA"]
    ((_, properties, body),) = node.get_all("kinds.misfits")
    assert (body, properties.headers["x-misfit-reason"]) == (
        b"much too long",
        'expectation "short" is not met: length(body) < 10',
    )
    shown = capsys.readouterr().out
    assert "shown, batch 0" in shown
    assert {"beer    │ 1", "tea     │ 2"} <= {line.strip("│ \n") for line in shown.splitlines()}


MISTAKEN = """\
pipeline: mistaken
broker: {broker}
folder: {folder}
sources: {{notes: {{stream: {stream}}}}}
views:
  wrong: |
    SELECT body,
      amont FROM (SELECT * FROM notes)
  odd: SELECT body, '9' AS priority FROM notes
sinks:
  out: {{from: {view}, queue: mistaken.out}}
"""


def test_a_mistake_that_only_spark_can_find_is_told_in_one_line_with_its_place(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = node.make()
    for view, told in (
        ("wrong", r'^p.yaml:8: view "wrong": \[UNRESOLVED_COLUMN.*`amont`.*'),
        ("odd", r'^p.yaml:11: sink "out": column priority is string and must be int$'),
    ):
        text = MISTAKEN.format(broker=node.uri, folder=tmp_path, stream=stream, view=view)
        with pytest.raises(WarrenError, match=told) as found:
            run(loads(text, "p.yaml", tmp_path), once=True, spark=spark)
        assert "\n" not in str(found.value)
        status = State(tmp_path).read()
        assert status is not None
        assert (status["state"], status["error"]) == ("failed", str(found.value))


def test_a_column_that_is_added_is_there_in_parquet_and_delta_and_one_that_changes_is_refused(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = node.make()

    def run_with(columns: str) -> None:
        pipeline = Pipeline("widened", broker=node.uri, folder=tmp_path / "state", restart={"attempts": 0})
        pipeline.source("orders", stream=stream, schema="id BIGINT, amount DOUBLE", on_error="drop")
        pipeline.view("chosen", f"SELECT {columns} FROM orders")
        pipeline.sink("lake", "chosen", delta=str(tmp_path / "delta"))
        pipeline.sink("files", "chosen", parquet=str(tmp_path / "table"))
        pipeline.run(once=True, spark=spark)

    node.publish(stream, orders(0, 2))
    run_with("id")
    node.publish(stream, orders(2, 4))
    run_with("id, amount")
    expected = [
        {"id": 0, "amount": None},
        {"id": 1, "amount": None},
        {"id": 2, "amount": 1.0},
        {"id": 3, "amount": 1.5},
    ]
    lake = DeltaTable(str(tmp_path / "delta")).to_pyarrow_table().sort_by("id").to_pylist()
    files = frame_at(spark, tmp_path / "table").orderBy("id").collect()
    assert (lake, [row.asDict() for row in files]) == (expected, expected)
    node.publish(stream, orders(4, 5))
    with pytest.raises(
        WarrenError, match=r"the column id of .*(delta|table) is bigint and would become string: cast it"
    ):
        run_with("string(id) AS id")
    run_with("id, amount")
    assert kept(tmp_path) == list(range(5))


def test_changes_keep_a_table_up_to_date_and_a_log_of_them_all(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = node.make()
    pipeline = Pipeline("changes", broker=node.uri, folder=tmp_path / "state", restart={"attempts": 0})
    pipeline.source("changes", stream=stream, schema="id BIGINT, n BIGINT, op STRING, city STRING, at TIMESTAMP",
                    on_error="drop", max_rows=4)  # fmt: skip
    pipeline.view("plain", "SELECT id, n, op, city, at FROM changes")
    pipeline.sink("now", "plain", delta=str(tmp_path / "now"), mode="upsert", keys=["id"], order_by="n",
                  delete_when="op = 'd'")  # fmt: skip
    pipeline.sink("log", "plain", delta=str(tmp_path / "log"), partition_by=["city"])
    steps = [(1, 1, "c", "a b"), (2, 2, "c", "x/y"), (1, 3, "u", "50 %"), (3, 4, "c", None), (2, 6, "d", "x/y"),
             (1, 5, "u", "é"), (3, 2, "u", "stale"), (4, 7, "c", "=")]  # fmt: skip
    bodies = [
        json.dumps({"id": key, "n": n, "op": op, "city": city, "at": f"2026-11-15T12:00:0{n}.25Z"}).encode()
        for key, n, op, city in steps
    ]
    for some in (bodies[:4], bodies[4:]):
        node.publish(stream, some)
        pipeline.run(once=True, spark=spark)
    now = DeltaTable(str(tmp_path / "now")).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["id"], row["n"], row["city"]) for row in now] == [(1, 5, "é"), (3, 4, None), (4, 7, "=")]
    log = DeltaTable(str(tmp_path / "log"))
    rows = log.to_pyarrow_table().to_pylist()
    assert sorted((row["n"], row["id"], row["op"], row["city"] or "") for row in rows) == sorted(
        (n, key, op, city or "") for key, n, op, city in steps
    )
    assert {row["at"].isoformat() for row in rows if row["n"] == 1} == {"2026-11-15T12:00:01.250000+00:00"}
    assert sum(pa.table(log.get_add_actions()).column("num_records").to_pylist()) == 8


def test_any_format_that_spark_has_is_a_source_and_a_sink(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    """ORC, and a database over JDBC: the jars of both come with PySpark."""
    # Where Derby would put its log otherwise is the folder that tests are run in.
    java: Any = spark._jvm
    java.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    stream, out = node.make(), "formats.out"
    node.publish(stream, orders(0, 6))
    database = {"url": "jdbc:derby:memory:formats;create=true", "dbtable": "orders"}
    pipeline = Pipeline("formats", broker=node.uri, folder=tmp_path / "one")
    pipeline.source(
        "orders", stream=stream, schema="id BIGINT, amount DOUBLE", on_error="drop", start=1, min_partitions=3
    )
    pipeline.view("plain", "SELECT id, amount FROM orders")
    pipeline.sink("files", "plain", format="orc", options={"path": str(tmp_path / "orc")})
    pipeline.sink("rows", "plain", format="jdbc", options=database)
    assert pipeline.run(once=True, spark=spark)["rows"] == 10
    back = Pipeline("back", broker=node.uri, folder=tmp_path / "two")
    back.source("files", format="orc", options={"path": str(tmp_path / "orc")}, schema="id BIGINT, amount DOUBLE")
    back.source("rows", format="jdbc", options=database, as_="table")
    back.view("both", "SELECT files.id, rows.amount FROM files JOIN rows ON files.id = rows.id")
    back.sink("out", "both", queue=out)
    assert back.run(once=True, spark=spark)["rows"] == 5
    found = [json.loads(body) for _, _, body in node.get_all(out)]
    assert sorted(found, key=lambda row: row["id"]) == [{"id": n, "amount": n / 2} for n in range(1, 6)]


def frame_at(spark: SparkSession, folder: Path) -> DataFrame:
    """As a pipeline reads it."""
    definition = Definition("reader", folder)
    return _files_frame(spark, definition, Source("rows", SourceKind.PARQUET, str(folder), is_table=True))


def test_partitions_of_a_super_stream_are_one_source(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    with node.channel() as channel:
        channel.exchange_declare("sales", "direct", durable=True, arguments={"x-super-stream": True})
        for number in range(2):
            channel.queue_declare(f"sales-{number}", durable=True, arguments={"x-queue-type": "stream"})
            channel.queue_bind(f"sales-{number}", "sales", str(number), arguments={"x-stream-partition-order": number})
    node.publish("0", orders(0, 3), exchange="sales")
    node.publish("1", orders(3, 5), exchange="sales")
    pipeline = Pipeline("sales", broker=node.uri, folder=tmp_path, dead_letters={"queue": "sales.misfits"})
    pipeline.source("sold", super_stream="sales", schema="id BIGINT, amount DOUBLE")
    pipeline.view("where_from", "SELECT id, envelope.queue FROM sold").sink("out", "where_from", queue="sales.out")
    assert pipeline.run(once=True, spark=spark)["queries"][0]["rows"] == 5
    found = sorted((json.loads(body)["id"], json.loads(body)["queue"]) for _, _, body in node.get_all("sales.out"))
    assert found == [(0, "sales-0"), (1, "sales-0"), (2, "sales-0"), (3, "sales-1"), (4, "sales-1")]


def test_a_queue_of_rabbitmq_is_drained_through_the_spool(
    spark: SparkSession, rabbitmq: BrokerUnderTest, tmp_path: Path
) -> None:
    queue = rabbitmq.make("classic")
    pipeline = Pipeline("spooled", broker=rabbitmq.uri, folder=tmp_path, dead_letters={"queue": "spooled.misfits"})
    pipeline.source("orders", queue=queue, schema="id BIGINT, amount DOUBLE")
    pipeline.view("doubled", "SELECT id * 2 AS id FROM orders").sink("out", "doubled", queue="spooled.out")
    rabbitmq.publish(queue, [*orders(0, 3), b"poison"])
    pipeline.run(once=True, spark=spark)
    assert sorted(json.loads(body)["id"] for _, _, body in rabbitmq.get_all("spooled.out")) == [0, 2, 4]
    assert rabbitmq.count("spooled.misfits") == 1
    assert rabbitmq.count(queue) == 0


def test_a_source_may_want_to_fail_and_then_nothing_is_written_or_tried_again(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = node.make()
    node.publish(stream, [*orders(0, 3), b'{"id": "x"}'])
    pipeline = Pipeline("strict", broker=node.uri, folder=tmp_path)
    pipeline.source("orders", stream=stream, schema="id BIGINT NOT NULL", on_error="fail")
    pipeline.sink("out", "orders", parquet=str(tmp_path / "table"))
    told = (
        rf'query "out" failed: .*source orders: message 3 of {stream}: the body does not fit the schema: {{"id": "x"}}'
    )
    with pytest.raises(WarrenError, match=told) as found:
        pipeline.run(once=True, spark=spark)
    assert "\n" not in str(found.value)
    assert str(found.value).endswith(f"; the trace is in {tmp_path}/spark.log")
    assert "Traceback (most recent call last)" in (tmp_path / "spark.log").read_text()
    status = State(tmp_path).read()
    assert status is not None
    assert status["queries"][0]["restarts"] == 0
    assert not list((tmp_path / "table").glob("*.parquet"))
