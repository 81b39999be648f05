"""`make bench-jobs`: a million messages archived and replayed, beside what source and sink can do by themselves.

What comes out must be what went in, each message as often, and in order for every key; otherwise it ends with 1.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table

from bench.spark import RESULTS, SCRATCH, TIMEOUT, WINDOW, broker, drain
from warren.amqp.fields import Field
from warren.amqp.frames import content_frames
from warren.amqp.methods import (
    BasicPublish,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.amqp.properties import Properties, encode_properties
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.client.session import frame_of
from warren.spark import session
from warren.spark.consume import open_client
from warren.spark.jobs.archive import Archive
from warren.spark.jobs.replay import Replay
from warren.spark.pipelines.model import SourceKind
from warren.spark.publish import ConfirmedPublisher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS: Final = 100
BODY: Final = 100
BEFORE: Final = "before"
AFTER: Final = "after"


@dataclass
class Figure:
    name: str
    rows: int
    seconds: float
    # The figure that this one cannot be above.
    limit: str = ""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def declare(client: Client, name: str) -> None:
    """A topic exchange, and a stream that gets all that is published to it."""
    arguments = {"x-queue-type": Field("S", "stream")}
    client.call(ExchangeDeclare(exchange=name, type="topic", durable=True), ExchangeDeclareOk)
    client.call(QueueDeclare(queue=name, durable=True, arguments=arguments), QueueDeclareOk)
    client.call(QueueBind(queue=name, exchange=name, routing_key="#"), QueueBindOk)


def fill(uri: str, count: int) -> Figure:
    begin = time.perf_counter()
    with open_client(parse_uri(uri), TIMEOUT) as client:
        for name in (BEFORE, AFTER):
            declare(client, name)
        publisher = ConfirmedPublisher(client, WINDOW, lambda method, content: None)
        methods = [frame_of(BasicPublish(exchange=BEFORE, routing_key=f"key.{key}")) for key in range(KEYS)]
        for number in range(count):
            properties = Properties(delivery_mode=2, message_id=str(number), timestamp=1_790_000_000 + number // 1000)
            body = b"%d" % number
            content = content_frames(1, encode_properties(properties), body.ljust(BODY, b"."), client.frame_max)
            publisher.publish(methods[number % KEYS] + content)
        publisher.finish()
    return Figure("published by one client", count, time.perf_counter() - begin)


def stream(spark: SparkSession, uri: str, name: str, end: int | None = None) -> DataFrame:
    reader = spark.read.format("warren").options(uri=uri, stream=name, minPartitions=2)
    return reader.load() if end is None else reader.option("endingOffsets", json.dumps({name: end})).load()


def measure(spark: SparkSession, uri: str, folder: Path, count: int) -> list[Figure]:
    figures = [fill(uri, count)]
    # Once in vain: the JVM compiles, and workers are started.
    drain(stream(spark, uri, BEFORE, min(count, 1000)))
    figures.append(timed("source alone", count, lambda: drain(stream(spark, uri, BEFORE))))
    archive = Archive(SourceKind.STREAM, BEFORE, folder / "table", uri).run(spark)
    figures.append(Figure("archive", archive.messages, archive.seconds, "source alone"))
    with open_client(parse_uri(uri), TIMEOUT) as client:
        client.call(QueueDeclare(queue="sink", durable=True), QueueDeclareOk)
    rows = spark.range(0, count, 1, 2).selectExpr(f"repeat('x', {BODY}) AS body")
    writer = rows.write.format("warren").options(uri=uri, exchange="", routingKey="sink").mode("append")
    figures.append(timed("sink alone", count, writer.save))
    replay = Replay(folder / "state", folder / "table", broker=uri, exchange=AFTER).run(spark)
    figures.append(Figure("replay", replay.messages, replay.seconds, "sink alone"))
    return figures


def timed(name: str, count: int, work: object) -> Figure:
    assert callable(work)
    begin = time.perf_counter()
    work()
    return Figure(name, count, time.perf_counter() - begin)


def differences(spark: SparkSession, uri: str, count: int) -> dict[str, int]:
    """All must be 0."""
    message = "body", "routing_key", "properties.message_id", "properties.timestamp", "properties.delivery_mode"
    before, after = stream(spark, uri, BEFORE).select(*message), stream(spark, uri, AFTER).select(*message)
    numbered = stream(spark, uri, AFTER).selectExpr(
        "CAST(properties.message_id AS BIGINT) AS number",
        "lag(CAST(properties.message_id AS BIGINT)) OVER (PARTITION BY routing_key ORDER BY offset) AS before",
    )
    return {
        "not archived or replayed": before.exceptAll(after).count(),
        "replayed and never published": after.exceptAll(before).count(),
        "out of order in their key": numbered.where("before >= number").count(),
        "archived or replayed too few or too many": abs(count - after.count()),
    }


def show(figures: list[Figure], wrong: dict[str, int]) -> None:
    by_name = {figure.name: figure for figure in figures}
    table = Table("what", "messages", "seconds", "messages/s", "of its limit")
    for figure in figures:
        share = f"{figure.rate / by_name[figure.limit].rate:.0%} of {figure.limit}" if figure.limit else ""
        table.add_row(figure.name, f"{figure.rows:,}", f"{figure.seconds:.1f}", f"{figure.rate:,.0f}", share)
    console = Console()
    console.print(table)
    for reason, count in wrong.items():
        console.print(f"{count:,} messages {reason}")


@click.command()
@click.option("--messages", default=1_000_000, show_default=True, help="How many, of 100 B and 100 keys.")
def main(messages: int) -> None:
    """Archive and replay a stream, and compare what came out with what went in."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name, broker(Path(name)) as uri:
        spark = session("bench jobs", "local[2,4]", **{"spark.ui.enabled": False})
        figures = measure(spark, uri, Path(name), messages)
        wrong = differences(spark, uri, messages)
        spark.stop()
    show(figures, wrong)
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(figure), "messages_per_second": round(figure.rate)} for figure in figures]
    (RESULTS / "jobs.json").write_text(json.dumps({"figures": rows, "wrong": wrong}, indent=2) + "\n")
    sys.exit(1 if any(wrong.values()) else 0)


if __name__ == "__main__":
    main()
