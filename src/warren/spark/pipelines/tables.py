"""From the model to DataFrames: sources are read, views are laid over them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from warren.broker.exchanges.pipeline import input_of
from warren.errors import WarrenError
from warren.spark.folders import folder_at
from warren.spark.pipelines.avro import ddl_of
from warren.spark.pipelines.graph import inputs_of, line_in, order_of_sinks, sources_of, views_of
from warren.spark.pipelines.lateness import lateness_of
from warren.spark.pipelines.misfits import fit
from warren.spark.pipelines.model import Definition, Sink, Source, SourceKind, View, Watermark
from warren.spark.pipelines.schema_change import schema_of_table
from warren.spark.pipelines.topology import input_stream, is_warren
from warren.spark.places import is_local, local_path
from warren.spark.spark_errors import one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = "warren"
_SAMPLE: Final = 1000
# Where Spark has found what it complains of.
_LINE: Final = re.compile(r"\bline (\d+),? pos")


def frame_of(spark: SparkSession, definition: Definition, sink: Sink) -> DataFrame:
    """The rows that a sink writes. Names become temporary views, which the plan does not need once it is made."""
    frames: dict[str, DataFrame] = {}
    for source in sources_of(definition, sink.origin):
        frames[source.name] = _source_frame(spark, definition, source, sink)
        frames[source.name].createOrReplaceTempView(source.name)
    for name in views_of(definition, [sink.origin]):
        view = definition.views[name]
        if view.function is not None:
            frame = view.function(*(frames[each] for each in inputs_of(definition, name)))
        else:
            frame = _query(spark, definition, view)
        frames[name] = _with_watermark(frame, view.watermark)
        frames[name].createOrReplaceTempView(name)
    return next(frame for name, frame in frames.items() if name.lower() == sink.origin.lower())


def _query(spark: SparkSession, definition: Definition, view: View) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        return spark.sql(view.sql)
    except PySparkException as error:
        found = _LINE.search(str(error))
        line = line_in(view, int(found[1]) - 1 if found else 0)
        raise WarrenError(f'{definition.at(line)}view "{view.name}": {one_line(error)}') from error


def _keeps_misfits(definition: Definition, sink: Sink, source: Source) -> bool:
    """When several queries read a source, the first of them does: a message is a dead letter once."""
    order = order_of_sinks(definition)[0]
    readers = [name for name in order if source in sources_of(definition, definition.sinks[name].origin)]
    return readers[0] == sink.name


def _with_watermark(frame: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None:
        return frame
    return frame.withWatermark(watermark.column, f"{round(watermark.seconds * 1000)} milliseconds")


def _source_frame(spark: SparkSession, definition: Definition, source: Source, sink: Sink) -> DataFrame:
    if source.kind.is_of_broker:
        messages, schema = _messages(spark, definition, source), schema_of(spark, definition, source)
        keeps = _keeps_misfits(definition, sink, source)
        frame = fit(messages, definition, source, schema, keeps, lateness_of(definition, sink, source))
    elif source.kind is SourceKind.FORMAT:
        frame = _format_frame(spark, definition, source)
    elif source.kind is SourceKind.DELTA:
        frame = _delta_frame(spark, definition, source)
    else:
        frame = _files_frame(spark, definition, source)
    return _with_watermark(frame, source.watermark)


def _messages(spark: SparkSession, definition: Definition, source: Source) -> DataFrame:
    reader = spark.readStream.format(FORMAT).option("uri", definition.broker)
    place = place_option(definition, source)
    reader = reader.option(*place).option("maxOffsetsPerTrigger", str(source.max_rows))
    reader = reader.option("failOnDataLoss", source.fail_on_data_loss)
    if source.min_partitions:
        reader = reader.option("minPartitions", str(source.min_partitions))
    if source.kind is not SourceKind.QUEUE:
        reader = reader.option(*start_option(source.start, place[1]))
    elif not is_warren(definition.broker):
        # RabbitMQ gives a message once: what was read is kept here until its batch is written.
        # In a folder, because the process that plans has no door to Spark.
        reader = reader.option("spoolDir", str(definition.folder / "spool" / source.name))
    return reader.load()


def place_option(definition: Definition, source: Source) -> tuple[str, str]:
    if source.kind is SourceKind.EXCHANGE:
        return "stream", input_stream(definition, source)
    if source.kind is SourceKind.PIPELINE:
        return "stream", input_of(source.place)
    names = {SourceKind.QUEUE: "queue", SourceKind.STREAM: "stream", SourceKind.SUPER_STREAM: "superStream"}
    return names[source.kind], source.place


def start_option(start: str, stream: str) -> tuple[str, str]:
    if start.isdecimal():
        return "startingOffsets", json.dumps({stream: int(start)})
    is_place = start.startswith("{") or start in ("earliest", "latest")
    return "startingOffsets" if is_place else "startingTimestamp", start


def schema_of(spark: SparkSession, definition: Definition, source: Source) -> str:
    """As it was written; or as it was inferred the first time, so that a restart sees the same."""
    if source.body == "avro":
        return ddl_of(source.schema)
    if source.schema != "infer":
        return source.schema
    home, name = folder_at(definition.home, spark), f"schemas/{source.name}.json"
    kept = home.read(name)
    if kept is not None:
        return str(json.loads(kept)["schema"])
    reader = spark.read.format(FORMAT).option("uri", definition.broker).option(*place_option(definition, source))
    bodies = reader.load().limit(_SAMPLE).selectExpr("CAST(body AS STRING) AS body").where("is_valid_utf8(body)")
    found = spark.read.option("mode", "DROPMALFORMED").json(bodies).schema
    if not found.fields:
        raise WarrenError(
            f'source "{source.name}" holds no message yet from which its schema could be inferred; write the schema out'
        )
    schema = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in found.fields)
    home.write(name, json.dumps({"schema": schema}))
    return schema


def _delta_frame(spark: SparkSession, definition: Definition, source: Source) -> DataFrame:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        table = DeltaTable(definition.place_of(source.place)).to_pyarrow_table()
    except TableNotFoundError as error:
        raise WarrenError(f'source "{source.name}": there is no Delta table at {source.place}') from error
    return spark.createDataFrame(table)


def _format_frame(spark: SparkSession, definition: Definition, source: Source) -> DataFrame:
    reader = (spark.read if source.is_table else spark.readStream).format(source.format)
    reader = reader.options(**definition.options_of(source))
    return (reader.schema(source.schema) if source.schema else reader).load()


def _files_frame(spark: SparkSession, definition: Definition, source: Source) -> DataFrame:
    path = definition.place_of(source.place)
    is_parquet = source.kind is SourceKind.PARQUET or source.format == "parquet"
    kind = "parquet" if is_parquet else source.format
    if is_parquet and is_local(path) and not local_path(path).parent.exists():
        raise WarrenError(f'source "{source.name}": there is no {source.place}')
    if not is_local(path) and hasattr(spark, "_jsc"):
        # Which jar is missing is told there better than by Spark.
        folder_at(path, spark)
    options = {"header": "true"} if kind == "csv" else {}
    # Of a table that a pipeline writes: Spark would take the columns of any one of its files for all there are.
    schema = source.schema or (schema_of_table(folder_at(path, spark)) if is_parquet else None)
    if source.is_table:
        reader = spark.read.format(kind).options(**options)
        return (reader.schema(schema) if schema else reader).load(path)
    schema = schema or spark.read.format(kind).load(path).schema
    return spark.readStream.format(kind).options(**options).schema(schema).load(path)
