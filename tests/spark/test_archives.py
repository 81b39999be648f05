"""Streams whose retention archives: nothing is deleted before its Parquet file is durable, and both read as one table.

A real broker on a real disk; readers are called as Spark's tasks call them. One test goes the whole way through Spark.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.serving import Serving, environment
from tests.management.asking import Asking
from tests.spark.broker_under_test import BrokerUnderTest, numbered
from warren import Broker
from warren.broker.stream.stream import Stream
from warren.errors import WarrenError
from warren.server import life
from warren.spark.archives.files import ArchiveFile, covering, file_name, files_in, first_before
from warren.spark.archives.read import history_and_tail
from warren.spark.archives.write import SCHEMA
from warren.spark.arrow_schema import ARROW
from warren.spark.batch import BatchReader
from warren.spark.consume import DataLoss, Range
from warren.spark.options import read_options
from warren.spark.stream import StreamReader
from warren.store.stream_archive import archive_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 30.0
SMALL = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 20_000, "x-max-length-bytes": 60_000}
ARCHIVED = {**SMALL, "x-archive": True}


def wait_until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        yield broker


def under_test(broker: Broker) -> BrokerUnderTest:
    return BrokerUnderTest(broker.url, is_warren=True)


def first_offset(broker: Broker, name: str = "orders") -> int:
    return broker.call(lambda node: int(stream_of(node, name).log.first_offset))


def stream_of(node: Any, name: str) -> Stream:
    found = node.vhosts["/"].queues[name]
    assert isinstance(found, Stream)
    return found


def publish_until_archived(broker: Broker, name: str = "orders", start: int = 0, count: int = 300) -> None:
    """More than the stream may hold, and then until retention has caught up."""
    with_a_body = [b"%d %s" % (number, b"x" * 500) for number in range(start, start + count)]
    before = first_offset(broker, name)
    under_test(broker).publish(name, with_a_body)
    wait_until(lambda: first_offset(broker, name) > before, "retention took nothing")
    wait_until(lambda: broker.call(lambda node: not archive_wanted(node)), "retention still waits")


def archive_wanted(node: Any) -> object:
    return node.store.streams.archive_wanted


def rows(broker_url: str, name: str = "orders", **options: object) -> list[tuple[int, str]]:
    reader = BatchReader(read_options({"uri": broker_url, "stream": name, **strings(options)}, is_streaming=False))
    return [row for partition in reader.partitions() for row in rows_of(reader.read(partition))]


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for batch in batches:
        assert batch.schema == ARROW
        found += [
            (row["offset"], row["body"].decode().split()[0]) for row in batch.select(["offset", "body"]).to_pylist()
        ]
    return found


def strings(options: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def straight(count: int, start: int = 0) -> list[tuple[int, str]]:
    return [(number, str(number)) for number in range(start, start + count)]


def archive_of(data: Path) -> Path:
    (folder,) = (data / "archive" / "%2F" / "orders").iterdir()
    return folder


def test_history_and_tail_are_one_table(kept: Broker, tmp_path: Path) -> None:
    under_test(kept).declare("orders", **ARCHIVED)
    publish_until_archived(kept)
    files = files_in(str(archive_of(tmp_path / "data")))
    assert files[0].first == 0
    assert files[-1].last + 1 >= first_offset(kept) > 100
    assert rows(kept.url) == straight(300)
    assert rows(kept.url, minPartitions=5) == straight(300)
    assert rows(kept.url, startingOffsets='{"orders": 77}', endingOffsets='{"orders": 290}') == straight(213, 77)
    assert rows(kept.url, archive="none")[0][0] == first_offset(kept)


def test_archived_rows_are_those_that_the_broker_gave(kept: Broker, tmp_path: Path) -> None:
    under_test(kept).declare("orders", **ARCHIVED)
    headers = {"x-stream-filter-value": "emea", "n": 7}
    properties = pika.BasicProperties(
        content_type="text/plain", headers=headers, message_id="m1", timestamp=1_700_000_000, priority=3
    )
    under_test(kept).publish("orders", [b"first"], properties)
    reader = BatchReader(read_options({"uri": kept.url, "stream": "orders"}, is_streaming=False))
    before = next(reader.read(reader.partitions()[0])).slice(0, 1)
    publish_until_archived(kept, start=1, count=299)
    span = Range("orders", 0, 1, archive=str(archive_of(tmp_path / "data")))
    assert next(history_and_tail(span, not_asked, True)).to_pylist() == before.to_pylist()
    stored = pq.read_table(files_in(span.archive)[0].path)
    assert stored.column("stored_at")[0].as_py().timestamp() == pytest.approx(time.time(), abs=120)


def not_asked(span: Range) -> Any:
    raise AssertionError(f"the broker was asked for {span}")


def test_a_query_reads_on_from_the_archive_where_it_was_left(kept: Broker) -> None:
    under_test(kept).declare("orders", **ARCHIVED)
    publish_until_archived(kept)
    options = {"uri": kept.url, "stream": "orders", "startingOffsets": "earliest"}
    reader = StreamReader(read_options(options, is_streaming=True))
    start = reader.initialOffset()
    assert start == {"orders": 0}
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    publish_until_archived(kept, start=300)
    # Planned when the broker had more: what it gave to the archive since then comes from there.
    assert first_offset(kept) > 300 == end["orders"]
    found = [row for partition in reader.partitions(start, end) for row in rows_of(reader.read(partition))]
    assert found == straight(300)
    last = reader.latestOffset(end, reader.getDefaultReadLimit())
    assert [row for part in reader.partitions(end, last) for row in rows_of(reader.read(part))] == straight(300, 300)
    reader.stop()


def test_a_time_is_looked_for_in_the_archive_too(kept: Broker) -> None:
    under_test(kept).declare("orders", **ARCHIVED)
    under_test(kept).publish("orders", [b"%d old" % number for number in range(100)])
    kept.advance(3600)
    publish_until_archived(kept, start=100, count=200)
    middle = int((time.time() + 1800) * 1000)
    assert rows(kept.url, startingTimestamp=middle) == straight(200, 100)
    assert rows(kept.url, startingTimestamp=1000) == straight(300)


def test_a_policy_archives_and_ceases_to(kept: Broker, tmp_path: Path) -> None:
    under_test(kept).declare("orders", **SMALL)
    kept.set_policy("keep", "orders", {"archive": True}, apply_to="streams")
    publish_until_archived(kept)
    assert rows(kept.url) == straight(300)
    kept.set_policy("keep", "orders", {"archive": False}, apply_to="streams")
    files = len(files_in(str(archive_of(tmp_path / "data"))))
    publish_until_archived(kept, start=300)
    assert len(files_in(str(archive_of(tmp_path / "data")))) == files
    assert rows(kept.url)[0][0] == first_offset(kept)


def test_a_stream_that_is_declared_again_has_an_archive_of_its_own(kept: Broker, tmp_path: Path) -> None:
    under_test(kept).declare("orders", **ARCHIVED)
    publish_until_archived(kept)
    with under_test(kept).channel() as channel:
        channel.queue_delete("orders")
    under_test(kept).declare("orders", **ARCHIVED)
    under_test(kept).publish("orders", numbered(3))
    assert rows(kept.url) == straight(3)
    # Nobody asked for the archive to be deleted.
    assert files_in(str(archive_of(tmp_path / "data")))


def test_the_api_says_where_the_archive_is_and_that_all_is_well(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path / "data"), http=True) as broker:
        under_test(broker).declare("orders", **ARCHIVED)
        under_test(broker).declare("others", **SMALL)
        publish_until_archived(broker)
        shown = Asking(broker).get("/api/queues/%2F/orders").json
        assert shown["archive"] == str(archive_of(tmp_path / "data"))
        assert shown["archive_error"] == ""
        assert "archive" not in Asking(broker).get("/api/queues/%2F/others").json


def test_an_archive_that_cannot_be_written_stops_retention_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(life, "ARCHIVE_RETRY_SECONDS", 0.05)
    caplog.set_level(logging.ERROR, "warren")
    in_the_way = tmp_path / "archive"
    in_the_way.write_text("a file where the folder should be")
    with Broker(data_dir=str(tmp_path / "data"), archive_dir=str(in_the_way)) as broker:
        under_test(broker).declare("orders", **ARCHIVED)
        under_test(broker).publish("orders", [b"%d %s" % (number, b"x" * 500) for number in range(300)])
        wait_until(lambda: "cannot be archived, so nothing of it is removed" in caplog.text, "nobody says why")
        assert "Not a directory" in caplog.text
        assert first_offset(broker) == 0
        assert rows(broker.url, archive="none") == straight(300)
        told = broker.call(lambda node: stream_of(node, "orders").log.archive_error)
        assert "Not a directory" in told
        time.sleep(0.2)
        assert caplog.text.count("cannot be archived") == 1
        in_the_way.unlink()
        wait_until(lambda: first_offset(broker) > 100, "it is not tried again")
        wait_until(lambda: not broker.call(archive_wanted), "retention still waits")
        assert broker.call(lambda node: stream_of(node, "orders").log.archive_error) == ""
        assert rows(broker.url) == straight(300)


@pytest.mark.parametrize("point", ["unfinished", "renamed", "archived"])
def test_killed_while_it_archives_a_broker_loses_and_doubles_nothing(point: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-m", "tests.spark.archive_crash", str(data), point]
    killed = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE, env=environment())
    assert killed.returncode == -signal.SIGKILL
    confirmed = int(killed.stdout.split()[-1])
    unfinished = [name for name in os.listdir(archive_of(data)) if name.startswith(".")]
    assert len(unfinished) == (1 if point == "unfinished" else 0)
    assert len(files_in(str(archive_of(data)))) == (3 if point == "unfinished" else 4)
    with Broker(data_dir=str(data)) as broker:
        found = rows(broker.url)
        # One more may have been stored, and its confirm lost on the way.
        assert found == straight(len(found))
        assert len(found) in (confirmed, confirmed + 1)
        publish_until_archived(broker, start=len(found), count=200)
        assert rows(broker.url) == straight(len(found) + 200)
        assert [name for name in os.listdir(archive_of(data)) if name.startswith(".")] == []


def test_a_broker_without_arrow_keeps_everything_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('No module named pyarrow')")
    with Serving(
        tmp_path, "--data-dir", "data", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.pathsep.join(sys.path)}"
    ) as own:
        node = BrokerUnderTest(f"amqp://guest:guest@{own.amqp}/%2F", is_warren=True)
        node.declare("orders", **ARCHIVED)
        node.publish("orders", [b"%d %s" % (number, b"x" * 500) for number in range(200)])
        assert rows(node.uri, archive="none") == straight(200)
        own.stop()
    assert "No module named pyarrow: pip install '.[spark]' in a clone of Warren" in own.errors


def test_a_broker_without_files_refuses_to_archive() -> None:
    with Broker() as broker:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="start it with a data folder"):
            under_test(broker).declare("orders", **ARCHIVED)
        # A policy cannot be refused for one stream: it keeps what it should have archived.
        under_test(broker).declare("orders", **SMALL)
        broker.set_policy("keep", "orders", {"archive": True}, apply_to="streams")
        under_test(broker).publish("orders", [b"%d %s" % (number, b"x" * 500) for number in range(300)])
        assert rows(broker.url) == straight(300)


def test_only_a_stream_is_archived_and_yes_or_no_is_all_there_is_to_say(kept: Broker) -> None:
    for arguments in ({"x-archive": True}, {"x-queue-type": "stream", "x-archive": "/tmp/here"}):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-archive"):
            under_test(kept).declare("wrong", **arguments)


def test_an_archive_on_another_machine_must_be_named(kept: Broker, tmp_path: Path) -> None:
    under_test(kept).declare("orders", **ARCHIVED)
    publish_until_archived(kept)
    shared = tmp_path / "mounted"
    (tmp_path / "data" / "archive").rename(shared)
    with pytest.raises(
        WarrenError, match=r"the archive of 'orders' is not here: its broker writes it to .*archive=none"
    ):
        rows(kept.url)
    assert rows(kept.url, archive=shared) == straight(300)


def history(folder: Path, *spans: tuple[int, int], without: int = -1) -> Range:
    """An archive with one file for each span, and a range that is longer than all of them by one."""
    for first, last in spans:
        offsets = [number for number in range(first, last + 1) if number != without]
        columns = {name: pa.nulls(len(offsets), kind) for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)}
        pq.write_table(pa.table({**columns, "offset": offsets}, SCHEMA), folder / file_name(first, last))
    return Range("orders", spans[0][0], spans[-1][1] + 2, archive=str(folder))


def tail(*places: int) -> Callable[[Range], Any]:
    def read(span: Range) -> Any:
        there = [place for place in places if span.start <= place < span.end]
        columns = {name: pa.nulls(len(there), kind) for name, kind in zip(ARROW.names, ARROW.types, strict=True)}
        if there:
            yield pa.RecordBatch.from_pydict({**columns, "offset": there}, ARROW)

    return read


def offsets(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_files_that_overlap_each_other_and_the_broker_give_each_offset_once(tmp_path: Path) -> None:
    span = history(tmp_path, (0, 4), (3, 9), (5, 9), (10, 19))
    assert offsets(history_and_tail(span, tail(15, 16, 17, 18, 19, 20), True)) == list(range(21))


def test_what_neither_has_is_told_and_passed_over_only_if_asked(tmp_path: Path) -> None:
    span = history(tmp_path, (0, 4), (10, 14))
    with pytest.raises(DataLoss, match="messages 5 to 9 of 'orders' are gone"):
        offsets(history_and_tail(span, tail(15), True))
    assert offsets(history_and_tail(span, tail(15), False)) == [*range(5), *range(10, 16)]
    with pytest.raises(DataLoss, match="messages 15 to 15"):
        offsets(history_and_tail(span, tail(*range(5, 10)), True))


def test_a_hole_in_a_file_is_no_reason_to_loop(tmp_path: Path) -> None:
    for hole in (2, 4):
        span = history(tmp_path, (0, 4), without=hole)
        with pytest.raises(DataLoss, match=f"messages {hole} to {hole}"):
            offsets(history_and_tail(span, tail(5), True))
        assert offsets(history_and_tail(span, tail(5), False)) == [number for number in range(6) if number != hole]


def test_how_far_back_an_archive_goes_ends_at_its_first_gap() -> None:
    files = [ArchiveFile("", first, last) for first, last in ((0, 4), (10, 14), (12, 19), (20, 29))]
    assert [first_before(files, offset) for offset in (30, 25, 20, 10, 31, 5)] == [10, 10, 10, 10, 31, 0]
    assert covering(files, 13) == files[2]
    assert covering(files, 7) is None


def test_names_of_streams_make_folders_and_no_way_out_of_them() -> None:
    assert archive_folder("/", "orders", "abc") == "%2F/orders/abc"
    assert ".." not in archive_folder("..", ".", "").split("/")
    long = archive_folder("/", "\u00e4" * 120, "abc").split("/")[1]
    assert len(long) <= 200
    assert long != archive_folder("/", "\u00e4" * 121, "abc").split("/")[1]


@pytest.mark.spark
@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore")
def test_spark_reads_history_and_tail_as_one_table(spark: SparkSession, kept: Broker, tmp_path: Path) -> None:
    under_test(kept).declare("orders", **ARCHIVED)
    publish_until_archived(kept)
    table = spark.read.format("warren").options(uri=kept.url, stream="orders", minPartitions=2).load()
    assert table.selectExpr("count(*)", "count(distinct offset)", "min(offset)", "max(offset)").first() == (
        300,
        300,
        0,
        299,
    )
    query = (
        spark.readStream.format("warren")
        .options(uri=kept.url, stream="orders", startingOffsets="earliest", maxOffsetsPerTrigger=200)
        .load()
        .select("offset")
        .writeStream.format("memory")
        .queryName("archived")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [progress.numInputRows for progress in query.recentProgress] == [200, 100]
    assert spark.table("archived").selectExpr("count(*)", "count(distinct offset)").first() == (300, 300)
