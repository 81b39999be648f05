"""The message path over DataFrames: what a broker with these definitions does with these publishes.

    result = MessagePath("definitions.json").run(spark.read.parquet("publishes"))
    result.deliveries, result.returns, result.refusals, result.confirms, result.dead_letters, result.queues

Two stages, both played by the broker's own modules: check and route, in parallel over all rows (routing.py), and the
queues, in parallel over the components that dead letters make of them and in order within each (play.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from warren.errors import WarrenError
from warren.spark.arrow_schema import spark_type
from warren.spark.path import events
from warren.spark.path.columns import Defaults, PublishTable, question
from warren.spark.path.components import Components, components_of
from warren.spark.path.consumers import Crew, attach, read_crew
from warren.spark.path.play import Player
from warren.spark.path.result import PathResult
from warren.spark.path.routing import route_type, router_of
from warren.spark.path.spill import IN_MEMORY
from warren.spark.path.topology import Topology, read_topology

# Of a row that goes to a queue, what the queue stage wants.
_ROW: Final = (
    "message", "vhost", "publisher", "sequence", "user", "exchange", "routing_key", "mandatory", "body_size", "at",
    "starts_at", "ends_at",
)  # fmt: skip
_OPTIONAL: Final = ("properties", "headers", "headers_raw", "encoded")
_TASKS_PER_CORE: Final = 4
# Stages of a row in a stream: what is known of a queue, what is in it, what is new.
KNOWN: Final = 0
KEPT: Final = 1
PUBLISH: Final = 2


class MessagePath:
    def __init__(
        self,
        definitions: object,
        *,
        max_message_size: int | None = None,
        interceptors: Sequence[str] = (),
        exchange_decorators: Sequence[str] = (),
    ) -> None:
        """`definitions`: a path, a JSON text or a dict, as RabbitMQ exports them. Extensions as `package.module:Class`,
        which workers must be able to import as well."""
        self.topology: Topology = read_topology(definitions, max_message_size, interceptors, exchange_decorators)

    def run(
        self,
        publishes: DataFrame,
        consumers: object = None,
        *,
        user: str | None = None,
        vhost: str = "/",
        order_by: str | Sequence[str] | None = None,
        starts_at: datetime | None = None,
        until: datetime | None = None,
        partitions: int | None = None,
        in_memory: int = IN_MEMORY,
        persist: bool = True,
    ) -> PathResult:
        """Nothing is computed before a DataFrame of the result is asked for."""
        crew = None if consumers is None else read_crew(consumers)
        check_crew(self.topology, crew)
        source = self._source(publishes, user, vhost, order_by)
        frame = with_span(source, starts_at, until)
        routed = as_intercepted(with_route(frame, source, self.topology, crew), self.topology)
        stages = Stages(self.topology, crew, source, partitions, in_memory)
        return PathResult(routed, stages.components, stages, source.order_columns(), persist)

    def stream(
        self,
        publishes: DataFrame,
        out: str,
        *,
        checkpoint: str | None = None,
        user: str | None = None,
        vhost: str = "/",
        order_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
    ) -> DataStreamWriter:
        """The same path over a stream of publishes, into Parquet below `out`; the caller sets a trigger and starts it.

        Stopped and started again with the same checkpoint it goes on where it was; `StreamResult` reads what is there.
        """
        from warren.spark.path.streaming import PathWriter

        defaults = Defaults(default_user(self.topology, publishes, user), vhost)
        writer = PathWriter(self.topology, out, defaults, order_by, partitions)
        query = publishes.writeStream.foreachBatch(writer.write)
        return query.option("checkpointLocation", checkpoint or f"{out}/_checkpoint")

    def route(self, publishes: DataFrame, *, user: str | None = None, vhost: str = "/") -> DataFrame:
        """Check and route alone: the publishes' columns and `route`, what the broker says to each."""
        source = self._source(publishes, user, vhost)
        # Only routes that change with time ask when it all began.
        frame = with_span(source, None, None) if self.topology.changes else source.frame()
        return as_intercepted(with_route(frame, source, self.topology, None), self.topology)

    def _source(
        self, publishes: DataFrame, user: str | None, vhost: str, order_by: str | Sequence[str] | None = None
    ) -> PublishTable:
        defaults = Defaults(default_user(self.topology, publishes, user), vhost)
        return PublishTable(publishes, defaults, order_by, with_bodies=self.topology.intercepts)


