"""The path in a real Spark session: the same outcome as its functions give without one, in batch and in a stream."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.spark.path.building import binding, definitions, exchange, queue, send
from tests.spark.path.equality import difference, live_outcome
from tests.spark.path.outcome import Outcome
from tests.spark.path.traffic import MAX_MESSAGE_SIZE, Sent, make_definitions, make_publishes
from tests.spark.path.without_spark import PROPERTIES
from warren.errors import WarrenError
from warren.spark.path import MessagePath
from warren.spark.path.streaming import PathWriter, StreamResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCHEMA = pa.schema(
    [
        ("publisher", pa.string()), ("sequence", pa.int64()), ("published_at", pa.timestamp("us", "UTC")),
        ("exchange", pa.string()), ("routing_key", pa.string()), ("vhost", pa.string()), ("user", pa.string()),
        ("mandatory", pa.bool_()), ("body_size", pa.int64()), ("properties", PROPERTIES), ("headers_raw", pa.binary()),
        ("body", pa.binary()),
    ]
)  # fmt: skip


def write(publishes: list[Sent], file: Path) -> None:
    rows = [sent.row() | {"published_at": sent.at * 1000, "body": sent.body} for sent in publishes]
    pq.write_table(pa.Table.from_pylist([{name: row.get(name) for name in SCHEMA.names} for row in rows], SCHEMA), file)


def outcome_of(result: Any) -> Outcome:
    """A result of Spark's, as the comparison has it."""
    outcome = Outcome()
    for row in result.refusals.collect():
        outcome.refusals[f"{row.publisher}:{row.sequence}"] = (row.code, row.text)
    outcome.returns = sorted(f"{row.publisher}:{row.sequence}" for row in result.returns.collect())
    for row in result.confirms.collect():
        outcome.confirms[f"{row.publisher}:{row.sequence}"] = row.outcome
    for row in result.deliveries.orderBy("position").collect():
        outcome.entered.setdefault((row.vhost, row.queue), []).append(f"{row.publisher}:{row.sequence}")
    for row in result.dead_letters.orderBy("at", "position").collect():
        letters = outcome.dead_lettered.setdefault((row.vhost, row.queue), [])
        letters.append(f"{row.publisher}:{row.sequence} {row.reason}")
    for row in result.queues.orderBy("place").collect():
        deaths = None if row.x_death is None else json.loads(row.x_death)
        outcome.contents.setdefault((row.vhost, row.queue), []).append(
            (f"{row.publisher}:{row.sequence}", row.exchange, row.routing_key, deaths)
        )
    return outcome


def sorted_letters(outcome: Outcome) -> Outcome:
    """Deaths at one moment have no order in a table."""
    outcome.returns.sort()
    for letters in outcome.dead_lettered.values():
        letters.sort()
    return outcome


