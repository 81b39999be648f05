"""What would change: the same publishes under two sets of definitions, and which messages go elsewhere.

`routes` compares what the broker says to each publish, `fates` what becomes of each message in each queue: there,
dead-lettered, dropped, refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from warren.spark.path import events
from warren.spark.path.columns import Defaults, PublishTable
from warren.spark.path.message_path import MessagePath, default_user, with_route, with_span
from warren.spark.path.result import PathResult
from warren.spark.path.topology import Topology


class PathDifference:
    def __init__(
        self,
        before: MessagePath,
        after: MessagePath,
        publishes: DataFrame,
        consumers: object = None,
        *,
        user: str | None = None,
        vhost: str = "/",
        order_by: str | Sequence[str] | None = None,
    ) -> None:
        self._topologies = before.topology, after.topology
        defaults = Defaults(default_user(before.topology, publishes, user), vhost)
        with_bodies = before.topology.intercepts or after.topology.intercepts
        source = PublishTable(publishes, defaults, order_by, with_bodies=with_bodies)
        self._source = source
        self.before: PathResult = before.run(publishes, consumers, user=user, vhost=vhost, order_by=order_by)
        self.after: PathResult = after.run(publishes, consumers, user=user, vhost=vhost, order_by=order_by)

    @cached_property
    def routes(self) -> DataFrame:
        """Publishes that are answered differently. `before` and `after` are queues, or what is said instead."""
        before, after = self._topologies
        is_timed = before.changes or after.changes
        frame = with_span(self._source, None, None) if is_timed else self._source.frame()
        both = with_route(with_route(frame, self._source, before, None, "one"), self._source, after, None, "other")
        told = both.select(
            "vhost", "publisher", "sequence", "exchange", "routing_key",
            _told("one", before).alias("before"), _told("other", after).alias("after"),
        )  # fmt: skip
        return told.where(sf.col("before") != sf.col("after"))

    @cached_property
    def fates(self) -> DataFrame:
        """Messages that end differently in a queue: `side` says under which definitions it is as the row says."""
        before = _fates(self.before).persist(StorageLevel.MEMORY_AND_DISK)
        after = _fates(self.after).persist(StorageLevel.MEMORY_AND_DISK)
        gone = before.exceptAll(after).withColumn("side", sf.lit("before"))
        come = after.exceptAll(before).withColumn("side", sf.lit("after"))
        return gone.union(come)


def _told(column: str, topology: Topology) -> Column:
    """Sorted, so that the order of bindings does not count as a difference."""
    route = sf.col(column)
    names = sf.array(*[sf.lit(queue) for _, queue in topology.queues]) if topology.queues else sf.array(sf.lit(""))
    queues = sf.array_sort(sf.transform(route["queues"], lambda met: sf.element_at(names, met["queue"] + 1)))
    said = sf.when(route["code"] != 0, sf.concat(sf.lit("refused: "), route["text"])).when(
        route["returned"], sf.lit("returned: NO_ROUTE")
    )
    return sf.when(said.isNotNull(), sf.array(said)).otherwise(queues)


def _fates(result: PathResult) -> DataFrame:
    place = ("vhost", "queue", "publisher", "sequence")
    kept = result.queues.select(*place, sf.col("state").alias("fate"))
    happened = result.events.where(
        sf.col("kind").isin(events.DEAD_LETTERED, events.DROPPED, events.REFUSED, events.CONSUMED)
    )
    fate = sf.concat_ws(": ", "kind", sf.coalesce("reason", "outcome"))
    return kept.union(happened.select(*place, fate.alias("fate")))