class Stages:
    """How the second stage is made from the first."""

    def __init__(
        self,
        topology: Topology,
        crew: Crew | None,
        source: PublishTable,
        partitions: int | None,
        in_memory: int = IN_MEMORY,
        keeps_state: bool = False,
    ) -> None:
        self.topology = topology
        self.components: Components = components_of(topology.sample, frozenset() if crew is None else crew.queues)
        self._player = Player(topology, crew, in_memory, keeps_state)
        self._source = source
        self._partitions = partitions
        self.has_ttl = topology.intercepts or "expiration" in source.property_names

    def play(self, rows: DataFrame, state: DataFrame | None = None) -> DataFrame:
        """Events of the components in `rows`, each in order."""
        columns = [*_ROW, *(name for name in _OPTIONAL if name in rows.columns), "component", "may_refuse", "via"]
        order = self._source.order_columns()
        chosen = rows.select(*columns, *(name for name in order if name not in columns))
        sort: list[str | Column] = [*order]
        if state is not None:
            # What the last batch left comes first: what is known of the queues, then what is in them.
            chosen = chosen.withColumn("stage", sf.lit(PUBLISH)).unionByName(state, allowMissingColumns=True)
            sort = ["stage", sf.when(sf.col("stage") < PUBLISH, sf.col("sequence")), *order]
        count = self._partitions or default_partitions(rows.sparkSession)
        player = self._player
        return (
            chosen.repartition(count, "component")
            .sortWithinPartitions(*sort)
            .mapInArrow(lambda batches: player(batches), events.SPARK_SCHEMA)
        )


def default_partitions(spark: SparkSession) -> int:
    """More than cores, so that whoever shares a task with a hot component is few."""
    try:
        return spark.sparkContext.defaultParallelism * _TASKS_PER_CORE
    except PySparkException:
        # Spark Connect keeps its cores to itself.
        return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def with_span(source: PublishTable, starts_at: datetime | None, until: datetime | None) -> DataFrame:
    """Beside every row, when it all starts and ends: by default with the first and the last publish."""
    frame = source.frame()
    if not source.has_time:
        first, last = sf.lit(0).cast("bigint"), sf.lit(0).cast("bigint")
        spanned = frame
    else:
        right = frame.where(sf.col("problem").isNull())
        span = right.agg(sf.min("at").alias("first_at"), sf.max("at").alias("last_at"))
        spanned = frame.crossJoin(sf.broadcast(span))
        first, last = sf.col("first_at"), sf.col("last_at")
    if starts_at is not None:
        first = sf.lit(_millis(starts_at))
    if until is not None:
        last = sf.greatest(last, sf.lit(_millis(until)))
    return spanned.withColumns({"starts_at": first.cast("bigint"), "ends_at": last.cast("bigint")}).drop(
        "first_at", "last_at"
    )


def with_route(
    frame: DataFrame, source: PublishTable, topology: Topology, crew: Crew | None, column: str = "route"
) -> DataFrame:
    return frame.withColumn(column, route_function(topology, crew)(question(source, topology)))


def as_intercepted(routed: DataFrame, topology: Topology) -> DataFrame:
    """With what an interceptor made of each publish in its place; as it was where it was refused."""
    if not topology.intercepts:
        return routed
    changed = sf.col("route.changed")
    names = ("exchange", "routing_key", "mandatory", "body_size")
    columns = {name: sf.coalesce(changed[name], sf.col(name)) for name in names}
    columns["properties"] = sf.struct(changed["expiration"].alias("expiration"))
    columns["encoded"] = changed["encoded"]
    columns["route"] = sf.col("route").dropFields("changed")
    return routed.drop("headers", "headers_raw", "body").withColumns(columns)


def route_function(topology: Topology, crew: Crew | None) -> Callable[[Column], Column]:
    def route(rows: pa.Array) -> pa.Array:
        return router_of(topology, crew).route(rows)

    # Its types say which kind it is; to name the kind as well is what Spark warns about.
    declare: Any = arrow_udf
    function: Callable[[Column], Column] = declare(route, spark_type(route_type(topology)))
    return function


def default_user(topology: Topology, publishes: DataFrame, user: str | None) -> str:
    users = topology.sample.access.users
    if user is not None:
        return user
    if "user" in publishes.columns or "guest" in users:
        return "guest"
    raise WarrenError(
        "publishes have no column user and the definitions know no guest: say whose they are with user=... "
        f"(known are {', '.join(sorted(users))})"
    )


def check_crew(topology: Topology, crew: Crew | None) -> None:
    """On the driver, so that a mistake is told before anything runs."""
    if crew is None:
        return
    for at, plan in enumerate(crew.plans):
        if (plan.vhost, plan.queue) not in topology.queues:
            raise WarrenError(f"consumers: consumers[{at}].queue: no queue '{plan.queue}' in vhost '{plan.vhost}'")
    attach(topology.node(), crew)


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)
