"""`warren archive`: a queue or stream into partitioned Parquet or Delta. A pipeline with one query, run to its end.

The table holds its own checkpoint, so the same command goes on where it, or a killed one before it, was.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warren.client.address import DEFAULT_URI
from warren.errors import WarrenError
from warren.spark.arrow_schema import ARROW
from warren.spark.folders import folder_at
from warren.spark.jobs.job import Progress, Summary, Watcher, ignore
from warren.spark.pipelines.model import Definition, Sink, SinkKind, Source, SourceKind, View
from warren.spark.pipelines.runner import run
from warren.spark.places import absolute, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE: Final = "_warren"
# One query has a whole session to itself: larger batches cost less for each message.
ROWS: Final = 250_000
_COLUMNS: Final = ", ".join(ARROW.names)
# Not the time of archiving, so that a batch that is written again lands in the same folder.
_PARTITIONS: Final = {
    "day": "coalesce(date_format(timestamp, 'yyyy-MM-dd'), 'undated')",
    "hour": "coalesce(date_format(timestamp, 'yyyy-MM-dd-HH'), 'undated')",
    "queue": None,
    "exchange": None,
    "routing_key": None,
}
PARTITIONS: Final = tuple(_PARTITIONS)


@dataclass(frozen=True)
class Archive:
    kind: SourceKind
    name: str
    # A folder, or an address that Spark can name.
    table: str | Path
    broker: str = DEFAULT_URI
    format: SinkKind = SinkKind.PARQUET
    partition_by: tuple[str, ...] = ("day",)
    follow: bool = False
    rows: int = ROWS

    def definition(self) -> Definition:
        unknown = [each for each in self.partition_by if each not in _PARTITIONS]
        if unknown:
            raise WarrenError(f"cannot partition by {unknown[0]}; there are {', '.join(PARTITIONS)}")
        table = self._place
        added = "".join(f", {_PARTITIONS[each]} AS {each}" for each in self.partition_by if _PARTITIONS[each])
        return Definition(
            name="archive",
            base=Path.cwd(),
            broker=self.broker,
            folder=self._state,
            storage=f"{table}/{STATE}",
            sources={"messages": Source("messages", self.kind, self.name, max_rows=self.rows, declare=False)},
            views={"kept": View("kept", f"SELECT {_COLUMNS}{added} FROM messages")},  # noqa: S608 - names from a list
            sinks={"table": Sink("table", self.format, table, "kept", partition_by=self.partition_by)},
        )

    def run(self, spark: SparkSession | None = None, master: str | None = None, watch: Watcher = ignore) -> Summary:
        if spark is None and not is_local(self._place):
            # What is looked up before and after the query is reached through Spark.
            from warren.spark.spark_session import session

            spark = session("warren archive", master, **{"spark.ui.enabled": "false"})
            try:
                return self.run(spark, master, watch)
            finally:
                spark.stop()
        self._refuse_another_source(spark)
        started = time.monotonic()

        def show(status: dict[str, Any]) -> None:
            query = status["queries"][0]
            lag = query["lag"]
            watch(Progress(query["rows"], None if lag is None or self.follow else query["rows"] + lag))

        definition = replace(self.definition(), master=master or "")
        status = run(definition, once=not self.follow, spark=spark, master=master, watch=show)
        went = self._tidy(spark)
        rows = status["queries"][0]["rows"]
        files, size = self._size(spark)
        return Summary(
            "archive",
            rows,
            round(time.monotonic() - started, 3),
            f"{rows:,} messages of {self.kind.value} {self.name} archived in {self.table}, {files:,} files, {size:,} B",
            {
                "table": str(self.table),
                "files": files,
                "bytes": size,
                "compacted_files": went,
                "state": status["state"],
            },
        )

    @property
    def _place(self) -> str:
        return absolute(str(self.table), Path.cwd())

    @property
    def _state(self) -> Path:
        """Who runs it is noted on this machine."""
        if is_local(self._place):
            return Path(self._place) / STATE
        return Path(".warren", f"archive-{hashlib.sha256(self._place.encode()).hexdigest()[:12]}").resolve()

    def _refuse_another_source(self, spark: SparkSession | None) -> None:
        """A table that another queue was archived to has a checkpoint that means other offsets."""
        state = folder_at(f"{self._place}/{STATE}", spark)
        wanted = f"{self.kind.value} {self.name}"
        found = state.read("source")
        if found is not None and found != wanted:
            raise WarrenError(f"{self.table} is the archive of {found}; give {wanted} a folder of its own")
        try:
            state.write("source", wanted)
        except OSError as error:
            raise WarrenError(f"cannot write to {self.table}: {error.strerror}") from error

    def _tidy(self, spark: SparkSession | None) -> int:
        if self.format is SinkKind.DELTA:
            return self._tidy_delta()
        from warren.spark.pipelines.parquet_table import ParquetTable
        from warren.spark.pipelines.write_rows import query_id

        definition = self.definition()
        checkpoint = folder_at(definition.checkpoint_of(definition.sinks["table"]), spark)
        if checkpoint.read("metadata") is None:
            return 0
        # The query has ended, so all its batches are done; only the newest may be written again when it goes on.
        table = ParquetTable(folder_at(self._place, spark))
        newest = max((each.last for each in table.files()), default=0)
        return table.compact(query_id(checkpoint), before=newest)

    def _tidy_delta(self) -> int:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return int(DeltaTable(self._place).optimize.compact()["numFilesRemoved"])
        except TableNotFoundError:
            return 0

    def _size(self, spark: SparkSession | None) -> tuple[int, int]:
        if self.format is SinkKind.DELTA:
            return self._delta_size()
        from warren.spark.pipelines.parquet_table import ParquetTable

        files = ParquetTable(folder_at(self._place, spark)).files()
        return len(files), sum(each.size for each in files)

    def _delta_size(self) -> tuple[int, int]:
        import pyarrow as pa
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            files = pa.table(DeltaTable(self._place).get_add_actions())
        except TableNotFoundError:
            return 0, 0
        return files.num_rows, sum(files.column("size_bytes").to_pylist())
