"""One query: the rows of a sink, and the way they are written so that an interrupted batch does no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.amqp.constants import DEDUPLICATION_HEADER
from warren.broker.exchanges.pipeline import RESULT_HEADER
from warren.errors import WarrenError
from warren.spark.folders import Folder, folder_at
from warren.spark.options import WriteOptions, write_options
from warren.spark.pipelines.delta_table import DeltaBatches
from warren.spark.pipelines.graph import views_of
from warren.spark.pipelines.model import Definition, Mode, Sink, SinkKind
from warren.spark.pipelines.parquet_table import SCHEMA, ParquetTable
from warren.spark.pipelines.publish_step import SUMMARY, PublishStep, StreamPublishStep
from warren.spark.pipelines.read_sink import FILE_FORMATS
from warren.spark.pipelines.read_source import ENVELOPE
from warren.spark.pipelines.row_order import (
    RowOrder,
    in_one_order,
    in_order_of_partitions,
    publisher_of,
    row_order,
)
from warren.spark.pipelines.schema_change import schema_of_table, widened
from warren.spark.pipelines.tables import frame_of
from warren.spark.pipelines.topology import is_warren
from warren.spark.pipelines.write_rows import query_id, write_rows
from warren.spark.sink import check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

# Columns of a view that are about the message and not in its body.
_OF_MESSAGE: Final = ("exchange", "routing_key", "headers", "properties")
# To replace a row of before is to update, as Spark sees it.
_OUTPUT_MODES: Final = {Mode.UPSERT: Mode.UPDATE.value}
# Every so many batches small files are put together.
_COMPACT_EVERY: Final = 16
_ROWS_SHOWN: Final = 20
# Spark's sink for queries whose steps have done all there is to do.
_NOWHERE: Final = "noop"


def start(spark: SparkSession, definition: Definition, sink: Sink, once: bool) -> StreamingQuery:
    frame = frame_of(spark, definition, sink)
    checkpoint = folder_at(definition.checkpoint_of(sink), spark)
    checkpoint.make()
    if sink.kind.is_of_broker:
        writer = _to_broker(frame, definition, sink, checkpoint)
    elif sink.kind is SinkKind.FORMAT:
        writer = _to_format(frame, definition, sink)
    else:
        writer = _to_function(frame, sink, definition.place_of(sink.place), checkpoint)
    writer = writer.queryName(f"{definition.name}.{sink.name}").outputMode(
        _OUTPUT_MODES.get(sink.mode, sink.mode.value)
    )
    writer = writer.option("checkpointLocation", checkpoint.place)
    if once:
        writer = writer.trigger(availableNow=True)
    elif sink.every_seconds is not None:
        writer = writer.trigger(processingTime=f"{round(sink.every_seconds * 1000)} milliseconds")
    return writer.start()


def _to_broker(frame: DataFrame, definition: Definition, sink: Sink, checkpoint: Folder) -> DataStreamWriter:
    frame = message_frame(frame)
    if sink.kind is SinkKind.PIPELINE:
        frame = _marked_as_result(frame, definition.name)
    options = broker_options(definition, sink, frame.columns)
    try:
        check_columns(frame.schema)
    except WarrenError as error:
        raise WarrenError(f'{definition.at(sink.line)}sink "{sink.name}": {error}') from error
    order = row_order(definition, sink)
    checked = write_options(options, frame.columns)
    if order is RowOrder.SAME:
        return frame.mapInArrow(StreamPublishStep(checked), SUMMARY).writeStream.format(_NOWHERE)
    return frame.writeStream.foreachBatch(MessageBatches(checked, checkpoint, order))


def _marked_as_result(frame: DataFrame, pipeline: str) -> DataFrame:
    """So that the exchange gives it to the bound queues, and not to the pipeline once more."""
    from pyspark.sql import functions as f

    mark = f.create_map(f.lit(RESULT_HEADER), f.lit(pipeline))
    if "headers" not in frame.columns:
        return frame.withColumn("headers", mark)
    own = f.map_filter(f.col("headers"), lambda name, _: name != RESULT_HEADER)
    return frame.withColumn("headers", f.coalesce(f.map_concat(own, mark), mark))


def broker_options(definition: Definition, sink: Sink, columns: list[str]) -> dict[str, str]:
    options = {"uri": definition.broker, "exchange": sink.place if sink.kind.is_exchange else ""}
    if not sink.kind.is_exchange:
        options["routingKey"] = sink.place
    elif sink.routing_key or "routing_key" not in columns:
        options["routingKey"] = sink.routing_key
    if sink.mandatory:
        options["mandatory"] = "true"
    if not _sets_ids(definition, sink):
        options["newIds"] = "true"
    if row_order(definition, sink).can_be_numbered and is_warren(definition.broker):
        options["publisher"] = publisher_of(definition, sink)
    return options


def _sets_ids(definition: Definition, sink: Sink) -> bool:
    """Whether SQL gives rows an id. One that came along with the headers is of the message that a row was made of: all
    rows that were made of it would be taken for one."""
    return any(DEDUPLICATION_HEADER in definition.views[name].sql for name in views_of(definition, [sink.origin]))


def message_frame(frame: DataFrame) -> DataFrame:
    """A view with a column `body` is a message; of any other the columns become an object in JSON."""
    from pyspark.sql import functions as f

    frame = frame.drop(ENVELOPE)
    if "body" in frame.columns:
        return frame
    kept = [name for name in frame.columns if name in _OF_MESSAGE]
    body = f.to_json(f.struct(*(f"`{name}`" for name in frame.columns if name not in _OF_MESSAGE)))
    added = [] if "properties" in kept else [f.lit("application/json").alias("content_type")]
    return frame.select(body.alias("body"), *kept, *added)


def _to_function(frame: DataFrame, sink: Sink, place: str, checkpoint: Folder) -> DataStreamWriter:
    if sink.kind is SinkKind.CONSOLE:
        return frame.writeStream.foreachBatch(ConsoleBatches(sink.name))
    if sink.kind is SinkKind.DELTA:
        return frame.writeStream.foreachBatch(DeltaBatches(place, sink, checkpoint))
    return frame.writeStream.foreachBatch(ParquetBatches(folder_at(place, frame.sparkSession), sink, checkpoint))


def _to_format(frame: DataFrame, definition: Definition, sink: Sink) -> DataStreamWriter:
    options = definition.options_of(sink)
    if sink.place in FILE_FORMATS:
        return frame.writeStream.format(sink.place).options(**options).partitionBy(*sink.partition_by)
    return frame.writeStream.foreachBatch(FormatBatches(sink, options))


class FormatBatches:
    """What Spark can write as a table it can write batch by batch, whether or not it has a stream for it."""

    def __init__(self, sink: Sink, options: dict[str, str]) -> None:
        self._sink = sink
        self._options = options

    def __call__(self, frame: DataFrame, batch: int) -> None:
        writer = frame.write.format(self._sink.place).options(**self._options).mode("append")
        (writer.partitionBy(*self._sink.partition_by) if self._sink.partition_by else writer).save()


class MessageBatches:
    """For rows that must be sorted first, which Spark permits only by the batch, and for the mode update, which it does
    not let a Python sink take part in: the same writer."""

    _step: type[PublishStep] = PublishStep

    def __init__(self, options: WriteOptions, checkpoint: Folder, order: RowOrder) -> None:
        self._options = options
        self._checkpoint = checkpoint
        self._sort = in_one_order if order is RowOrder.SORTED else in_order_of_partitions

    def __call__(self, frame: DataFrame, batch: int) -> None:
        step = self._step(self._options, query_id(self._checkpoint), batch)
        self._sort(frame).mapInArrow(step, SUMMARY).collect()


class ParquetBatches:
    def __init__(self, folder: Folder, sink: Sink, checkpoint: Folder) -> None:
        self._table = ParquetTable(folder)
        self._sink = sink
        self._checkpoint = checkpoint
        self._schema: StructType | None = None
        self._table.prepare()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        writer = query_id(self._checkpoint)
        self._note_columns(frame.schema)
        staged = f"{self._table.folder.place}/{self._table.staging(writer, batch)}"
        rows = write_rows(frame, staged, self._sink.partition_by)
        self._table.commit(writer, batch, rows)
        if batch % _COMPACT_EVERY == _COMPACT_EVERY - 1:
            self._table.compact(writer, before=batch)

    def _note_columns(self, schema: StructType) -> None:
        """Once for each start of the query: as long as it runs its columns are the same."""
        if self._schema is not None:
            return
        folder = self._table.folder
        known = schema_of_table(folder)
        self._schema = widened(known, schema, self._sink.schema_change, folder.place)
        if self._schema != known:
            folder.write(SCHEMA, self._schema.json())


class ConsoleBatches:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, frame: DataFrame, batch: int) -> None:
        from rich.console import Console
        from rich.table import Table

        rows = frame.limit(_ROWS_SHOWN).collect()
        if not rows:
            return
        table = Table(*frame.columns, title=f"{self._name}, batch {batch}", title_justify="left")
        for row in rows:
            table.add_row(*(_shown(value) for value in row))
        Console().print(table)


def _shown(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.decode(errors="replace")
    return "" if value is None else str(value)
