"""Batches into a Delta table, each once: a batch is a transaction of the table, which knows the number of the last.

Rows that are added are written by the executors, and the driver names their files in the table's log: only what is
named there is part of the table, so what an interrupted attempt has left harms nobody. Rows that replace others go
through the driver.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from warren.errors import WarrenError
from warren.spark.folders import Folder, folder_at
from warren.spark.pipelines.model import Mode, Sink
from warren.spark.pipelines.schema_change import widened
from warren.spark.pipelines.write_rows import query_id, write_rows
from warren.spark.places import is_local

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_DELETED: Final = "_deleted"
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class DeltaBatches:
    def __init__(self, place: str, sink: Sink, checkpoint: Folder) -> None:
        self._place = place
        self._sink = sink
        self._checkpoint = checkpoint

    def __call__(self, frame: DataFrame, batch: int) -> None:
        from deltalake import CommitProperties, Transaction

        writer = query_id(self._checkpoint)
        table = table_at(self._place)
        done = None if table is None else table.transaction_version(writer)
        if done is not None and done >= batch:
            return
        known = None if table is None else _schema_of(table)
        columns = widened(known, frame.schema, self._sink.schema_change, self._place)
        commit = CommitProperties(app_transactions=[Transaction(writer, batch)])
        if self._sink.mode is Mode.COMPLETE:
            self._replace(frame, commit)
        elif self._sink.mode is Mode.UPSERT:
            self._merge(frame, self._with_columns(table, known, columns), commit)
        else:
            self._append(frame, table, columns, f"{writer[:8]}-{batch:09d}", commit)

    def _replace(self, frame: DataFrame, commit: CommitProperties) -> None:
        from deltalake import write_deltalake

        rows: Any = frame.toArrow()
        by = list(self._sink.partition_by) or None
        write_deltalake(
            self._place, rows, mode="overwrite", schema_mode="overwrite", partition_by=by, commit_properties=commit
        )

    def _append(
        self, frame: DataFrame, table: DeltaTable | None, columns: StructType, name: str, commit: CommitProperties
    ) -> None:
        from deltalake.transaction import AddAction

        # The other way to write a moment is Spark's own, and old.
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        folder = folder_at(self._place, frame.sparkSession)
        rows = write_rows(frame, f"{self._place}/{name}", self._sink.partition_by)
        files = folder.files(name)
        found = folder.rows([file for file, _ in files])
        if found != rows:
            raise WarrenError(
                f"{rows} rows were written to {self._place} and {found} are there: driver and executors must share it"
            )
        now = round(time.time() * 1000)
        actions = [
            AddAction(file, size, _partitions(file), now, True, _statistics(folder, file)) for file, size in files
        ]
        known = None if table is None else _schema_of(table)
        table = self._with_columns(table, known, columns)
        by = list(self._sink.partition_by) or None
        table.create_write_transaction(list(actions), "append", table.schema(), by, commit_properties=commit)

    def _merge(self, frame: DataFrame, table: DeltaTable, commit: CommitProperties) -> None:
        """Of several changes to one row the newest counts, in the batch and in the table."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        sink = self._sink
        newest = Window.partitionBy(*sink.keys).orderBy(f.col(sink.order_by).desc())
        names = frame.columns
        frame = frame.withColumn("_rank", f.row_number().over(newest)).where("_rank = 1").drop("_rank")
        deleted = f"coalesce({sink.delete_when}, false)" if sink.delete_when else "false"
        rows: Any = frame.withColumn(_DELETED, f.expr(deleted)).toArrow()
        same = " AND ".join(f"old.{_quoted(key)} = new.{_quoted(key)}" for key in sink.keys)
        is_newer = f"new.{_quoted(sink.order_by)} >= old.{_quoted(sink.order_by)}"
        values = {_quoted(name): f"new.{_quoted(name)}" for name in names}
        (
            table.merge(rows, same, source_alias="new", target_alias="old", commit_properties=commit)
            .when_matched_delete(f"new.{_DELETED} AND {is_newer}")
            .when_matched_update(values, f"NOT new.{_DELETED} AND {is_newer}")
            .when_not_matched_insert(values, f"NOT new.{_DELETED}")
            .execute()
        )

    def _with_columns(self, table: DeltaTable | None, known: StructType | None, columns: StructType) -> DeltaTable:
        """The table, made if there is none, with columns that are new to it."""
        from deltalake import DeltaTable, Schema

        # A column that is never null today may be tomorrow.
        schema = Schema.from_json(json.dumps({**columns.jsonValue(), "fields": [
            {**each.jsonValue(), "nullable": True} for each in columns.fields
        ]}))  # fmt: skip
        if table is None or known is None:
            return DeltaTable.create(self._place, schema, partition_by=list(self._sink.partition_by) or None)
        added = [each for each in schema.fields if each.name not in known.names]
        if added:
            table.alter.add_columns(added)
        return table


def table_at(place: str) -> DeltaTable | None:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(place)
    except TableNotFoundError:
        return None


def _schema_of(table: DeltaTable) -> StructType:
    from pyspark.sql.types import StructType

    # Delta writes a schema as Spark does.
    return StructType.fromJson(json.loads(table.schema().to_json()))


def _partitions(file: str) -> dict[str, str | None]:
    """Spark names folders after them, and escapes what a name cannot hold."""
    pairs = [part.partition("=") for part in file.split("/")[:-1] if "=" in part]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}


def _statistics(folder: Folder, file: str) -> str:
    # Elsewhere it would take a query for each file, and readers can do without.
    return json.dumps({"numRecords": folder.rows([file])} if is_local(folder.place) else {})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
