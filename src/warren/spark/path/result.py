"""What a path gives: DataFrames by the broker's own words. Each is lazy; what they share is computed once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from warren.amqp.constants import NO_ROUTE
from warren.spark.path import events
from warren.spark.path.components import Components

if TYPE_CHECKING:
    from warren.spark.path.message_path import Stages

# Names of the DataFrames, as attributes and as folders of `warren route`.
TABLES: Final = (
    "deliveries", "returns", "refusals", "confirms", "dead_letters", "dropped", "consumed", "queues", "statistics",
)  # fmt: skip
_PUBLISH: Final = ("vhost", "publisher", "sequence", "exchange", "routing_key")
_PLACE: Final = ("vhost", "queue", "position", "publisher", "sequence", "exchange", "routing_key")


class PathResult:
    def __init__(
        self, routed: DataFrame, components: Components, stages: Stages, order: list[str], persist: bool
    ) -> None:
        self._is_kept = persist
        self._components = components
        self._stages = stages
        self._order = order
        # Every publish with `route`, what the broker says to it.
        self.routed = self._kept(routed)

    def _kept(self, frame: DataFrame) -> DataFrame:
        return frame.persist(StorageLevel.MEMORY_AND_DISK) if self._is_kept else frame

    def unpersist(self) -> None:
        """Give back what the results share; they would be computed anew."""
        self.routed.unpersist()
        if "events" in self.__dict__:
            self.events.unpersist()

    # -- what the tables are made of -------------------------------------------------------------------------------

    @cached_property
    def _queue_names(self) -> DataFrame:
        components = self._components
        rows = [
            (number, components.of_queue[number], vhost, queue, components.is_plain[components.of_queue[number]])
            for number, (vhost, queue) in enumerate(self._stages.topology.queues)
        ]
        return self._spark.createDataFrame(
            rows, "queue_number int, component int, queue_vhost string, queue string, is_plain boolean"
        )

    @cached_property
    def _exchange_names(self) -> DataFrame:
        rows = [(number, name) for number, (_, name) in enumerate(self._stages.topology.exchanges)]
        return self._spark.createDataFrame(rows, "via_number int, via string")

    @property
    def _spark(self) -> SparkSession:
        return self.routed.sparkSession

    @cached_property
    def _played(self) -> DataFrame:
        """Components whose queues must be played: those with rules, and those that a message with a TTL is in."""
        by_rule = self._queue_names.where(~sf.col("is_plain")).select("component")
        if not self._stages.has_ttl:
            return by_rule.distinct()
        has_ttl = sf.col("properties")["expiration"].isNotNull()
        by_ttl = self.routed.where(has_ttl).select(sf.explode("route.components").alias("component"))
        return by_rule.union(by_ttl).distinct()

    @cached_property
    def sequential(self) -> DataFrame:
        """A row for every publish and component that is played."""
        rows = self.routed.where(sf.size("route.components") > 0).withColumns(
            {
                "component": sf.explode("route.components"),
                "may_refuse": sf.col("route.may_refuse"),
                "via": sf.col("route.queues"),
            }
        )
        return rows.join(sf.broadcast(self._played), "component", "left_semi")

    @cached_property
    def events(self) -> DataFrame:
        """Everything that happens in the queues that are played (events.py)."""
        return self._kept(self._stages.play(self.sequential))

    @cached_property
    def entries(self) -> DataFrame:
        """A row for every delivery into a queue in which nothing ever happens."""
        rows = self.routed.where(sf.size("route.queues") > 0).select(
            "publisher", "sequence", "exchange", "routing_key", "body_size", "at", *self._extra_order(),
            sf.explode("route.queues").alias("met"),
        )  # fmt: skip
        named = rows.join(sf.broadcast(self._queue_names), sf.col("met.queue") == sf.col("queue_number"))
        plain = named.join(sf.broadcast(self._played), "component", "left_anti")
        first_come = Window.partitionBy("queue_number").orderBy(*self._order)
        numbered = plain.withColumn("position", sf.row_number().over(first_come).cast("bigint"))
        with_via = numbered.join(sf.broadcast(self._exchange_names), sf.col("met.via") == sf.col("via_number"))
        return with_via.select(
            "queue_number", sf.col("queue_vhost").alias("vhost"), *_PLACE[1:], sf.timestamp_millis("at").alias("at"),
            "via", "body_size",
        )  # fmt: skip

    def _extra_order(self) -> list[str]:
        return [name for name in self._order if name not in (*_PUBLISH, "body_size", "at")]

    def _of(self, kind: str) -> DataFrame:
        return self.events.where(sf.col("kind") == kind)

    # -- the tables --------------------------------------------------------------------------------------------------

    @cached_property
    def deliveries(self) -> DataFrame:
        """Every entry into a queue; `position` is its order there. `cause` and `via` say how it got there."""
        played = self._of(events.ENTERED).select(
            *_PLACE, "at", sf.col("reason").alias("cause"), "via", "from_queue", "body_size"
        )
        plain = self.entries.select(
            *_PLACE, "at", sf.lit("published").alias("cause"), "via",
            sf.lit(None).cast("string").alias("from_queue"), "body_size",
        )  # fmt: skip
        return played.union(plain)

    @cached_property
    def returns(self) -> DataFrame:
        """Mandatory messages that no queue took, as their publishers get them back."""
        return self.routed.where("route.returned").select(
            *_PUBLISH, sf.lit(NO_ROUTE).alias("code"), sf.lit("NO_ROUTE").alias("text"),
            sf.timestamp_millis("at").alias("at"),
        )  # fmt: skip

    @cached_property
    def refusals(self) -> DataFrame:
        """Publishes that closed their channel or connection (`scope`), and rows that no client can send."""
        return self.routed.where("route.code != 0").select(
            *_PUBLISH, "user", sf.col("route.code").alias("code"), sf.col("route.text").alias("text"),
            sf.col("route.scope").alias("scope"), sf.timestamp_millis("at").alias("at"),
        )  # fmt: skip

    @cached_property
    def confirms(self) -> DataFrame:
        """What the publisher of every message that was not refused hears: `outcome` is ack or nack."""
        at_once = self.routed.where("route.code = 0 and not route.may_refuse").select(
            "vhost", "publisher", "sequence", sf.lit("ack").alias("outcome")
        )
        nacked = sf.max(sf.col("outcome") == "nack")
        # Each component answers for its own queues: one refusal is enough.
        later = (
            self._of(events.CONFIRMED)
            .groupBy("message", "vhost", "publisher", "sequence")
            .agg(sf.when(nacked, "nack").otherwise("ack").alias("outcome"))
        )
        return at_once.union(later.drop("message"))

    @cached_property
    def dead_letters(self) -> DataFrame:
        """Every departure to a dead-letter exchange, with `x_death` (JSON) as the message then has it."""
        return self._of(events.DEAD_LETTERED).select(*_PLACE, "reason", "x_death", "at", "body_size")

    @cached_property
    def dropped(self) -> DataFrame:
        """Every departure to nowhere, and duplicates that were not let in."""
        return self._of(events.DROPPED).select(*_PLACE, "reason", "at", "body_size")

    @cached_property
    def consumed(self) -> DataFrame:
        """What the consumers did: acked, rejected or requeued."""
        return self._of(events.CONSUMED).select("vhost", "queue", "consumer", "publisher", "sequence", "outcome", "at")

    @cached_property
    def _kept_in_played(self) -> DataFrame:
        columns = ("redelivered", "expires_at", "x_death", "body_size")
        left = self._of(events.KEPT).select(
            "vhost", "queue", "place", *_PLACE[2:], sf.col("outcome").alias("state"), *columns
        )
        # What was appended to a stream stays there.
        appended = self._of(events.ENTERED).where(sf.col("outcome") == events.APPENDED)
        ready = sf.lit("ready").alias("state")
        return left.union(appended.select("vhost", "queue", "position", *_PLACE[2:], ready, *columns))

    @cached_property
    def queues(self) -> DataFrame:
        """What is in the queues at the end; `place` is the order in which it would be handed out."""
        plain = self.entries.select(
            "vhost", "queue", sf.col("position").alias("place"), *_PLACE[2:], sf.lit("ready").alias("state"),
            sf.lit(False).alias("redelivered"), sf.lit(None).cast("timestamp").alias("expires_at"),
            sf.lit(None).cast("string").alias("x_death"), "body_size",
        )  # fmt: skip
        return self._kept_in_played.union(plain)

    @cached_property
    def statistics(self) -> DataFrame:
        """Counts: `of` is exchange, queue or publisher, `figure` what was counted, `count` how often."""
        from warren.spark.path.statistics import statistics_of

        return statistics_of(self)

    def tables(self) -> dict[str, DataFrame]:
        return {name: getattr(self, name) for name in TABLES}
