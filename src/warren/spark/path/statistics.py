"""Counts per exchange, queue and publisher, made from the other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from warren.spark.path import events

if TYPE_CHECKING:
    from warren.spark.path.result import PathResult


def statistics_of(result: PathResult) -> DataFrame:
    routed = result.routed.where(sf.col("problem").isNull())
    exchanges = _long("exchange", sf.col("exchange"), routed, _of_routing())
    publishers = _long("publisher", sf.col("publisher"), routed, _of_routing())
    nacked = result.confirms.where("outcome = 'nack'")
    nacks = _long("publisher", sf.col("publisher"), nacked, {"nacked": sf.count("*")})
    dead = result.dead_letters
    republished = _long("exchange", sf.col("exchange"), dead, {"dead_letters_in": sf.count("*")})
    return exchanges.union(publishers).union(nacks).union(republished).union(_of_queues(result))


def _of_routing() -> dict[str, Column]:
    route = sf.col("route")
    accepted = route["code"] == 0
    return {
        "published": sf.count("*"),
        "refused": sf.count_if(~accepted),
        "returned": sf.count_if(route["returned"]),
        "unroutable": sf.count_if(accepted & (sf.size(route["queues"]) == 0)),
        "routed_to_queues": sf.sum(sf.size(route["queues"])),
        "bytes": sf.sum("body_size"),
    }


def _of_queues(result: PathResult) -> DataFrame:
    name = sf.col("queue")
    kept, entered = result.queues, result.deliveries
    figures = _long("queue", name, entered, {"delivered": sf.count("*"), "delivered_bytes": sf.sum("body_size")})
    ready = {"ready": sf.count_if(sf.col("state") == "ready"), "ready_bytes": sf.sum("body_size")}
    figures = figures.union(_long("queue", name, kept, ready))
    left = result.events.where(
        sf.col("kind").isin(events.DEAD_LETTERED, events.DROPPED, events.REFUSED, events.CONSUMED)
    )
    kind = sf.when(sf.col("kind") == events.CONSUMED, sf.col("outcome")).otherwise(
        sf.concat_ws("_", sf.col("kind"), sf.col("reason"))
    )
    counted = left.groupBy("vhost", "queue", kind.alias("figure")).agg(sf.count("*").alias("count"))
    return figures.union(counted.select(sf.lit("queue"), "vhost", "queue", "figure", "count"))


def _long(of: str, name: Column, rows: DataFrame, figures: dict[str, Column]) -> DataFrame:
    """A row per figure that is not 0."""
    counted = rows.groupBy("vhost", name.alias("name")).agg(
        *[value.cast("bigint").alias(figure) for figure, value in figures.items()]
    )
    pairs = sf.explode(sf.create_map(*[part for figure in figures for part in (sf.lit(figure), sf.col(figure))]))
    return counted.select(sf.lit(of).alias("of"), "vhost", "name", pairs.alias("figure", "count")).where("count != 0")
