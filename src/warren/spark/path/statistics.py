"""Counts per exchange, queue and publisher: one pass over what was routed, one over what happened in queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from warren.spark.path import events

if TYPE_CHECKING:
    from warren.spark.path.result import PathResult


def statistics_of(result: PathResult) -> DataFrame:
    return _of_routing(result).union(_of_queues(result)).union(_of_answers(result)).where("count != 0")


def _of_routing(result: PathResult) -> DataFrame:
    route = sf.col("route")
    accepted = route["code"] == 0
    figures = {
        "published": sf.count("*"),
        "refused": sf.count_if(~accepted),
        "returned": sf.count_if(route["returned"]),
        "unroutable": sf.count_if(accepted & (sf.size(route["queues"]) == 0)),
        "routed_to_queues": sf.sum(sf.size(route["queues"])),
        "bytes": sf.sum("body_size"),
    }
    names = sf.explode(sf.array(_pair("exchange", sf.col("exchange")), _pair("publisher", sf.col("publisher"))))
    rows = result.routed.where(sf.col("problem").isNull()).select("vhost", names.alias("about"), "route", "body_size")
    counted = rows.groupBy("vhost", "about.of", "about.name").agg(
        *[value.cast("bigint").alias(figure) for figure, value in figures.items()]
    )
    pairs = sf.explode(sf.create_map(*[part for figure in figures for part in (sf.lit(figure), sf.col(figure))]))
    return counted.select("of", "vhost", "name", pairs.alias("figure", "count"))


def _of_queues(result: PathResult) -> DataFrame:
    """Each row counts for one or more figures; those in bytes add its size."""
    entered: list[tuple[str, int | str]] = [("delivered", 1), ("delivered_bytes", "body_size")]
    ready: list[tuple[str, int | str]] = [("ready", 1), ("ready_bytes", "body_size")]
    kind, outcome = sf.col("kind"), sf.col("outcome")
    is_appended = (kind == events.ENTERED) & (outcome == events.APPENDED)
    named = sf.when(kind == events.CONSUMED, outcome).otherwise(sf.concat_ws("_", kind, "reason"))
    letters = sf.array(_figure("queue", named, 1), _figure("exchange", sf.lit("dead_letters_in"), 1))
    told = (
        sf.when(is_appended, _figures([*entered, *ready]))
        .when(kind == events.ENTERED, _figures(entered))
        .when((kind == events.KEPT) & (outcome == "ready"), _figures(ready))
        .when(kind == events.DEAD_LETTERED, letters)
        .when(kind.isin(events.DROPPED, events.REFUSED, events.CONSUMED), sf.array(_figure("queue", named, 1)))
    )
    played = result.events.select("vhost", "queue", "exchange", "body_size", told.alias("told"))
    plain = result.entries.select("vhost", "queue", "exchange", "body_size", _figures([*entered, *ready]).alias("told"))
    rows = played.union(plain).select("vhost", "queue", "exchange", sf.explode("told").alias("figure"))
    name = sf.when(sf.col("figure.of") == "queue", sf.col("queue")).otherwise(sf.col("exchange"))
    counted = rows.groupBy(sf.col("figure.of").alias("of"), "vhost", name.alias("name"), "figure.figure")
    return counted.agg(sf.sum("figure.count").cast("bigint").alias("count"))


def _of_answers(result: PathResult) -> DataFrame:
    nacked = result.confirms.where("outcome = 'nack'").groupBy("vhost", sf.col("publisher").alias("name"))
    counted = nacked.agg(sf.count("*").alias("count"))
    return counted.select(sf.lit("publisher").alias("of"), "vhost", "name", sf.lit("nacked").alias("figure"), "count")


def _pair(of: str, name: Column) -> Column:
    return sf.struct(sf.lit(of).alias("of"), name.alias("name"))


def _figures(figures: list[tuple[str, int | str]]) -> Column:
    return sf.array(*[_figure("queue", sf.lit(name), value) for name, value in figures])


def _figure(of: str, name: Column, value: int | str) -> Column:
    count = sf.lit(value) if isinstance(value, int) else sf.coalesce(sf.col(value), sf.lit(0))
    return sf.struct(sf.lit(of).alias("of"), name.alias("figure"), count.cast("bigint").alias("count"))
