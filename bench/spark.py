"""`make bench-spark`: the Spark source beside one that yields prebuilt Arrow, and the sink, as JSON and as a table.

Both sources have the same columns, rows and partitions and are read by the same session in turn; the broker runs on the
same cores, so whatever it takes is missing in the figure of the source.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import click
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

from warren.amqp.fields import Field
from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicPublish, QueueDeclare, QueueDeclareOk, QueuePurge, QueuePurgeOk
from warren.client.address import parse_uri
from warren.client.session import frame_of
from warren.core import IS_COMPILED
from warren.spark import session
from warren.spark.consume import BATCH_ROWS, Range, open_client, read_range
from warren.spark.publish import ConfirmedPublisher
from warren.spark.schema import DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "bench" / "results"
SCRATCH: Final = ROOT / "build" / "bench"
CHANNEL: Final = 1
WINDOW: Final = 5000
TIMEOUT: Final = 120.0


@dataclass
class Figure:
    name: str
    size: int
    rows: int
    # Rows a second, of each run.
    rates: list[float]

    @property
    def rate(self) -> float:
        return median(self.rates)


class PrebuiltSource(DataSource):
    """The same rows, from memory: what Spark itself can take in."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return PrebuiltReader(str(self.options["file"]), int(self.options["rows"]), int(self.options["partitions"]))


class PrebuiltReader(DataSourceReader):
    def __init__(self, file: str, rows: int, partitions: int) -> None:
        self._file = file
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._rows // self._partitions) for _ in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(self._file) as reader:
            batch = reader.get_batch(0)
        left = int(partition.value)
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "warren", "serve", "--amqp-port", "0", "--http-port", "-1"]
    process = subprocess.Popen([*command, "--data-dir", str(folder / "data")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        place = process.stdout.readline().split()[2].removeprefix("amqp=")
        yield f"amqp://guest:guest@{place}/%2F"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def fill(uri: str, size: int, rows: int, kind: str = "stream") -> str:
    """A queue of that type with so many persistent messages."""
    name = f"{kind}-{size}"
    with open_client(parse_uri(uri), TIMEOUT) as client:
        arguments = {"x-queue-type": Field("S", kind)}
        client.call(QueueDeclare(queue=name, durable=True, arguments=arguments), QueueDeclareOk)
        publisher = ConfirmedPublisher(client, WINDOW, lambda method, content: None)
        publish = frame_of(BasicPublish(exchange="", routing_key=name))
        message = publish + content_frames(CHANNEL, b"\x10\x00\x02", b"x" * size, client.frame_max)
        for _ in range(rows):
            publisher.publish(message)
        publisher.finish()
    return name


def prebuild(uri: str, name: str, folder: Path) -> Path:
    """A record batch as the source makes it, in a file."""
    batches = read_range(parse_uri(uri), Range(name, 0, BATCH_ROWS), WINDOW, TIMEOUT, True)
    file = folder / f"{name}.arrow"
    batch = next(iter(batches))
    with pa.ipc.new_file(str(file), batch.schema) as writer:
        writer.write_batch(batch)
    batches.close()  # type: ignore[attr-defined]
    return file


def timed(work: Callable[[], None], rows: int) -> float:
    begin = time.perf_counter()
    work()
    return rows / (time.perf_counter() - begin)


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure_sources(spark: SparkSession, uri: str, folder: Path, size: int, rows: int, runs: int) -> list[Figure]:
    name = fill(uri, size, rows)
    file = prebuild(uri, name, folder)
    figures = []
    for partitions in (1, 2, 4):
        ours = spark.read.format("warren").options(uri=uri, stream=name, minPartitions=partitions).load()
        theirs = spark.read.format("prebuilt").options(file=str(file), rows=rows, partitions=partitions).load()
        # By name, in turn: both meet the same weather. The first of each warms the JVM up.
        frames = {"stream": ours, "prebuilt": theirs}
        rates: dict[str, list[float]] = {key: [] for key in frames}
        for run in range(runs + 1):
            for key, frame in frames.items():
                rate = timed(lambda frame=frame: drain(frame), rows)  # type: ignore[misc]
                if run:
                    rates[key].append(rate)
        figures += [told(Figure(f"{key}, {partitions} partitions", size, rows, rates[key])) for key in frames]
    return figures


def measure_sink(spark: SparkSession, uri: str, size: int, rows: int, runs: int) -> list[Figure]:
    with open_client(parse_uri(uri), TIMEOUT) as client:
        client.call(QueueDeclare(queue="sink", durable=True), QueueDeclareOk)
    frame = spark.range(0, rows, 1, 2).selectExpr(f"repeat('x', {size}) as body")
    writer = frame.write.format("warren").options(uri=uri, exchange="", routingKey="sink", maxInFlight=20000)
    rates = []
    for run in range(runs + 1):
        rate = timed(writer.mode("append").save, rows)
        if run:
            rates.append(rate)
        with open_client(parse_uri(uri), TIMEOUT) as client:
            client.call(QueuePurge(queue="sink"), QueuePurgeOk)
    return [told(Figure("sink, 2 partitions, confirmed", size, rows, rates))]


def told(figure: Figure) -> Figure:
    """As soon as it is known: the whole takes minutes."""
    click.echo(f"{figure.name}, {figure.size} B: {figure.rate:,.0f}/s")
    return figure


def share_of(figure: Figure, limit: Figure) -> float:
    """Run by run, because two that follow each other have the machine alike."""
    return median(ours / theirs for ours, theirs in zip(figure.rates, limit.rates, strict=True))


def show(figures: list[Figure]) -> None:
    table = Table("what", "body", "rows", "rows/s", "of prebuilt")
    by_name = {(figure.name, figure.size): figure for figure in figures}
    for figure in figures:
        limit = by_name.get((figure.name.replace("stream", "prebuilt"), figure.size))
        share = f"{share_of(figure, limit):.0%}" if limit is not None and limit is not figure else ""
        table.add_row(figure.name, f"{figure.size} B", f"{figure.rows:,}", f"{figure.rate:,.0f}", share)
    Console().print(table)


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Messages of 100 B; of 1 KiB it is a third.")
@click.option("--runs", default=7, show_default=True, help="Measured runs of each; the median counts.")
def main(rows: int, runs: int) -> None:
    """Measure the Spark source and sink."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name, broker(Path(name)) as uri:
        spark = session("bench", "local[2]", **{"spark.ui.enabled": False})
        spark.dataSource.register(PrebuiltSource)
        for size, count in ((100, rows), (1024, rows // 3)):
            figures += measure_sources(spark, uri, Path(name), size, count, runs)
        for size, count in ((100, rows // 2), (1024, rows // 5)):
            figures += measure_sink(spark, uri, size, count, runs)
        spark.stop()
    show(figures)
    RESULTS.mkdir(exist_ok=True)
    facts = {
        "cores": os.cpu_count(),
        "compiled": IS_COMPILED,
        "load_average": os.getloadavg()[0],
        "figures": [{**asdict(figure), "rate": figure.rate} for figure in figures],
    }
    (RESULTS / "spark.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
