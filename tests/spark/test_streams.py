"""Reading streams, by calling the readers as Spark would: batch and streaming, of Warren and of RabbitMQ."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.spark.broker_under_test import BrokerUnderTest, numbered
from warren import Broker
from warren.errors import WarrenError
from warren.spark.batch import BatchReader
from warren.spark.consume import DataLoss
from warren.spark.options import read_options
from warren.spark.stream import StreamReader

Planner = Callable[..., StreamReader]


def batch_reader(broker: BrokerUnderTest, **options: str) -> BatchReader:
    return BatchReader(read_options({"uri": broker.uri, "timeout": "10", **options}, is_streaming=False))


@pytest.fixture
def stream_reader() -> Iterator[Planner]:
    """Readers as planners have them, until the test ends."""
    made: list[StreamReader] = []

    def make(broker: BrokerUnderTest, **options: str) -> StreamReader:
        options = {"uri": broker.uri, "timeout": "10", "startingOffsets": "earliest", **options}
        made.append(StreamReader(read_options(options, is_streaming=True)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def read_table(broker: BrokerUnderTest, **options: str) -> list[dict[str, object]]:
    reader = batch_reader(broker, **options)
    return [row for partition in reader.partitions() for row in rows_of(reader.read(partition))]


def bodies(rows: list[dict[str, object]]) -> list[object]:
    return [row["body"] for row in rows]


def read_micro_batch(reader: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, object]]:
    # Tasks work on a copy.
    copy: StreamReader = pickle.loads(pickle.dumps(reader))
    return [row for partition in reader.partitions(start, end) for row in rows_of(copy.read(partition))]


def test_a_stream_is_a_table_of_its_messages(broker: BrokerUnderTest) -> None:
    name = broker.make()
    broker.publish(name, numbered(500))
    rows = read_table(broker, stream=name)
    assert bodies(rows) == numbered(500)
    assert [row["offset"] for row in rows] == list(range(500))
    assert {row["queue"] for row in rows} == {name}
    assert {row["routing_key"] for row in rows} == {name}


def test_an_empty_stream_is_an_empty_table(broker: BrokerUnderTest) -> None:
    assert read_table(broker, stream=broker.make()) == []


def test_a_range_may_be_chosen_and_is_read_in_pieces(broker: BrokerUnderTest) -> None:
    name = broker.make()
    broker.publish(name, numbered(200))
    chosen = {"startingOffsets": f'{{"{name}": 20}}', "endingOffsets": f'{{"{name}": 170}}'}
    reader = batch_reader(broker, stream=name, minPartitions="3", **chosen)
    pieces = [bodies(rows_of(reader.read(partition))) for partition in reader.partitions()]
    assert [len(piece) for piece in pieces] == [50, 50, 50]
    assert [body for piece in pieces for body in piece] == numbered(150, 20)


def test_a_small_prefetch_reads_as_much(broker: BrokerUnderTest) -> None:
    name = broker.make()
    broker.publish(name, numbered(300))
    assert bodies(read_table(broker, stream=name, prefetch="1")) == numbered(300)


def test_messages_since_a_time(broker: BrokerUnderTest) -> None:
    name = broker.make()
    broker.publish(name, numbered(5))
    time.sleep(1.1)
    now = int(time.time() * 1000)
    later = read_table(broker, stream=name, startingTimestamp=str(now + 60_000))
    assert later == []
    # A second is what the protocol can say, and the clock of a stream moves by chunks.
    time.sleep(1.0)
    broker.publish(name, numbered(5, 5))
    assert bodies(read_table(broker, stream=name, startingTimestamp=str(now + 500))) == numbered(5, 5)


def test_the_partitions_of_a_super_stream_are_read_together(broker: BrokerUnderTest) -> None:
    base = broker.make()
    for number in range(3):
        broker.declare(f"{base}-{number}", **{"x-queue-type": "stream"})
        broker.publish(f"{base}-{number}", [b"%d" % number])
    assert sorted(map(str, bodies(read_table(broker, superStream=base)))) == ["b'0'", "b'1'", "b'2'"]


def test_large_messages_come_whole(broker: BrokerUnderTest) -> None:
    name = broker.make()
    large = [bytes([number]) * 3_000_000 for number in range(3)]
    broker.publish(name, large)
    assert bodies(read_table(broker, stream=name)) == large


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stream": "no-such"}, "no queue 'no-such'"),
        ({"superStream": "no-such"}, "there is no super stream 'no-such'"),
    ],
)
def test_what_is_not_there_cannot_be_read(broker: BrokerUnderTest, options: dict[str, str], said: str) -> None:
    with pytest.raises(WarrenError, match=said):
        read_table(broker, **options)


def test_a_queue_is_no_stream(broker: BrokerUnderTest) -> None:
    name = broker.make("classic")
    broker.publish(name, numbered(3))
    with pytest.raises(WarrenError, match=r"x-stream-offset|no stream"):
        read_table(broker, stream=name)
    assert broker.count(name) == 3


def test_wrong_credentials_are_told(broker: BrokerUnderTest) -> None:
    wrong = BrokerUnderTest(broker.uri.replace("guest:guest", "guest:wrong"), broker.is_warren)
    with pytest.raises(WarrenError, match="ACCESS_REFUSED"):
        read_table(wrong, stream="s")


def test_a_broker_that_is_not_there_is_told() -> None:
    with pytest.raises(WarrenError, match="no broker at"):
        read_table(BrokerUnderTest("amqp://guest:guest@127.0.0.1:1/%2F", True), stream="s")


def test_offsets_beyond_the_end_are_refused(broker: BrokerUnderTest) -> None:
    name = broker.make()
    broker.publish(name, numbered(5))
    with pytest.raises(WarrenError, match="has no offset 6 yet, it ends at 5"):
        read_table(broker, stream=name, endingOffsets=f'{{"{name}": 6}}')


def test_a_query_goes_on_where_its_checkpoint_stands(broker: BrokerUnderTest, stream_reader: Planner) -> None:
    name = broker.make()
    reader = stream_reader(broker, stream=name)
    start = reader.initialOffset()
    assert start == {name: 0}
    broker.publish(name, numbered(40))
    first = reader.latestOffset(start, ReadAllAvailable())
    assert first == {name: 40}
    assert bodies(read_micro_batch(reader, start, first)) == numbered(40)
    broker.publish(name, numbered(7, 40))
    again = stream_reader(broker, stream=name)
    second = again.latestOffset(first, ReadAllAvailable())
    assert bodies(read_micro_batch(again, first, second)) == numbered(7, 40)
    assert again.latestOffset(second, ReadAllAvailable()) == second
    assert again.reportLatestOffset() == {name: 47}


def test_a_query_begins_with_what_comes_unless_told_otherwise(broker: BrokerUnderTest, stream_reader: Planner) -> None:
    name = broker.make()
    broker.publish(name, numbered(9))
    assert stream_reader(broker, stream=name, startingOffsets="latest").initialOffset() == {name: 9}


def test_a_batch_is_limited(broker: BrokerUnderTest, stream_reader: Planner) -> None:
    names = [broker.make(), broker.make()]
    broker.publish(names[0], numbered(100))
    broker.publish(names[1], numbered(50))
    streams = f'["{names[0]}", "{names[1]}"]'
    reader = stream_reader(broker, stream=streams, maxOffsetsPerTrigger="30")
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert end == {names[0]: 20, names[1]: 10}
    assert len(read_micro_batch(reader, reader.initialOffset(), end)) == 30


def test_a_batch_is_limited_by_bytes_as_far_as_can_be_told(broker: BrokerUnderTest, stream_reader: Planner) -> None:
    name = broker.make()
    broker.publish(name, [b"x" * 1000] * 100)
    reader = stream_reader(broker, stream=name, maxBytesPerTrigger="20000")
    assert reader.latestOffset({name: 0}, reader.getDefaultReadLimit()) == {name: 20}


def test_available_now_ends_where_the_stream_ended_when_it_began(
    broker: BrokerUnderTest, stream_reader: Planner
) -> None:
    name = broker.make()
    broker.publish(name, numbered(10))
    reader = stream_reader(broker, stream=name, maxOffsetsPerTrigger="6")
    reader.prepareForTriggerAvailableNow()
    broker.publish(name, numbered(10))
    assert reader.latestOffset({name: 0}, reader.getDefaultReadLimit()) == {name: 6}
    assert reader.latestOffset({name: 6}, reader.getDefaultReadLimit()) == {name: 10}
    assert reader.latestOffset({name: 10}, reader.getDefaultReadLimit()) == {name: 10}


def test_a_stream_that_was_made_anew_is_noticed(broker: BrokerUnderTest, stream_reader: Planner) -> None:
    name = broker.make()
    broker.publish(name, numbered(3))
    with pytest.raises(DataLoss, match="stands at offset 10"):
        stream_reader(broker, stream=name).latestOffset({name: 10}, ReadAllAvailable())
    lenient = stream_reader(broker, stream=name, failOnDataLoss="false")
    assert lenient.latestOffset({name: 10}, ReadAllAvailable()) == {name: 3}
    assert bodies(read_micro_batch(lenient, {name: 10}, {name: 3})) == numbered(3)


def test_messages_that_retention_took_are_missed(warren: BrokerUnderTest, stream_reader: Planner) -> None:
    retention: dict[str, object] = {"x-max-length-bytes": 200_000, "x-stream-max-segment-size-bytes": 50_000}
    name = warren.make("stream", **retention)
    warren.publish(name, [b"%4d" % number + b"x" * 5000 for number in range(200)])
    strict, lenient = (stream_reader(warren, stream=name, failOnDataLoss=fails) for fails in ("true", "false"))
    end = strict.latestOffset({name: 0}, ReadAllAvailable())
    with pytest.raises(DataLoss, match="messages 0 to"):
        read_micro_batch(strict, {name: 0}, end)
    left = read_micro_batch(lenient, {name: 0}, end)
    assert 0 < len(left) < 200
    assert left[-1]["offset"] == 199


def test_a_stream_that_is_added_to_a_query_begins_with_the_oldest_message_there_is(
    warren: BrokerUnderTest, stream_reader: Planner
) -> None:
    retention: dict[str, object] = {"x-max-length-bytes": 200_000, "x-stream-max-segment-size-bytes": 50_000}
    known, added = warren.make(), warren.make("stream", **retention)
    warren.publish(known, numbered(3))
    warren.publish(added, [b"%4d" % number + b"x" * 5000 for number in range(200)])
    reader = stream_reader(warren, stream=f'["{known}", "{added}"]', maxOffsetsPerTrigger="1000")
    # In the checkpoint first, so that the batch with its messages is the same whenever it is read.
    first = reader.latestOffset({known: 3}, reader.getDefaultReadLimit())
    assert first[known] == 3
    assert 0 < first[added] < 200
    assert read_micro_batch(reader, {known: 3}, first) == []
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert second == {known: 3, added: 200}
    read = read_micro_batch(reader, first, second)
    assert [row["offset"] for row in read] == list(range(first[added], 200))
    assert reader.latestOffset(second, reader.getDefaultReadLimit()) == second


def test_a_partition_that_is_added_to_a_super_stream_is_read_from_its_beginning(
    broker: BrokerUnderTest, stream_reader: Planner
) -> None:
    base = broker.make()
    for number in range(2):
        broker.declare(f"{base}-{number}", **{"x-queue-type": "stream"})
        broker.publish(f"{base}-{number}", numbered(5))
    reader = stream_reader(broker, superStream=base, startingOffsets="latest")
    first = reader.latestOffset({f"{base}-0": 5}, ReadAllAvailable())
    second = reader.latestOffset(first, ReadAllAvailable())
    assert second == {f"{base}-0": 5, f"{base}-1": 5}
    assert bodies(read_micro_batch(reader, first, second)) == numbered(5)
    # As an older version has left it in a checkpoint: one batch.
    assert bodies(read_micro_batch(reader, {f"{base}-0": 5}, second)) == numbered(5)


def test_a_planner_leaves_nothing_unacknowledged(warren_broker: Broker, stream_reader: Planner) -> None:
    broker = BrokerUnderTest(warren_broker.url, is_warren=True)
    name = broker.make()
    broker.publish(name, numbered(20))
    reader = stream_reader(broker, stream=name)
    for _ in range(3):
        reader.initialOffset()
        reader.latestOffset({name: 0}, ReadAllAvailable())
    unacked = warren_broker.call(lambda node: node.vhosts["/"].queues[name].unacked)
    assert unacked == 0


def test_a_partition_of_sparks_own_is_empty(warren: BrokerUnderTest) -> None:
    assert list(batch_reader(warren, stream="any").read(InputPartition(None))) == []


def test_a_planner_goes_on_after_its_connection_was_lost(warren: BrokerUnderTest, stream_reader: Planner) -> None:
    name = warren.make()
    reader = stream_reader(warren, stream=name)
    reader.initialOffset()
    client = reader._client
    assert client is not None
    client.abandon()
    warren.publish(name, numbered(2))
    assert reader.latestOffset({name: 0}, ReadAllAvailable()) == {name: 2}
