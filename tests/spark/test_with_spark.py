"""The whole way on a real session: what a user writes, and what arrives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_under_test import BrokerUnderTest, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(180),
    # Of Spark's and py4j's own: sockets and files that they leave to the garbage collector.
    pytest.mark.filterwarnings("ignore"),
]


def read(spark: SparkSession, broker: BrokerUnderTest, **options: object) -> DataFrame:
    return spark.read.format("warren").options(**{"uri": broker.uri, **options}).load()  # type: ignore[arg-type]


def copy_now(spark: SparkSession, broker: BrokerUnderTest, source: str, target: str, folder: Path) -> StreamingQuery:
    frame = (
        spark.readStream.format("warren")
        .options(uri=broker.uri, stream=source, startingOffsets="earliest", maxOffsetsPerTrigger=400, minPartitions=2)
        .load()
    )
    query = (
        frame.selectExpr("body", f"'{target}' as routing_key", "'' as exchange")
        .writeStream.format("warren")
        .options(uri=broker.uri, checkpointLocation=str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def test_a_table_goes_out_and_comes_back(spark: SparkSession, broker: BrokerUnderTest) -> None:
    name = broker.make()
    rows = spark.range(1000).selectExpr("cast(id as string) as value", "map('n', cast(id as string)) as headers")
    rows.write.format("warren").options(uri=broker.uri, exchange="", routingKey=name).mode("append").save()
    found = read(spark, broker, stream=name, minPartitions=3)
    assert found.rdd.getNumPartitions() == 3
    good = found.where("cast(body as string) = headers['n'] and queue = routing_key and properties.delivery_mode = 2")
    assert good.selectExpr("count(distinct offset)", "count(distinct body)").first() == (1000, 1000)


def test_a_query_copies_each_message_once_and_goes_on_later(
    spark: SparkSession, broker: BrokerUnderTest, tmp_path: Path
) -> None:
    source, target = broker.make(), broker.make()
    for start in (0, 1000):
        broker.publish(source, numbered(1000, start))
        query = copy_now(spark, broker, source, target, tmp_path)
        assert [progress.numInputRows for progress in query.recentProgress] == [400, 400, 200]
    bodies = read(spark, broker, stream=target).selectExpr("cast(body as string)").collect()
    assert sorted(int(row[0]) for row in bodies) == list(range(2000))


def test_a_queue_is_drained_and_its_last_batch_settled(
    spark: SparkSession, broker: BrokerUnderTest, tmp_path: Path
) -> None:
    queue = broker.make("classic")
    options = {} if broker.is_warren else {"spoolDir": str(tmp_path / "spool")}
    for start in (0, 500):
        broker.publish(queue, numbered(500, start))
        frame = (
            spark.readStream.format("warren")
            .options(uri=broker.uri, queue=queue, maxOffsetsPerTrigger="200", **options)
            .load()
        )
        (
            frame.selectExpr("cast(body as string) as body")
            .writeStream.format("parquet")
            .options(checkpointLocation=str(tmp_path / "checkpoint"), path=str(tmp_path / "rows"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
        assert broker.count(queue) == 0
        assert list(tmp_path.glob("spool/**/*.arrow")) == []
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(1000))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strem": "s"}, "option strem is unknown"),
        ({"stream": "no-such"}, "no queue 'no-such'"),
        ({"stream": "s", "uri": "amqp://guest:guest@127.0.0.1:1"}, "no broker at 127.0.0.1:1"),
        ({"stream": "s", "maxOffsetsPerTrigger": 1}, "option maxOffsetsPerTrigger does not apply"),
    ],
)
def test_refusals_reach_the_user(
    spark: SparkSession, warren: BrokerUnderTest, options: dict[str, object], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        read(spark, warren, **options).count()


def test_a_query_whose_stream_is_missing_fails_and_says_so(
    spark: SparkSession, warren: BrokerUnderTest, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="no queue 'no-such'"):
        copy_now(spark, warren, "no-such", "any", tmp_path)


def test_rows_without_a_place_in_a_message_are_refused_on_the_driver(
    spark: SparkSession, warren: BrokerUnderTest
) -> None:
    rows = spark.sql("select 'x' as body, 1 as price")
    writer = rows.write.format("warren").options(uri=warren.uri, exchange="", routingKey="k").mode("append")
    with pytest.raises(Exception, match="column price has no place in a message"):
        writer.save()


def test_messages_cannot_be_overwritten(spark: SparkSession, warren: BrokerUnderTest) -> None:
    rows = spark.sql("select 'x' as body")
    writer = rows.write.format("warren").options(uri=warren.uri, exchange="", routingKey="k").mode("overwrite")
    with pytest.raises(Exception, match="added and not overwritten"):
        writer.save()
