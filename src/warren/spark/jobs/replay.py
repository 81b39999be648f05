"""`warren replay`: the rows of a table or a stream, published again, with their properties and in order per key.

The rows are cut into chunks along the column that orders them. A chunk is published as a whole before the next one
begins, and noted when it is confirmed; one that was interrupted is published again under the same ids.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from warren.amqp.constants import DEDUPLICATION_HEADER
from warren.client.address import DEFAULT_URI, parse_uri
from warren.errors import WarrenError
from warren.spark.folders import LocalFolder, folder_at
from warren.spark.jobs.empty_columns import filled_columns, without_empty
from warren.spark.jobs.job import Progress, Summary, Watcher, ignore
from warren.spark.pipelines.state import State
from warren.spark.places import absolute, is_local
from warren.spark.spark_errors import told_in_one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_ROWS: Final = 200_000
# With a rate, a chunk is a few seconds: what is repeated after a kill is that much at most.
_CHUNK_SECONDS: Final = 10
_MESSAGE: Final = ("body", "exchange", "routing_key", "properties", "headers", "headers_raw")


@dataclass(frozen=True)
class Replay:
    """From `table`, a folder, or else from `stream`."""

    state: Path
    table: str | Path | None = None
    stream: str = ""
    broker: str = DEFAULT_URI
    # None: each message's own.
    exchange: str | None = None
    routing_key: str | None = None
    where: str = ""
    key: str = "routing_key"
    order_by: str = "offset"
    rate: int = 0
    adds_id: bool = True
    chunk_rows: int = CHUNK_ROWS

    def run(self, spark: SparkSession | None = None, master: str | None = None, watch: Watcher = ignore) -> Summary:
        place = self.place
        if place is not None and is_local(place) and not Path(place).is_dir():
            raise WarrenError(
                f"{self.table} is no folder: name a table that `warren archive` or somebody else has made"
            )
        with State(self.state):
            own = None
            if spark is None:
                from warren.spark.spark_session import session

                own = spark = session("warren replay", master, **{"spark.ui.enabled": "false"})
            try:
                with told_in_one_line("replay"):
                    return _Run(self, spark, watch).run()
            finally:
                if own is not None:
                    own.stop()

    @property
    def place(self) -> str | None:
        return None if self.table is None else absolute(str(self.table), Path.cwd())

    def description(self) -> dict[str, Any]:
        """What makes two calls the same job."""
        return {
            "from": self.place if self.table is not None else f"stream {self.stream}",
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "where": self.where,
            "key": self.key,
            "order_by": self.order_by,
        }


class _Run:
    def __init__(self, job: Replay, spark: SparkSession, watch: Watcher) -> None:
        self._job = job
        self._spark = spark
        self._watch = watch
        self._file = job.state / "replay.json"
        # None for a stream: what comes to it meanwhile may have what nothing had before.
        self._filled: frozenset[str] | None = None

    def run(self) -> Summary:
        started = time.monotonic()
        rows = self._rows()
        notes = self._notes(rows)
        published = 0
        if notes["total"] and notes["done"] == len(notes["bounds"]) - 1:
            raise WarrenError(
                f"this replay is complete; to do it again, remove {self._job.state} or name another --state"
            )
        for chunk in range(notes["done"], len(notes["bounds"]) - 1):
            self._watch(Progress(notes["published"], notes["total"]))
            count = self._publish(self._chunk(rows, notes["bounds"], chunk), notes["id"], chunk)
            published += count
            notes["published"] += count
            notes["done"] = chunk + 1
            self._write(notes)
        self._watch(Progress(notes["published"], notes["total"]))
        seconds = round(time.monotonic() - started, 3)
        where = self._job.exchange if self._job.exchange is not None else "their own exchanges"
        text = f"{published:,} messages replayed to {where}" + (
            f", {notes['published']:,} with those of earlier runs" if notes["published"] > published else ""
        )
        return Summary("replay", published, seconds, text, {"total": notes["total"], "chunks": notes["done"]})

    def _rows(self) -> DataFrame:
        job = self._job
        if job.place is not None:
            rows = self._table(job.place)
            # Of the whole table, whose files are known from here on: a filter may choose otherwise each time.
            self._filled = filled_columns(rows)
        else:
            rows = self._spark.read.format("warren").option("uri", job.broker).option("stream", job.stream).load()
        for column in (job.order_by, job.key, "body"):
            if column not in rows.columns:
                raise WarrenError(f"there is no column {column}; there are {', '.join(rows.columns)}")
        return rows.where(job.where) if job.where else rows

    def _table(self, place: str) -> DataFrame:
        reader = self._spark.read.option("basePath", place)
        log = folder_at(f"{place}/_delta_log", self._spark)
        # Its first entry, or after a while only what sums up many.
        if log.read(f"{0:020d}.json") is None and log.read("_last_checkpoint") is None:
            return reader.parquet(place)
        from deltalake import DeltaTable

        return reader.parquet(*(each.removeprefix("file://") for each in DeltaTable(place).file_uris()))

    def _notes(self, rows: DataFrame) -> dict[str, Any]:
        """Where the job stands. The cuts are made once, so that a chunk is the same rows in every attempt."""
        if self._file.exists():
            notes: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
            if notes["job"] != self._job.description():
                raise WarrenError(f"{self._job.state} belongs to another replay; name another --state")
            return notes
        bounds, total = self._cut(rows)
        notes = {
            "job": self._job.description(),
            "id": str(uuid4()),
            "bounds": bounds,
            "total": total,
            "done": 0,
            "published": 0,
        }
        self._write(notes)
        return notes

    def _cut(self, rows: DataFrame) -> tuple[list[int], int]:
        """Every chunk is from one bound up to the next. Times are cut as microseconds."""
        from pyspark.sql import functions as f

        place = self._place(rows)
        counts = rows.agg(f.count("*"), f.count(place), f.min(place), f.max(place)).first()
        assert counts is not None
        total, ordered, low, high = counts
        if ordered < total:
            raise WarrenError(
                f"{total - ordered:,} rows have no {self._job.order_by} to be ordered by; name another --order-by"
            )
        if not total:
            return [0], 0
        size = (
            self._job.chunk_rows if not self._job.rate else min(self._job.chunk_rows, self._job.rate * _CHUNK_SECONDS)
        )
        pieces = -(-total // max(1, size))
        cuts = [low, high + 1]
        if pieces > 1:
            shares = [each / pieces for each in range(1, pieces)]
            found = rows.agg(f.percentile_approx(place, shares, 10_000)).first()
            assert found is not None
            cuts += found[0]
        return sorted(set(cuts)), total

    def _place(self, rows: DataFrame) -> Any:
        from pyspark.sql import functions as f
        from pyspark.sql.types import IntegralType, TimestampType

        kind = rows.schema[self._job.order_by].dataType
        column = f.col(self._job.order_by)
        if isinstance(kind, TimestampType):
            return f.unix_micros(column)
        if isinstance(kind, IntegralType):
            return column.cast("long")
        raise WarrenError(f"cannot order by {self._job.order_by}, which is {kind.simpleString()}: a number or time can")

    def _chunk(self, rows: DataFrame, bounds: list[int], chunk: int) -> DataFrame:
        place = self._place(rows)
        return rows.where((place >= bounds[chunk]) & (place < bounds[chunk + 1]))

    def _publish(self, rows: DataFrame, replay: str, chunk: int) -> int:
        from pyspark.sql import functions as f

        from warren.spark.options import WriteOptions

        job = self._job
        options = WriteOptions(
            parse_uri(job.broker),
            exchange=self._fixed(job.exchange, rows, "exchange"),
            routing_key=self._fixed(job.routing_key, rows, "routing_key"),
            persistent=None,
            deduplication_header=DEDUPLICATION_HEADER if job.adds_id else "",
        )
        # One task keeps the pace exactly; without one, equal keys share a task, which publishes in order.
        parts = 1 if job.rate else self._spark.sparkContext.defaultParallelism
        ties = [each for each in ("queue", "offset") if each in rows.columns and each != job.order_by]
        carried = rows if self._filled is None else without_empty(rows, self._filled)
        ordered = carried.repartition(parts, f.col(job.key)).sortWithinPartitions(job.order_by, *ties)
        messages = ordered.select(*(name for name in _MESSAGE if name in carried.columns))
        step = PacedPublishStep(options, replay, chunk, job.rate)
        return sum(row.messages for row in messages.mapInArrow(step, "messages LONG").collect())

    def _fixed(self, given: str | None, rows: DataFrame, column: str) -> str | None:
        return "" if given is None and column not in rows.columns else given

    def _write(self, notes: dict[str, Any]) -> None:
        LocalFolder(self._file.parent).write(self._file.name, json.dumps(notes))


@dataclass(frozen=True)
class PacedPublishStep:
    options: Any
    replay: str
    chunk: int
    # Messages a second; 0 is as fast as possible.
    rate: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from warren.spark.pipelines.publish_step import PublishStep

        step = PublishStep(self.options, self.replay, self.chunk)
        return step(paced(batches, self.rate) if self.rate else batches)


def paced(batches: Iterator[Any], rate: int) -> Iterator[Any]:
    """Small slices, each when its time has come. What was late is not made up for in one burst."""
    size = max(1, rate // 20)
    due = time.monotonic()
    for batch in batches:
        for at in range(0, batch.num_rows, size):
            piece = batch.slice(at, size)
            now = time.monotonic()
            if due > now:
                time.sleep(due - now)
            due = max(due, now - 0.1) + piece.num_rows / rate
            yield piece
