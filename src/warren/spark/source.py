"""The format `warren`: which reader or writer serves what was asked, once the options have been found in order."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from warren.errors import WarrenError
from warren.spark.batch import BatchReader
from warren.spark.options import ReadKind, WriteOptions, read_options, write_options
from warren.spark.queue import QueueReader
from warren.spark.schema import COLUMNS, DDL
from warren.spark.sink import BatchWriter, StreamWriter, check_columns
from warren.spark.stream import StreamReader
from warren.spark.worker_memory import keep_modules


class WarrenSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "warren"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        options = read_options(self.options, is_streaming=False)
        if options.kind is ReadKind.QUEUE:
            raise WarrenError(
                "option queue does not apply: a table would leave everything in the queue; "
                "use readStream, with trigger(availableNow=True) to read what is there and stop"
            )
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_schema(schema)
        options = read_options(self.options, is_streaming=True)
        return QueueReader(options) if options.kind is ReadKind.QUEUE else StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(self._write_options(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        # Asked twice for each batch, by two processes.
        keep_modules()
        return StreamWriter(self._write_options(schema, overwrite))

    def _write_options(self, schema: StructType, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise WarrenError('messages can be added and not overwritten: use mode("append"), or outputMode("append")')
        options = write_options(self.options, schema.names)
        check_columns(schema)
        return options


def check_schema(schema: StructType) -> None:
    """Compared as text: to parse a schema takes a session, and there is none where this runs."""
    if [(field.name, field.dataType.simpleString()) for field in schema.fields] != list(COLUMNS):
        raise WarrenError(f"a message has the columns {DDL}; leave schema() out, and select() what you want of them")