def test_a_run_is_what_the_live_broker_does(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(5)
    made, publishes = make_definitions(draw), make_publishes(draw, 150)
    write(publishes, tmp_path / "publishes.parquet")
    frame = spark.read.parquet(str(tmp_path / "publishes.parquet")).repartition(3)
    result = MessagePath(made, max_message_size=MAX_MESSAGE_SIZE).run(frame, partitions=2)
    live = live_outcome(made, publishes, publishes[-1].at)
    assert difference(sorted_letters(live), sorted_letters(outcome_of(result))) == ""
    result.unpersist()


@pytest.mark.long
def test_a_stream_that_is_stopped_broken_and_started_again_ends_as_one_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = definitions(
        exchange("e", "topic"), queue("work", x_max_length=4, x_message_ttl=30, x_dead_letter_exchange="",
                                      x_dead_letter_routing_key="dead"),
        queue("dead"), queue("all"), queue("once", x_message_deduplication=True, x_deduplication_header="h"),
        queue("few", x_max_length=3, x_overflow="reject-publish"),
        binding("e", "work", "a.#"), binding("e", "all", "#"), binding("e", "once", "#"), binding("e", "few", "b"),
    )  # fmt: skip
    publishes = [send(at, "e", "b" if at % 5 == 0 else "a.b", after=at * 4, headers={"h": at % 40}) for at in range(60)]
    folder, out = tmp_path / "in", str(tmp_path / "out")
    folder.mkdir()
    path = MessagePath(made)
    schema = (
        "publisher string, sequence bigint, published_at timestamp, exchange string, routing_key string, "
        "headers_raw binary"
    )

    def arrive(*parts: int) -> None:
        for part in parts:
            write(publishes[part * 20 : part * 20 + 20], folder / f"{part}.parquet")

    def run() -> None:
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
        path.stream(source, out, partitions=2).trigger(availableNow=True).start().awaitTermination()

    arrive(0)
    run()
    arrive(1)
    with monkeypatch.context() as broken:
        whole = PathWriter._put

        def put(self: PathWriter, table: Any, name: str, batch_id: int) -> None:
            # The tables are there, the state is not: the worst moment to stop.
            if name.startswith("_state"):
                raise OSError("no space left")
            whole(self, table, name, batch_id)

        broken.setattr(PathWriter, "_put", put)
        with pytest.raises(Exception, match="no space left"):
            run()
    run()
    arrive(2)
    run()
    batch = path.run(spark.read.schema(schema).parquet(str(folder)), partitions=2)
    streamed = StreamResult(spark, out)
    expected = sorted_letters(outcome_of(batch))
    assert difference(expected, sorted_letters(outcome_of(streamed))) == ""
    assert expected.dead_lettered
    assert counts(batch.statistics) == counts(streamed.statistics)
    batch.unpersist()


def counts(statistics: Any) -> dict[tuple[str, ...], int]:
    return {tuple(row[:4]): row[4] for row in statistics.collect()}


def test_rows_that_nobody_could_send_are_refused_with_a_reason(spark: SparkSession) -> None:
    rows = [("", "q", 1, "1"), (None, "q", 2, "2"), ("", None, 3, "3"), ("", "x" * 256, 4, "4"), ("", "q", 5, "five")]
    frame = spark.createDataFrame(rows, "exchange string, routing_key string, sequence bigint, body_size string")
    result = MessagePath(definitions(queue("q"))).run(frame)
    found = {row.sequence: (row.code, row.text, row.scope) for row in result.refusals.collect()}
    assert found == {
        2: (502, "SYNTAX_ERROR - exchange is null", "row"),
        3: (502, "SYNTAX_ERROR - routing_key is null", "row"),
        4: (502, "SYNTAX_ERROR - routing_key is longer than 255 bytes", "row"),
        5: (502, "SYNTAX_ERROR - body_size is no bigint", "row"),
    }
    assert [row.sequence for row in result.queues.collect()] == [1]
    result.unpersist()


def test_what_the_spark_source_and_the_archive_write_fits_as_it_is(spark: SparkSession) -> None:
    frame = (
        spark.createDataFrame(
            [(bytearray(b"12345"), "", "q", "from", 7, None, {"a": "1"})],
            "body binary, exchange string, routing_key string, queue string, offset bigint, timestamp timestamp, "
            "headers map<string,string>",
        )
        .selectExpr("*", "timestamp_millis(1700000000000) as timestamp2")
        .drop("timestamp")
        .withColumnRenamed("timestamp2", "timestamp")
    )
    result = MessagePath(definitions(queue("q"))).run(frame)
    (row,) = result.deliveries.collect()
    assert (row.queue, row.sequence, row.body_size, row.at.timestamp()) == ("q", 7, 5, 1700000000)
    result.unpersist()


def test_a_frame_that_cannot_be_read_is_refused_before_anything_runs(spark: SparkSession) -> None:
    path = MessagePath(definitions(queue("q")))
    with pytest.raises(WarrenError, match="publishes have no column routing_key; they have exchange"):
        path.run(spark.createDataFrame([("e",)], "exchange string"))
    frame = spark.createDataFrame([("", "q", [1])], "exchange string, routing_key string, headers array<int>")
    with pytest.raises(WarrenError, match="column headers is array<int>, must be map<string,string>"):
        path.run(frame)
    with pytest.raises(WarrenError, match="no column when to be ordered by"):
        path.run(frame.drop("headers"), order_by="when")
    strangers = {"vhosts": [{"name": "/"}], "users": [{"name": "joe", "password_hash": "", "tags": ""}]}
    with pytest.raises(WarrenError, match=r"say whose they are with user=\.\.\. \(known are joe\)"):
        MessagePath(strangers).run(frame.drop("headers"))


def test_an_order_column_decides(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("", "q", 1, 30), ("", "q", 2, 10), ("", "q", 3, 20)],
                                  "exchange string, routing_key string, sequence bigint, turn int")  # fmt: skip
    result = MessagePath(definitions(queue("q", x_max_length=2))).run(frame, order_by="turn")
    assert [row.sequence for row in result.queues.orderBy("place").collect()] == [3, 1]
    result.unpersist()


def test_the_command_writes_tables_and_tells_what_would_change(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from warren.cli import route as command

    # The session of the tests serves, and must not be stopped by the command.
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    now = definitions(exchange("e", "topic"), queue("a", x_max_length=1), queue("b"), binding("e", "a", "#"))
    then = definitions(exchange("e", "topic"), queue("a"), queue("b"), binding("e", "b", "x"), binding("e", "a", "y"))
    (tmp_path / "now.json").write_text(json.dumps(now))
    (tmp_path / "then.json").write_text(json.dumps(then))
    write([send(1, "e", "x"), send(2, "e", "y"), send(3, "e", "z", after=1)], tmp_path / "publishes.parquet")
    given = {"definitions": "now.json", "publishes": "publishes.parquet", "out": "out", "what-if": "then.json"}
    arguments = [part for name, file in given.items() for part in (f"--{name}", str(tmp_path / file))]
    arguments += ["--json", "--master", "local[2]"]
    run = CliRunner().invoke(command.route, arguments, catch_exceptions=False)
    told = json.loads(run.stdout.splitlines()[-1])
    assert {key: told[key] for key in ("publishes", "deliveries", "dropped", "ready")} == {
        "publishes": 3, "deliveries": 3, "dropped": 2, "ready": 1,
    }  # fmt: skip
    assert told["differences"]["routes"] == 2
    routes = {
        row.sequence: (row.before, row.after)
        for row in spark.read.parquet(f"{tmp_path}/out/differences/routes").collect()
    }
    assert routes == {1: (["a"], ["b"]), 3: (["a"], [])}
    fates = {
        (row.sequence, row.queue, row.fate, row.side)
        for row in spark.read.parquet(f"{tmp_path}/out/differences/fates").collect()
    }
    assert (2, "a", "ready", "after") in fates
    assert (2, "a", "dropped: maxlen", "before") in fates
    with pytest.raises(WarrenError, match="out is not empty"):
        CliRunner().invoke(command.route, arguments, catch_exceptions=False)
