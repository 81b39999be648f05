"""Reading classic queues, by calling the reader as Spark would: on Warren by sequence, on RabbitMQ through a spool."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.spark.broker_under_test import BrokerUnderTest, numbered
from tests.spark.test_streams import bodies, rows_of
from warren.errors import WarrenError
from warren.spark.consume import DataLoss
from warren.spark.options import read_options
from warren.spark.queue import Offset, QueueReader

Start = Callable[..., QueueReader]
ALL = ReadAllAvailable()


@pytest.fixture
def start(broker: BrokerUnderTest, tmp_path: Path) -> Iterator[Start]:
    """Readers as planners have them. An earlier one is ended by the next, as by a crash: without a word."""
    running: list[QueueReader] = []

    def crash() -> None:
        for reader in running:
            client = getattr(getattr(reader._planner, "_inbox", None), "client", None)
            if client is not None:
                client.abandon()
            if reader._spool is not None:
                reader._spool.close()
        running.clear()

    def start_one(queue: str, **options: str) -> QueueReader:
        crash()
        given = {"uri": broker.uri, "queue": queue, "timeout": "10", **options}
        if not broker.is_warren:
            given.setdefault("spoolDir", str(tmp_path / "spool"))
        running.append(QueueReader(read_options(given, is_streaming=True)))
        return running[-1]

    yield start_one
    crash()


def read(reader: QueueReader, begin: Offset, end: Offset) -> list[object]:
    copy: QueueReader = pickle.loads(pickle.dumps(reader))
    return [body for partition in reader.partitions(begin, end) for body in bodies(rows_of(copy.read(partition)))]


def test_a_batch_can_be_read_again_until_it_is_committed(broker: BrokerUnderTest, start: Start) -> None:
    queue = broker.make("classic")
    broker.publish(queue, numbered(300))
    reader = start(queue)
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ALL)
    assert read(reader, begin, end) == numbered(300)
    assert read(reader, begin, end) == numbered(300)
    again = start(queue)
    assert read(again, begin, end) == numbered(300)


def test_what_is_committed_is_gone_the_last_batch_included(broker: BrokerUnderTest, start: Start) -> None:
    queue = broker.make("classic")
    broker.publish(queue, numbered(10))
    reader = start(queue)
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ALL)
    # Spark asks what there is after each batch, and commits it only when there is a next one.
    assert reader.latestOffset(first, ALL) == first
    broker.publish(queue, numbered(5, 10))
    second = reader.latestOffset(first, ALL)
    assert read(reader, first, second) == numbered(5, 10)
    assert start(queue).latestOffset(second, ALL) == second
    assert broker.count(queue) == 0


def test_commit_settles(broker: BrokerUnderTest, start: Start) -> None:
    queue = broker.make("classic")
    broker.publish(queue, numbered(10))
    reader = start(queue, maxOffsetsPerTrigger="4")
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadMaxRows(4))
    second = reader.latestOffset(first, ReadMaxRows(4))
    assert read(reader, first, second) == numbered(4, 4)
    reader.commit(first)
    reader.commit(second)
    third = reader.latestOffset(second, ReadMaxRows(4))
    assert read(reader, second, third) == numbered(2, 8)
    reader.commit(third)
    start(queue).latestOffset(third, ALL)
    assert broker.count(queue) == 0


def test_a_query_goes_on_where_its_checkpoint_stands(broker: BrokerUnderTest, start: Start) -> None:
    queue = broker.make("classic")
    broker.publish(queue, numbered(20))
    reader = start(queue, maxOffsetsPerTrigger="15")
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadMaxRows(15))
    assert read(reader, begin, first) == numbered(15)
    again = start(queue)
    second = again.latestOffset(first, ALL)
    assert read(again, first, second) == numbered(5, 15)


def test_a_queue_with_priorities_is_read_like_any_other(broker: BrokerUnderTest, start: Start) -> None:
    queue = broker.make("classic", **{"x-max-priority": 5})
    for number in range(30):
        broker.publish(queue, [b"%d" % number], pika.BasicProperties(priority=number % 7))
    reader = start(queue, maxOffsetsPerTrigger="20")
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadMaxRows(20))
    found = read(reader, begin, first)
    assert read(reader, begin, first) == found
    assert len(found) == 20
    second = reader.latestOffset(first, ReadMaxRows(20))
    found += read(reader, first, second)
    assert set(found) == set(numbered(30))
    start(queue).latestOffset(second, ALL)
    assert broker.count(queue) == 0


def test_an_empty_queue_has_no_batch(broker: BrokerUnderTest, start: Start) -> None:
    reader = start(broker.make("classic"))
    begin = reader.initialOffset()
    assert reader.latestOffset(begin, ALL) == begin
    assert list(reader.partitions(begin, begin)) == []


def test_available_now_takes_as_many_as_there_were(broker: BrokerUnderTest, start: Start) -> None:
    queue = broker.make("classic")
    broker.publish(queue, numbered(10))
    reader = start(queue, maxOffsetsPerTrigger="6")
    reader.prepareForTriggerAvailableNow()
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadMaxRows(6))
    assert read(reader, begin, first) == numbered(6)
    broker.publish(queue, numbered(50, 10))
    second = reader.latestOffset(first, ReadMaxRows(6))
    assert read(reader, first, second) == numbered(4, 6)
    assert reader.latestOffset(second, ReadMaxRows(6)) == second
    assert start(queue).latestOffset(second, ALL) != second


def test_properties_and_headers_are_the_senders(broker: BrokerUnderTest, start: Start) -> None:
    queue = broker.make("classic")
    broker.publish(queue, [b"x"], pika.BasicProperties(message_id="id", headers={"n": 1}))
    reader = start(queue)
    begin = reader.initialOffset()
    (partition,) = reader.partitions(begin, reader.latestOffset(begin, ALL))
    (row,) = rows_of(reader.read(partition))
    assert row["headers"] == [("n", "1")]
    assert isinstance(row["properties"], dict)
    assert row["properties"]["message_id"] == "id"
    assert (row["queue"], row["routing_key"]) == (queue, queue)


def test_a_missing_queue_is_told(start: Start) -> None:
    with pytest.raises(WarrenError, match="no queue 'no-such'"):
        start("no-such").latestOffset({"no-such": 0}, ALL)


def test_a_checkpoint_of_another_queue_is_refused(broker: BrokerUnderTest, start: Start) -> None:
    with pytest.raises(WarrenError, match="the checkpoint is of other"):
        start(broker.make("classic")).latestOffset({"other": 0}, ALL)


def test_on_warren_a_second_query_is_kept_out(warren: BrokerUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.spark.queue_browse.LEASE_SECONDS", 0.3)
    queue = warren.make("classic")
    first, second = (
        QueueReader(read_options({"uri": warren.uri, "queue": queue}, is_streaming=True)) for _ in range(2)
    )
    first.initialOffset()
    with pytest.raises(WarrenError, match="in exclusive use"):
        second.initialOffset()
    with warren.channel() as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.basic_consume(queue, lambda *_: None)
    first.stop()
    second.stop()


def test_on_warren_messages_that_somebody_took_are_missed(warren: BrokerUnderTest) -> None:
    queue = warren.make("classic")
    warren.publish(queue, numbered(10))
    options = {"uri": warren.uri, "queue": queue, "timeout": "1"}
    reader = QueueReader(read_options(options, is_streaming=True))
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ALL)
    # Getting is no consuming, so a browser cannot forbid it.
    assert len(warren.get_all(queue)) == 10
    with pytest.raises(DataLoss, match="are gone"):
        read(reader, begin, end)
    reader.stop()


@pytest.mark.parametrize("broker", ["warren"], indirect=True)
def test_on_warren_a_batch_is_the_same_after_a_crash_or_is_refused(warren: BrokerUnderTest, start: Start) -> None:
    queue = warren.make("classic")
    warren.publish(queue, numbered(10))
    reader = start(queue)
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ALL)
    with warren.channel() as channel:
        taken = channel.basic_get(queue)[0]
        channel.basic_ack(taken.delivery_tag)
    with pytest.raises(DataLoss, match=r"the 9 messages .* are not those that were in it"):
        start(queue).partitions(begin, end)
    # Of an earlier release: nobody noted which they were.
    assert read(start(queue), begin, {queue: end[queue]}) == numbered(9, 1)
    assert read(start(queue, failOnDataLoss="false"), begin, end) == numbered(9, 1)
    assert len(warren.get_all(queue)) == 9
    assert read(start(queue, failOnDataLoss="false"), begin, end) == []


@pytest.mark.parametrize("broker", ["warren"], indirect=True)
def test_on_warren_what_comes_back_into_a_batch_is_noticed(warren: BrokerUnderTest, start: Start) -> None:
    queue = warren.make("classic")
    warren.publish(queue, numbered(10))
    with warren.channel() as channel:
        channel.basic_get(queue)
        reader = start(queue)
        begin = reader.initialOffset()
        end = reader.latestOffset(begin, ALL)
        planned = list(reader.partitions(begin, end))
    with pytest.raises(DataLoss, match="1 messages have come back"):
        rows_of(reader.read(planned[0]))
    with pytest.raises(DataLoss, match=r"the 10 messages .* are not those that were in it"):
        start(queue).partitions(begin, end)


@pytest.mark.spark
def test_on_rabbitmq_a_spool_is_needed_and_has_one_reader(rabbitmq: BrokerUnderTest, tmp_path: Path) -> None:
    queue = rabbitmq.make("classic")
    given = {"uri": rabbitmq.uri, "queue": queue}
    with pytest.raises(WarrenError, match="option spoolDir is missing"):
        QueueReader(read_options(given, is_streaming=True)).initialOffset()
    given["spoolDir"] = str(tmp_path)
    first, second = (QueueReader(read_options(given, is_streaming=True)) for _ in range(2))
    first.initialOffset()
    with pytest.raises(WarrenError, match="another query reads into the spool"):
        second.initialOffset()
    first.stop()
    second.initialOffset()
    second.stop()


@pytest.mark.spark
def test_on_rabbitmq_nothing_is_acked_before_it_is_on_disk(rabbitmq: BrokerUnderTest, tmp_path: Path) -> None:
    queue = rabbitmq.make("classic")
    rabbitmq.publish(queue, numbered(30))
    given = {"uri": rabbitmq.uri, "queue": queue, "spoolDir": str(tmp_path)}
    reader = QueueReader(read_options(given, is_streaming=True))
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert end == {queue: 30}
    (file,) = tmp_path.rglob("*.arrow")
    assert file.stem == f"{0:020d}-{30:020d}"
    file.unlink()
    with pytest.raises(DataLoss, match="only 0 are in the spool"):
        reader.partitions({queue: 0}, end)
    reader.stop()
