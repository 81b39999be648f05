"""Streams of Warren are read in runs, many messages in one delivery: with the same rows, and no damage unnoticed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pika
import pyarrow as pa
import pytest

from tests.spark.broker_under_test import BrokerUnderTest, numbered
from warren import Broker
from warren.client.address import parse_uri
from warren.spark.consume import DataLoss, Range, RangeReader, open_client, read_range


def read(uri: str, span: Range, prefetch: int = 10_000, fails: bool = True) -> pa.Table:
    return pa.Table.from_batches(list(read_range(parse_uri(uri), span, prefetch, 10, fails)))


def read_noting(uri: str, span: Range, prefetch: int = 10_000) -> tuple[pa.Table, bool]:
    """And whether any of it came in runs, which cannot be told from the rows."""
    with open_client(parse_uri(uri), 10) as client:
        reader = RangeReader(client, span, prefetch, True)
        return pa.Table.from_batches(list(reader.batches())), reader.has_runs


def mixed(broker: BrokerUnderTest) -> tuple[str, int]:
    """Messages of all sorts: longer than a frame, without a body, with every property, some with a filter value."""
    name = broker.make()
    everything = pika.BasicProperties(
        "text/plain", "utf-8", {"a": 1, "b": "two"}, 2, 5, "c", "r", "9999", "id", 1_700_000_000, "t", "guest", "app"
    )
    filtered = pika.BasicProperties(headers={"x-stream-filter-value": "v"})
    bodies = [bytes([number % 251]) * size for number, size in enumerate((0, 10, 131_064, 131_065, 300_000, 1000) * 8)]
    with broker.channel() as channel:
        channel.confirm_delivery()
        for number, body in enumerate(bodies):
            channel.basic_publish("", name, body, (None, everything, filtered)[number % 3])
    return name, len(bodies)


@pytest.mark.parametrize("prefetch", [1, 5, 10_000])
def test_runs_have_the_rows_that_single_messages_have(warren: BrokerUnderTest, prefetch: int) -> None:
    name, count = mixed(warren)
    alone, has_runs = read_noting(warren.uri, Range(name, 0, count, in_runs=False))
    assert not has_runs
    assert alone.num_rows == count
    together, has_runs = read_noting(warren.uri, Range(name, 0, count), prefetch)
    assert has_runs
    assert together.equals(alone)
    assert read(warren.uri, Range(name, 7, count - 5), prefetch).equals(alone.slice(7, count - 12))


@pytest.mark.parametrize("keeps_files", [True, False])
def test_every_row_says_when_the_broker_had_it(tmp_path: Path, keeps_files: bool) -> None:
    begin = datetime.now(UTC) - timedelta(milliseconds=1)
    with Broker(data_dir=str(tmp_path) if keeps_files else "") as broker:
        name, count = mixed(BrokerUnderTest(broker.url, is_warren=True))
        table, has_runs = read_noting(broker.url, Range(name, 0, count))
    assert has_runs == keeps_files
    arrived = table.column("arrived_at").to_pylist()
    assert arrived == sorted(arrived)
    assert begin <= arrived[0]
    assert arrived[-1] <= datetime.now(UTC)
    # What told it is no header of the message.
    assert {name for row in table.column("headers").to_pylist() for name, _ in row or []} == {
        "a", "b", "x-stream-filter-value"
    }  # fmt: skip


def test_a_message_cannot_say_when_it_arrived(warren: BrokerUnderTest) -> None:
    name = warren.make()
    lie = pika.BasicProperties(headers={"x-stream-offset": 2**40, "x-arrived-at": 2**40})
    warren.publish(name, [b"lie"], lie)
    for in_runs in (True, False):
        (row,) = read(warren.uri, Range(name, 0, 1, in_runs=in_runs)).to_pylist()
        assert abs(row["arrived_at"] - datetime.now(UTC)) < timedelta(minutes=5)


def test_small_frames_carry_short_runs(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path), frame_max=4096) as broker:
        warren = BrokerUnderTest(broker.url, is_warren=True)
        name = warren.make()
        warren.publish(name, numbered(500))
        table, has_runs = read_noting(warren.uri, Range(name, 0, 500))
        assert table.column("body").to_pylist() == numbered(500)
        assert has_runs


def test_a_broker_without_files_sends_single_messages() -> None:
    with Broker() as broker:
        warren = BrokerUnderTest(broker.url, is_warren=True)
        name = warren.make()
        warren.publish(name, numbered(50))
        table, has_runs = read_noting(warren.uri, Range(name, 0, 50))
        assert table.column("body").to_pylist() == numbered(50)
        assert not has_runs


def test_nobody_can_publish_what_looks_like_a_run(warren: BrokerUnderTest) -> None:
    with warren.channel() as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker, match="reserved prefix"):
        channel.exchange_declare("amq.stream.run", "fanout")


@pytest.mark.parametrize(
    ("is_head", "said"),
    [(False, "messages 42 to 42 of '{}' are gone"), (True, "1 messages of '{}' are gone .* damaged")],
)
def test_damage_is_missed_or_passed_over(tmp_path: Path, is_head: bool, said: str) -> None:
    """The reader finds out about a body, and the broker about a head, behind which it goes on with another run."""
    with Broker(data_dir=str(tmp_path)) as broker:
        warren = BrokerUnderTest(broker.url, is_warren=True)
        name = warren.make()
        warren.publish(name, numbered(100))
    (file,) = (tmp_path / "messages").glob("*.stream")
    data = bytearray(file.read_bytes())
    body = data.index(numbered(1, 42)[0] + b"\xce")
    data[data.rindex(b"WR", 0, body) if is_head else body] ^= 1
    file.write_bytes(data)
    with Broker(data_dir=str(tmp_path)) as broker:
        warren = BrokerUnderTest(broker.url, is_warren=True)
        with pytest.raises(DataLoss, match=said.format(name)):
            read(warren.uri, Range(name, 0, 100))
        rest = read(warren.uri, Range(name, 0, 100), fails=False)
        assert rest.column("body").to_pylist() == [*numbered(42), *numbered(57, 43)]
        assert rest.column("offset").to_pylist() == [*range(42), *range(43, 100)]
