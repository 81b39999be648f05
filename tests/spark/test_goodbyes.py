"""No connection outlives its query: neither where Spark ends the planner, nor where a reader is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_under_test import BrokerUnderTest, numbered
from warren import Broker
from warren.errors import WarrenError
from warren.spark.options import read_options
from warren.spark.queue import QueueReader
from warren.spark.stream import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KINDS = {"queue": "classic", "stream": "stream"}
LOST = "without closing the connection"

End = Callable[["StreamingQuery"], None]


def connected(broker: Broker) -> int:
    return broker.call(lambda node: len(node.connections))


def await_connected(broker: Broker, count: int) -> None:
    deadline = time.monotonic() + 60
    while connected(broker) != count:
        assert time.monotonic() < deadline, f"{connected(broker)} connections instead of {count}"
        time.sleep(0.05)


def reader_of(broker: Broker, option: str) -> tuple[str, QueueReader | StreamReader]:
    under_test = BrokerUnderTest(broker.url, is_warren=True)
    name = under_test.make(KINDS[option])
    under_test.publish(name, numbered(10))
    options = read_options({"uri": broker.url, option: name}, is_streaming=True)
    return name, QueueReader(options) if option == "queue" else StreamReader(options)


@pytest.mark.parametrize("option", KINDS)
def test_a_reader_that_is_stopped_closes_its_connection(
    warren_broker: Broker, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, reader = reader_of(warren_broker, option)
    reader.latestOffset({name: 0}, reader.getDefaultReadLimit())
    assert connected(warren_broker) == 1
    reader.stop()
    await_connected(warren_broker, 0)
    # Of this broker: that of other tests lives in this process too.
    here = f"-> {warren_broker.host}:{warren_broker.port}:"
    assert not [text for text in caplog.messages if LOST in text and here in text]
    # Nothing is left to be closed.
    reader.stop()
    # And it can be asked again.
    reader.latestOffset({name: 0}, reader.getDefaultReadLimit())
    reader.stop()


def test_a_reader_can_be_stopped_when_its_broker_is_gone() -> None:
    with Broker() as broker:
        _, reader = reader_of(broker, "queue")
        reader.initialOffset()
    reader.stop()
    with pytest.raises(WarrenError, match="no broker"):
        reader.initialOffset()


def stop(query: StreamingQuery) -> None:
    query.processAllAvailable()
    query.stop()


def await_failure(query: StreamingQuery) -> None:
    with pytest.raises(Exception, match="enough"):
        query.processAllAvailable()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.mark.spark
@pytest.mark.timeout(180)
# Of Spark's and py4j's own: sockets and files that they leave to the garbage collector.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("shown", "end"), [("body", stop), ("raise_error('enough')", await_failure)])
@pytest.mark.parametrize("option", KINDS)
def test_the_connections_of_a_query_end_with_it(
    spark: SparkSession, broker: Broker, tmp_path: Path, option: str, shown: str, end: End
) -> None:
    name, _ = reader_of(broker, option)
    options = {"uri": broker.url, option: name}
    if option == "stream":
        options["startingOffsets"] = "earliest"
    frame = spark.readStream.format("warren").options(**options).load().selectExpr(f"{shown} AS shown")
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    await_connected(broker, 1)
    end(query)
    await_connected(broker, 0)
