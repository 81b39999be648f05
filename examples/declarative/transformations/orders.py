"""Orders from a stream of the broker; the large ones go to one of its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

spark = SparkSession.active()
URI = spark.conf.get("warren.uri")

dp.create_sink("to_broker", "warren", {"uri": URI, "exchange": "", "routingKey": "large-orders"})


@dp.temporary_view
def orders() -> DataFrame:
    messages = (
        spark.readStream.format("warren")
        .option("uri", URI)
        .option("stream", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    fields = f.from_json(f.col("body").cast("string"), "id BIGINT, amount DOUBLE")
    return messages.select(fields.alias("fields")).select("fields.*")


@dp.append_flow(target="to_broker")
def large() -> DataFrame:
    chosen = spark.readStream.table("orders").where("amount > 100")
    return chosen.select(f.to_json(f.struct("id", "amount")).alias("body"))
