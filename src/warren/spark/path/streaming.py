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
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from warren.errors import WarrenError
from warren.spark.path import events
from warren.spark.path.columns import Defaults, PublishTable
from warren.spark.path.message_path import KEPT, KNOWN, Stages, as_intercepted, with_route
from warren.spark.path.result import PathResult
from warren.spark.path.topology import Topology

_STATE: Final = "_state"
# Files that a batch leaves in each folder, at most.
_FILES: Final = 4


class PathWriter:
    """What foreachBatch calls."""

    def __init__(
        self,
        topology: Topology,
        out: str,
        defaults: Defaults,
        order_by: str | Sequence[str] | None,
        partitions: int | None,
    ) -> None:
        self._topology = topology
        self._out = out
        self._defaults = defaults
        self._order_by = order_by
        self._partitions = partitions

    def write(self, publishes: DataFrame, batch_id: int) -> None:
        spark = publishes.sparkSession
        topology = self._topology
        source = PublishTable(publishes, self._defaults, self._order_by, batch_id, topology.intercepts)
        stages = Stages(topology, None, source, self._partitions, keeps_state=True)
        before = self._before(spark, batch_id)
        frame = source.frame().persist()
        clock = _clock(frame, before)
        spanned = frame.withColumns({name: sf.lit(value).cast("bigint") for name, value in clock.items()})
        routed = as_intercepted(with_route(spanned, source, topology, None), topology)
        result = BatchResult(routed, stages, source, before, clock)
        try:
            self._put(result.routed, "routed", batch_id)
            self._put(result.entries, "entries", batch_id)
            self._put(result.happened, "events", batch_id)
            self._put(result.left, f"{_STATE}/left", batch_id)
            # Last: where this is, everything is.
            row = [(clock["starts_at"], clock["ends_at"], result.counted(self._read(spark, "entries", batch_id)))]
            schema = "starts_at bigint, ends_at bigint, counted map<string,bigint>"
            self._put(spark.createDataFrame(row, schema), f"{_STATE}/clock", batch_id)
        finally:
            result.unpersist()
            frame.unpersist()
        if batch_id >= 2:
            _delete(spark, f"{self._out}/{_STATE}/left/batch={batch_id - 2}")

    def _put(self, table: DataFrame, name: str, batch_id: int) -> None:
        table.coalesce(_FILES).write.mode("overwrite").parquet(f"{self._out}/{name}/batch={batch_id}")

    def _read(self, spark: SparkSession, name: str, batch_id: int) -> DataFrame:
        return spark.read.parquet(f"{self._out}/{name}/batch={batch_id}")

    def _before(self, spark: SparkSession, batch_id: int) -> BatchBefore | None:
        if batch_id == 0:
            return None
        try:
            clock, left = (self._read(spark, f"{_STATE}/{name}", batch_id - 1) for name in ("clock", "left"))
        except AnalysisException:
            raise WarrenError(
                f"{self._out} holds no state of batch {batch_id - 1}, but the checkpoint goes on from there: "
                "give the folder that belongs to this checkpoint, or remove both to begin anew"
            ) from None
        return BatchBefore(clock, left)


class BatchBefore:
    """What the batch before has left."""

    def __init__(self, clock: DataFrame, left: DataFrame) -> None:
        row = clock.collect()[0]
        self.starts_at: int = row["starts_at"]
        self.ends_at: int = row["ends_at"]
        # By number of the queue: how many have entered it, where it is one in which nothing ever happens.
        self.counted: dict[str, int] = row["counted"]
        self.left = left


def _clock(frame: DataFrame, before: BatchBefore | None) -> dict[str, int]:
    """When it all began, and how far this batch goes."""
    row = frame.where(sf.col("problem").isNull()).agg(sf.min("at"), sf.max("at")).collect()[0]
    first, last = row[0] or 0, row[1] or 0
    if before is None:
        return {"starts_at": first, "ends_at": last}
    return {"starts_at": before.starts_at, "ends_at": max(before.ends_at, last)}


class BatchResult(PathResult):
    """The result of one micro-batch, with the state that goes in and the state that comes out."""

    def __init__(
        self, routed: DataFrame, stages: Stages, source: PublishTable, before: BatchBefore | None, clock: dict[str, int]
    ) -> None:
        super().__init__(routed, stages.components, stages, source.order_columns(), persist=True)
        self._before = before
        self._clock = clock

    @cached_property
    def _played(self) -> DataFrame:
        # A TTL may come in any later batch, and then it matters what is in the queue before it.
        names = self._queue_names
        played = names if self._stages.has_ttl else names.where(~sf.col("is_plain"))
        return played.select("component").distinct()

    @cached_property
    def events(self) -> DataFrame:
        state = None if self._before is None else self._state(self._before)
        return self._kept(self._stages.play(self.sequential, state))

    def _state(self, before: BatchBefore) -> DataFrame:
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
    def happened(self) -> DataFrame:
        return self.events.where(~_is_left()).drop("saved", "component")

    @property
    def left(self) -> DataFrame:
        """What is in the queues: for whoever asks now, and for the next batch."""
        return self.events.where(_is_left())

    @cached_property
    def entries(self) -> DataFrame:
        entries = super().entries
        if self._before is None or not self._before.counted:
            return entries
        earlier = sf.coalesce(sf.create_map(*_literals(self._before.counted))[sf.col("queue_number")], sf.lit(0))
        return entries.withColumn("position", sf.col("position") + earlier)

    def counted(self, entries: DataFrame) -> dict[str, int]:
        """For the next batch: how many have entered each queue in which nothing ever happens."""
        counted = {} if self._before is None else dict(self._before.counted)
        for row in entries.groupBy("queue_number").agg(sf.max("position").alias("last")).collect():
            counted[str(row["queue_number"])] = row["last"]
        return counted


def _is_left() -> Column:
    return sf.col("kind").isin(events.STATE, events.KEPT)


def _literals(counted: dict[str, int]) -> list[Column]:
    return [part for number, count in counted.items() for part in (sf.lit(int(number)), sf.lit(count))]


class StreamResult(PathResult):
    """What a stream has written so far, as a result: the same tables under the same names."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._out = out
        self._is_kept = False
        self.routed = spark.read.parquet(f"{out}/routed")

    @cached_property
    def events(self) -> DataFrame:
        happened = self._spark.read.parquet(f"{self._out}/events").drop("batch")
        clocks = self._spark.read.parquet(f"{self._out}/{_STATE}/clock")
        last: Any = clocks.agg(sf.max("batch")).collect()[0][0]
        left = self._spark.read.parquet(f"{self._out}/{_STATE}/left/batch={last}")
        return happened.unionByName(left.drop("saved", "component"))

    @cached_property
    def entries(self) -> DataFrame:
        return self._spark.read.parquet(f"{self._out}/entries")


def _delete(spark: SparkSession, place: str) -> None:
    """On whatever file system it is. Only tidies up: nothing reads it any more."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(place)
    path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)
