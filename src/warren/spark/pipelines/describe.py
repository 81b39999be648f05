"""One line about each part of a pipeline, for drawings and reports."""

from __future__ import annotations

from typing import Final

from warren.spark.pipelines.model import Definition, Mode, Sink, SinkKind, Source, SourceKind

_BODIES: Final = {"json": "JSON", "avro": "Avro"}


def describe_source(source: Source) -> str:
    words = f"{source.kind.value} {source.place}"
    if source.kind is SourceKind.EXCHANGE:
        words += f", key {' or '.join(source.keys)}"
    if source.kind.is_of_broker:
        words += f", {_BODIES.get(source.body, source.body)}"
    elif source.is_table:
        words += ", table"
    if source.watermark is not None:
        words += f", watermark {duration(source.watermark.seconds)} on {source.watermark.column}"
    return words


def describe_sink(sink: Sink) -> str:
    words = "console" if sink.kind is SinkKind.CONSOLE else f"{sink.kind.value} {sink.place}"
    if sink.routing_key:
        words += f", key {sink.routing_key}"
    if sink.partition_by:
        words += f", by {', '.join(sink.partition_by)}"
    if sink.mode is not Mode.APPEND:
        words += f", {sink.mode.value}"
    return words + (f", every {duration(sink.every_seconds)}" if sink.every_seconds else "")


def describe_dead_letters(definition: Definition) -> str:
    dead = definition.dead_letters
    if dead is None:
        return ""
    return f"{dead.kind.value} {dead.place}" + (f", key {dead.routing_key}" if dead.routing_key else "")


def duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size:g} {unit}"
    return f"{seconds:g} s"
