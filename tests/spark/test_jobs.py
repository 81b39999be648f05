"""Archive, replay and redrive: every message once, as it was, and resumable."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.cli.serving import run_warren
from tests.spark.broker_under_test import BrokerUnderTest
from warren.errors import WarrenError
from warren.spark.jobs.archive import Archive
from warren.spark.jobs.empty_columns import filled_columns, without_empty
from warren.spark.jobs.job import Progress
from warren.spark.jobs.redrive import Redrive
from warren.spark.jobs.replay import Replay, paced
from warren.spark.pipelines.model import SinkKind, SourceKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 300


def fill(node: BrokerUnderTest, stream: str, start: int, end: int) -> None:
    with node.channel() as channel:
        channel.confirm_delivery()
        for number in range(start, end):
            properties = pika.BasicProperties(
                message_id=str(number),
                priority=number % 5,
                timestamp=1_790_000_000 + number * 1000,
                headers={"key": number % 7, "nested": {"list": [number, "x"]}},
            )
            channel.basic_publish("", stream, b"%d" % number, properties)


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_what_was_archived_and_replayed_is_what_was_published(
    spark: SparkSession, warren: BrokerUnderTest, tmp_path: Path
) -> None:
    stream = warren.make()
    fill(warren, stream, 0, COUNT)
    archive = Archive(SourceKind.STREAM, stream, tmp_path / "table", warren.uri, rows=100)
    assert archive.run(spark).messages == COUNT
    fill(warren, stream, COUNT, COUNT + 20)
    assert archive.run(spark).messages == 20
    assert archive.run(spark).messages == 0
    table = dataset.dataset(tmp_path / "table", format="parquet", partitioning="hive").to_table()
    assert sorted(table.column("offset").to_pylist()) == list(range(COUNT + 20))
    assert len(set(table.column("day").to_pylist())) == 5
    with pytest.raises(WarrenError, match=r"is the archive of stream .*; give stream other a folder of its own"):
        Archive(SourceKind.STREAM, "other", tmp_path / "table", warren.uri).run(spark)

    out = warren.make("classic")
    seen: list[Progress] = []
    job = Replay(tmp_path / "state", tmp_path / "table", broker=warren.uri, exchange="", routing_key=out,
                 where="offset >= 20", key="day", chunk_rows=100)  # fmt: skip
    summary = job.run(spark, watch=seen.append)
    assert (summary.messages, seen[-1]) == (COUNT, Progress(COUNT, COUNT))
    found = warren.get_all(out)
    assert sorted(int(body) for _, _, body in found) == list(range(20, COUNT + 20))
    days: dict[int, list[int]] = defaultdict(list)
    for _, properties, body in found:
        number = int(body)
        days[properties.timestamp // 86400].append(number)
        assert (properties.message_id, properties.priority) == (str(number), number % 5)
        assert properties.headers["key"] == number % 7
        assert properties.headers["nested"] == {"list": [number, "x"]}
    assert all(numbers == sorted(numbers) for numbers in days.values())
    with pytest.raises(WarrenError, match="this replay is complete"):
        job.run(spark)
    # As if it had been killed when two of its chunks were noted.
    notes = json.loads((tmp_path / "state" / "replay.json").read_text())
    notes.update(done=2, published=200)
    (tmp_path / "state" / "replay.json").write_text(json.dumps(notes))
    again = job.run(spark)
    ids = {properties.headers["x-deduplication-header"] for _, properties, _ in found}
    repeated = {properties.headers["x-deduplication-header"] for _, properties, _ in warren.get_all(out)}
    assert len(repeated) == again.messages
    assert repeated < ids


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_what_no_row_has_stays_in_java_and_what_one_row_has_is_replayed(
    spark: SparkSession, warren: BrokerUnderTest, tmp_path: Path
) -> None:
    texts = pa.map_(pa.string(), pa.string())
    names = ("app_id", "message_id", "type")
    kind = pa.struct([*((name, pa.string()) for name in names), ("delivery_mode", pa.int32())])
    properties = [{"message_id": str(number), "app_id": "one" if number == 7 else None} for number in range(20)]
    columns = {
        "body": pa.array([b"%d" % number for number in range(20)]),
        "routing_key": pa.array(["k"] * 20),
        "offset": pa.array(range(20)),
        # The last has none at all, and gets a mode.
        "properties": pa.array([*properties[:-1], None], kind),
        "headers": pa.nulls(20, texts),
        "headers_raw": pa.nulls(20, pa.binary()),
    }
    (tmp_path / "table").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "table" / "part.parquet")
    table = spark.read.parquet(str(tmp_path / "table"))
    carried = without_empty(table, filled_columns(table))
    assert carried.columns == ["body", "routing_key", "offset", "properties"]
    assert carried.schema["properties"].dataType.names == ["app_id", "message_id", "delivery_mode"]  # type: ignore[attr-defined]

    out = warren.make("classic")
    replay = Replay(
        tmp_path / "state", tmp_path / "table", broker=warren.uri, exchange="", routing_key=out, adds_id=False,
        # A column that is not carried can be asked about.
        where="headers IS NULL AND properties.type IS NULL",
    )  # fmt: skip
    assert replay.run(spark).messages == 20
    found = {int(body): properties for _, properties, body in warren.get_all(out)}
    assert [number for number, each in found.items() if each.app_id is not None] == [7]
    assert [found[number].message_id for number in range(20)] == [*map(str, range(19)), None]
    assert [number for number, each in found.items() if each.delivery_mode is not None] == [19]
    assert all(each.headers is None and each.type is None for each in found.values())


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_a_queue_is_emptied_into_its_archive(spark: SparkSession, broker: BrokerUnderTest, tmp_path: Path) -> None:
    queue = broker.make("classic")
    archive = Archive(SourceKind.QUEUE, queue, tmp_path / "table", broker.uri, partition_by=())
    fill(broker, queue, 0, 25)
    assert archive.run(spark).messages == 25
    assert broker.count(queue) == 0
    table = dataset.dataset(tmp_path / "table", format="parquet").to_table()
    found = [(int(row["body"]), row["properties"]["message_id"]) for row in table.to_pylist()]
    assert sorted(found) == [(number, str(number)) for number in range(25)]


def die(node: BrokerUnderTest, count: int) -> tuple[str, str]:
    """A queue, and the queue where its rejected messages are."""
    dead = node.make("classic")
    work = node.make("classic", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    with node.channel() as channel:
        channel.confirm_delivery()
        for number in range(count):
            channel.basic_publish("", work, b"%d" % number, pika.BasicProperties(headers={"n": number}, app_id="test"))
            method, _, _ = channel.basic_get(work)
            channel.basic_nack(method.delivery_tag, requeue=False)
        # The answer to this comes after the letters have been moved.
        channel.queue_declare(work, passive=True)
    return work, dead


def test_dead_letters_go_back_to_where_they_died_with_a_note(warren: BrokerUnderTest) -> None:
    work, dead = die(warren, 5)
    summary = Redrive(dead, warren.uri).run()
    assert summary.as_data()["targets"] == {work: 5}
    found = warren.get_all(work)
    assert [body for _, _, body in found] == [b"0", b"1", b"2", b"3", b"4"]
    properties = found[0][1]
    assert properties.app_id == "test"
    assert json.loads(properties.headers["x-redrive"])["from"] == dead
    assert properties.headers["x-redrive-count"] == "1"
    assert properties.headers["x-death"][0]["queue"] == work
    assert warren.count(dead) == 0


def test_letters_that_died_twice_go_back_to_where_they_died_first(warren: BrokerUnderTest) -> None:
    """As the management API does it."""
    last = warren.make("classic")
    between = warren.make("classic", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": last})
    first = warren.make("classic", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": between})
    warren.publish(first, [b"m"])
    with warren.channel() as channel:
        for queue in (first, between):
            method = None
            while method is None:
                method, _, _ = channel.basic_get(queue)
            channel.basic_nack(method.delivery_tag, requeue=False)
        channel.queue_declare(first, passive=True)
    assert Redrive(last, warren.uri).run().as_data()["targets"] == {first: 1}


def test_a_dry_run_moves_nothing(warren: BrokerUnderTest) -> None:
    work, dead = die(warren, 3)
    summary = Redrive(dead, warren.uri, is_dry=True).run()
    assert summary.text == f"3 dead letters of {dead} would go back: {work} (3)"
    assert (warren.count(work), warren.count(dead)) == (0, 3)


def test_letters_that_cannot_go_back_stay_and_are_told(warren: BrokerUnderTest) -> None:
    work, dead = die(warren, 2)
    warren.publish(dead, [b"a stranger"])
    with warren.channel() as channel:
        channel.queue_delete(work)
    summary = Redrive(dead, warren.uri).run()
    assert summary.messages == 0
    assert summary.as_data()["left"] == {f"its queue is gone: {work}": 2, "no x-death header": 1}
    assert warren.count(dead) == 3


def test_a_limit_is_kept_and_another_target_can_be_named(warren: BrokerUnderTest) -> None:
    _, dead = die(warren, 4)
    other = warren.make("classic")
    assert Redrive(dead, warren.uri, to=other, limit=3).run().messages == 3
    assert (warren.count(other), warren.count(dead)) == (3, 1)


@pytest.mark.spark
def test_only_letters_that_the_filter_chooses_go_back(spark: SparkSession, warren: BrokerUnderTest) -> None:
    work, dead = die(warren, 6)
    where = "CAST(headers['n'] AS INT) % 2 = 1 AND CAST(body AS STRING) <> '5'"
    assert Redrive(dead, warren.uri, where=where).run(spark).messages == 2
    assert sorted(body for _, _, body in warren.get_all(work)) == [b"1", b"3"]
    assert sorted(body for _, _, body in warren.get_all(dead)) == [b"0", b"2", b"4", b"5"]


def test_the_command_redrives_and_sums_up_as_json(warren: BrokerUnderTest) -> None:
    work, dead = die(warren, 2)
    run = run_warren("redrive", dead, "--json", "--uri", warren.uri)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["targets"] == {work: 2}
    run = run_warren("redrive", dead, "--uri", warren.uri)
    assert run.stdout.startswith(f"0 dead letters of {dead} went back")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["redrive", "nowhere"], "cannot read nowhere: NOT_FOUND - no queue 'nowhere' in vhost '/'"),
        (["archive", "--to", "t"], "name what to archive with one of --queue, --stream and --super-stream"),
        (["archive", "--to", "t", "--queue", "q", "--stream", "s"], "name what to archive with one of --queue"),
        (["archive", "--to", "t", "--queue", "q", "--partition-by", "moon"], "cannot partition by moon; there are day"),
        (["replay"], "name what to replay with one of --from and --stream"),
        (["replay", "--from", "nowhere"], "nowhere is no folder: name a table that `warren archive` or somebody"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    warren: BrokerUnderTest, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    run = run_warren(*arguments, "--uri", warren.uri, cwd=tmp_path)
    assert run.returncode == 1
    assert reason in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_the_size_of_a_delta_archive_is_what_its_log_names(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "table"), pa.table({"n": [1, 2]}))
    (tmp_path / "table" / "stray.parquet").write_bytes(b"of an attempt that was killed")
    archive = Archive(SourceKind.STREAM, "s", tmp_path / "table", format=SinkKind.DELTA)
    files, size = archive._size(None)
    assert (files, size) == (1, sum(file.stat().st_size for file in (tmp_path / "table").glob("part*.parquet")))


def test_a_rate_is_kept_in_small_steps() -> None:
    batch = pa.RecordBatch.from_pydict({"n": list(range(100))})
    pieces = list(paced(iter([batch, batch]), 1000))
    assert [piece.num_rows for piece in pieces] == [50, 50, 50, 50]
