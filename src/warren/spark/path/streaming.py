"""The message path as a stream: each micro-batch goes on from what the one before left in the queues.

Everything is written by batch number and over whatever an interrupted attempt has left, the state last: a batch that
is repeated after a crash reads the state before it and writes the same again. The input must come in order of time
from batch to batch; what is late is taken to be published when it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from warren.errors import WarrenError
from warren.spark.path import events
from warren.spark.path.columns import Defaults, Publishes
from warren.spark.path.message_path import KEPT, KNOWN, Stages, with_route
from warren.spark.path.result import TABLES, PathResult
from warren.spark.path.topology import Topology

# `queues` is what the last batch left; the others grow with every batch.
_GROWING: Final = tuple(name for name in TABLES if name != "queues")
_STATE: Final = "_state"
_READY: Final = ("ready", "ready_bytes")


class StreamWriter:
    """What foreachBatch calls."""

    def __init__(
        self,
        topology: Topology,
        out: str,
        defaults: Defaults,
        order_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
    ) -> None:
        self._topology = topology
        self._out = out
        self._defaults = defaults
        self._order_by = order_by
        self._partitions = partitions

    def write(self, publishes: DataFrame, batch_id: int) -> None:
        spark = publishes.sparkSession
        source = Publishes(publishes, self._defaults, self._order_by, batch_id)
        stages = Stages(self._topology, None, source, self._partitions, keeps_state=True)
        before = self._before(spark, batch_id)
        frame = source.frame().persist()
        clock = _clock(frame, before)
        spanned = frame.withColumns({name: sf.lit(value).cast("bigint") for name, value in clock.items()})
        result = BatchResult(with_route(spanned, source, self._topology, None), stages, source, before, clock)
        try:
            for name in _GROWING:
                self._put(getattr(result, name), name, batch_id)
            self._put(result.whole_queues, "queues", batch_id)
            self._put(result.counted, f"{_STATE}/counted", batch_id)
            self._put(result.left, f"{_STATE}/left", batch_id)
            # Last: where this is, everything is.
            rows = [(clock["starts_at"], clock["ends_at"])]
            self._put(spark.createDataFrame(rows, "starts_at bigint, ends_at bigint"), f"{_STATE}/clock", batch_id)
        finally:
            result.unpersist()
            frame.unpersist()
        if batch_id >= 2:
            for name in ("counted", "left", "clock"):
                _delete(spark, f"{self._out}/{_STATE}/{name}/batch={batch_id - 2}")
            _delete(spark, f"{self._out}/queues/batch={batch_id - 2}")

    def _put(self, table: DataFrame, name: str, batch_id: int) -> None:
        table.write.mode("overwrite").parquet(f"{self._out}/{name}/batch={batch_id}")

    def _before(self, spark: SparkSession, batch_id: int) -> Before | None:
        if batch_id == 0:
            return None
        names = ("clock", "left", "counted")
        try:
            tables = [spark.read.parquet(f"{self._out}/{_STATE}/{name}/batch={batch_id - 1}") for name in names]
        except AnalysisException:
            raise WarrenError(
                f"{self._out} holds no state of batch {batch_id - 1}, but the checkpoint goes on from there: "
                "give the folder that belongs to this checkpoint, or remove both to begin anew"
            ) from None
        return Before(*tables)


class Before:
    """What the batch before has left."""

    def __init__(self, clock: DataFrame, left: DataFrame, counted: DataFrame) -> None:
        row = clock.collect()[0]
        self.starts_at: int = row["starts_at"]
        self.ends_at: int = row["ends_at"]
        self.left = left
        self.counted = counted


def _clock(frame: DataFrame, before: Before | None) -> dict[str, int]:
    """When it all began, and how far this batch goes."""
    row = frame.where(sf.col("problem").isNull()).agg(sf.min("at"), sf.max("at")).collect()[0]
    first, last = row[0] or 0, row[1] or 0
    if before is None:
        return {"starts_at": first, "ends_at": last}
    return {"starts_at": before.starts_at, "ends_at": max(before.ends_at, last)}


class BatchResult(PathResult):
    """The result of one micro-batch, with the state that goes in and the state that comes out."""

    def __init__(
        self, routed: DataFrame, stages: Stages, source: Publishes, before: Before | None, clock: dict[str, int]
    ) -> None:
        super().__init__(routed, stages.components, stages, source.order_columns(), persist=True)
        self._before = before
        self._clock = clock

    @cached_property
    def _played(self) -> DataFrame:
        # A TTL may come in any later batch, and then matters what is in the queue before it.
        names = self._queue_names
        played = names if self._stages.has_ttl else names.where(~sf.col("is_plain"))
        return played.select("component").distinct()

    @cached_property
    def events(self) -> DataFrame:
        state = None if self._before is None else self._state(self._before)
        return self._kept(self._stages.play(self.sequential, state))

    def _state(self, before: Before) -> DataFrame:
        return before.left.select(
            "component",
            "vhost",
            "queue",
            sf.col("place").alias("sequence"),
            "saved",
            sf.when(sf.col("kind") == events.STATE, KNOWN).otherwise(KEPT).alias("stage"),
            *[sf.lit(value).cast("bigint").alias(name) for name, value in self._clock.items()],
        )

    @property
    def left(self) -> DataFrame:
        """The state for the next batch."""
        return self.events.where(sf.col("kind").isin(events.STATE, events.KEPT)).select(
            "kind", "component", "vhost", "queue", "place", "saved"
        )

    @cached_property
    def _plain(self) -> DataFrame:
        plain = super()._plain
        if self._before is None:
            return plain
        earlier = self._before.counted.select("vhost", "queue", sf.col("count").alias("earlier"))
        joined = plain.join(sf.broadcast(earlier), ["vhost", "queue"], "left")
        return joined.withColumn("position", sf.col("position") + sf.coalesce("earlier", sf.lit(0)))

    @property
    def counted(self) -> DataFrame:
        """How many have entered each queue in which nothing ever happens."""
        now = self._plain.groupBy("vhost", "queue").agg(sf.count("*").alias("count"))
        if self._before is None:
            return now
        return (
            now.union(self._before.counted.select("vhost", "queue", "count"))
            .groupBy("vhost", "queue")
            .agg(sf.sum("count").alias("count"))
        )

    @property
    def whole_queues(self) -> DataFrame:
        """What is in the queues that are played; in the others is what entered them."""
        return self.kept_in_played


class StreamResult:
    """What a stream has written so far, under the names of a result."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._spark = spark
        self._out = out

    def __getattr__(self, name: str) -> DataFrame:
        if name not in TABLES:
            raise AttributeError(name)
        if name == "queues":
            return self._queues()
        if name == "statistics":
            return self._statistics()
        return self._read(name)

    def _read(self, name: str) -> DataFrame:
        return self._spark.read.parquet(f"{self._out}/{name}").drop("batch")

    def _queues(self) -> DataFrame:
        tables = self._spark.read.parquet(f"{self._out}/queues")
        last: Any = self._spark.read.parquet(f"{self._out}/{_STATE}/clock").agg(sf.max("batch")).collect()[0][0]
        played = tables.where(sf.col("batch") == last).drop("batch")
        plain = self._spark.read.parquet(f"{self._out}/{_STATE}/counted").where(sf.col("batch") == last)
        entered = self._read("deliveries").join(plain.select("vhost", "queue"), ["vhost", "queue"], "left_semi")
        return played.unionByName(
            entered.withColumns(
                {
                    "place": sf.col("position"),
                    "state": sf.lit("ready"),
                    "redelivered": sf.lit(False),
                    "expires_at": sf.lit(None).cast("timestamp"),
                    "x_death": sf.lit(None).cast("string"),
                }
            ).select(*played.columns)
        )

    def _statistics(self) -> DataFrame:
        summed = (
            self._read("statistics")
            .where(~sf.col("figure").isin(*_READY))
            .groupBy("of", "vhost", "name", "figure")
            .agg(sf.sum("count").alias("count"))
        )
        ready = (
            self._queues()
            .groupBy("vhost", "queue")
            .agg(sf.count_if(sf.col("state") == "ready").alias("ready"), sf.sum("body_size").alias("ready_bytes"))
        )
        pairs = sf.explode(sf.create_map(*[part for name in _READY for part in (sf.lit(name), sf.col(name))]))
        left = ready.select(sf.lit("queue").alias("of"), "vhost", sf.col("queue").alias("name"), pairs)
        return summed.union(left.where("value != 0"))


def _delete(spark: SparkSession, place: str) -> None:
    """On whatever file system it is. Only tidies up: nothing reads it any more."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(place)
    path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)
