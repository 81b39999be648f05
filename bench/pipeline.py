"""`make bench-pipeline`: how long a message takes through a pipeline, from its publish until a consumer of the output
queue has it, and where Spark spends that time. One message at a time, at moments that have nothing to do with batches.
CPU time is that of Spark, of all its Python processes and of the broker, which on a busy machine tells more.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import pika
from rich.console import Console
from rich.table import Table

from bench.path import own_cpu
from bench.spark import RESULTS, SCRATCH, TIMEOUT, broker
from warren.core import IS_COMPILED
from warren.spark.pipelines.read_file import loads
from warren.spark.pipelines.runner import session_of
from warren.spark.pipelines.topology import declare
from warren.spark.pipelines.writers import start

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE: Final = """\
pipeline: latency
broker: BROKER
folder: FOLDER
spark: SETTINGS
sources:
  orders: {SOURCE, schema: "id BIGINT NOT NULL, amount DOUBLE"}
views:
  made: SELECT id, amount * 2 AS amount FROM orders WHERE amount > 0
sinks:
  out: {from: made, queue: out}
dead-letters: {queue: dead}
"""
SOURCES: Final = {"stream": "stream: orders", "queue": "queue: orders"}
# As docs/pipelines.md has it.
QUICK_COMPILER: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
# Until all processes are there and Java has compiled most of what a batch does.
WARM_UP: Final = 20
# Seconds between messages: each finds a query that waits, at some other moment.
PAUSES: Final = (0.5, 0.83, 0.61, 0.97, 0.72)
# Spark's names for the parts of a batch.
PARTS: Final = ("latestOffset", "walCommit", "queryPlanning", "getBatch", "addBatch", "commitBatch", "commitOffsets")


def measure(uri: str, kind: str, messages: int, folder: Path, settings: dict[str, str]) -> dict[str, Any]:
    text = FILE.replace("BROKER", uri).replace("FOLDER", str(folder)).replace("SOURCE", SOURCES[kind])
    definition = loads(text.replace("SETTINGS", json.dumps(settings)), "latency.yaml", folder)
    declare(definition)
    spark = session_of(definition)
    query = start(spark, definition, definition.sinks["out"], once=False)
    try:
        list(travel_times(uri, WARM_UP))
        used = own_cpu()
        ordered = sorted(travel_times(uri, messages))
        used = own_cpu() - used
        parts = parts_of_batches(query, messages)
    finally:
        query.stop()
        spark.stop()
    found = {"p50": statistics.median(ordered), "p90": ordered[len(ordered) * 9 // 10], "most": ordered[-1]}
    found["cpu"] = used / messages
    return {"source": kind, **{name: round(value * 1000) for name, value in found.items()}, "parts": parts}


def travel_times(uri: str, messages: int) -> Iterator[float]:
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    try:
        for number in range(messages):
            begin = time.perf_counter()
            channel.basic_publish("", "orders", json.dumps({"id": number, "amount": 1.5}).encode())
            method, _, _ = next(channel.consume("out", auto_ack=True, inactivity_timeout=TIMEOUT))
            if method is None:
                raise SystemExit(f"message {number} did not come out within {TIMEOUT:g} s")
            yield time.perf_counter() - begin
            connection.sleep(PAUSES[number % len(PAUSES)])
    finally:
        connection.close()


def parts_of_batches(query: StreamingQuery, most: int) -> dict[str, float]:
    """Milliseconds, the median of each in the last batches."""
    progress = [json.loads(each.json) for each in query.recentProgress[-most:]]
    batches = [each["durationMs"] for each in progress if each["numInputRows"]]
    return {part: statistics.median(each.get(part, 0) for each in batches) for part in PARTS}


@click.command(help=__doc__)
@click.option("--messages", default=60, show_default=True)
@click.option("--source", "sources", multiple=True, type=click.Choice([*SOURCES]), default=[*SOURCES])
@click.option("--quick-compiler", is_flag=True, help="Java's: sooner warm, and slower for good.")
def main(messages: int, sources: tuple[str, ...], quick_compiler: bool) -> None:
    settings = QUICK_COMPILER if quick_compiler else {}
    SCRATCH.mkdir(parents=True, exist_ok=True)
    found = []
    for kind in sources:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as name, broker(Path(name)) as uri:
            found.append(measure(uri, kind, messages, Path(name), settings))
    table = Table("source", "p50 ms", "p90 ms", "most ms", "CPU ms", *PARTS)
    for each in found:
        cells = [each["p50"], each["p90"], each["most"], each["cpu"], *(each["parts"].get(part) for part in PARTS)]
        table.add_row(each["source"], *(f"{cell:g}" if cell is not None else "" for cell in cells))
    Console(width=140).print(table)
    facts = {"cores": os.cpu_count(), "compiled": IS_COMPILED, "load_average": os.getloadavg()[0], **settings}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "pipeline.json").write_text(json.dumps({**facts, "figures": found}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
