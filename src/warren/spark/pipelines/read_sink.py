"""One sink of the file, and the place for dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from warren.spark.pipelines.document import FileNode, Mistakes
from warren.spark.pipelines.model import DeadLetterPlace, Mode, SchemaChange, Sink, SinkKind
from warren.spark.pipelines.read_source import BY_DELTA, check_address, read_kind, read_spark_options
from warren.spark.pipelines.section import FileSection, parse_duration
from warren.spark.places import BY_ARROW, absolute

KINDS: Final = {kind.value: kind for kind in SinkKind}
_DEAD_KINDS: Final = {kind: KINDS[kind] for kind in ("exchange", "stream", "queue", "parquet")}
_EXCHANGE_TYPES: Final = ("direct", "fanout", "headers", "topic")
_MODES: Final = {
    SinkKind.EXCHANGE: (Mode.APPEND, Mode.UPDATE),
    SinkKind.PIPELINE: (Mode.APPEND, Mode.UPDATE),
    SinkKind.STREAM: (Mode.APPEND, Mode.UPDATE),
    SinkKind.QUEUE: (Mode.APPEND, Mode.UPDATE),
    SinkKind.PARQUET: (Mode.APPEND,),
    SinkKind.DELTA: (Mode.APPEND, Mode.COMPLETE, Mode.UPSERT),
    SinkKind.CONSOLE: (Mode.APPEND, Mode.UPDATE, Mode.COMPLETE),
    SinkKind.FORMAT: (Mode.APPEND,),
}
_KEY_MAX: Final = 255
# Spark has a sink of its own for files of these, which leaves out a batch that is there.
FILE_FORMATS: Final = ("avro", "csv", "json", "orc", "text", "xml")


def read_sink(name: str, node: FileNode, line: int, base: Path, mistakes: Mistakes) -> Sink | None:
    section = FileSection(node, f'sink "{name}"', mistakes)
    section.line = line
    kind = read_kind(section, KINDS, "write")
    origin = section.text("from")
    if not section.has("from"):
        section.mistake(line, '"from" is missing: the source or view whose rows are written')
    if kind is None:
        return None
    checkpoint = section.text("checkpoint")
    sink = Sink(
        name=name,
        kind=SinkKind(kind),
        place="" if kind == SinkKind.CONSOLE.value else section.text(kind),
        origin=origin,
        routing_key=section.text("routing-key"),
        exchange_type=section.choice("type", _EXCHANGE_TYPES, "topic"),
        mode=Mode(section.choice("mode", [each.value for each in Mode], Mode.APPEND.value)),
        partition_by=section.texts("partition-by"),
        schema_change=SchemaChange(
            section.choice("schema-change", [each.value for each in SchemaChange], SchemaChange.ADD.value)
        ),
        keys=section.texts("keys"),
        order_by=section.text("order-by"),
        delete_when=section.text("delete-when"),
        every_seconds=_read_trigger(section),
        checkpoint=absolute(checkpoint, base) if checkpoint else "",
        after=section.texts("after"),
        mandatory=section.flag("mandatory", False),
        declare=section.flag("declare", True),
        options=read_spark_options(section, kind == SinkKind.FORMAT.value),
        line=line,
        partition_line=section.line_of("partition-by"),
    )
    section.finish()
    _check(section, sink)
    return sink


def _read_trigger(section: FileSection) -> float | None:
    text = section.text("trigger", "continuous")
    if text == "continuous":
        return None
    seconds = parse_duration(text.removeprefix("every "))
    if seconds is None:
        section.mistake(section.line_of("trigger"), '"trigger" is "continuous" or a time such as "every 10 seconds"')
    return seconds


def _check(section: FileSection, sink: Sink) -> None:
    allowed = _MODES[sink.kind]
    if sink.mode not in allowed:
        modes = " or ".join(each.value for each in allowed)
        section.mistake(section.line_of("mode"), f'"mode" at {sink.kind.value} is {modes}, not {sink.mode.value}')
    if not sink.kind.is_exchange and section.has("routing-key"):
        section.mistake(section.line_of("routing-key"), '"routing-key" is for exchanges')
    if sink.kind is not SinkKind.EXCHANGE and section.has("type"):
        section.mistake(section.line_of("type"), '"type" is for exchanges')
    if not sink.kind.is_of_broker and section.has("mandatory"):
        section.mistake(section.line_of("mandatory"), '"mandatory" is for exchanges, streams and queues')
    if sink.kind not in (SinkKind.PARQUET, SinkKind.DELTA, SinkKind.FORMAT) and sink.partition_by:
        section.mistake(section.line_of("partition-by"), '"partition-by" is for Parquet and Delta')
    if sink.kind is SinkKind.FORMAT and sink.place in FILE_FORMATS and "path" not in sink.options:
        section.mistake(section.line_of("format"), f'files of {sink.place} need "options" with a path')
    if sink.kind not in (SinkKind.PARQUET, SinkKind.DELTA) and section.has("schema-change"):
        section.mistake(section.line_of("schema-change"), '"schema-change" is for Parquet and Delta')
    _check_upsert(section, sink)
    _check_place(section, sink.kind, sink.place, sink.routing_key)


def _check_upsert(section: FileSection, sink: Sink) -> None:
    for key in ("keys", "order-by", "delete-when"):
        if sink.mode is not Mode.UPSERT and section.has(key):
            section.mistake(section.line_of(key), f'"{key}" is for "mode: upsert"')
    if sink.kind is not SinkKind.DELTA or sink.mode is not Mode.UPSERT:
        return
    if not sink.keys:
        section.mistake(section.line_of("mode"), 'upsert needs "keys": the columns that tell one row from another')
    if not sink.order_by:
        section.mistake(section.line_of("mode"), 'upsert needs "order-by": the column by which the newest row is known')


def _check_place(section: FileSection, kind: SinkKind, place: str, routing_key: str) -> None:
    if kind is SinkKind.DELTA:
        check_address(section, kind.value, place, BY_DELTA)
    if kind.is_of_broker and len(place.encode()) > _KEY_MAX:
        section.mistake(section.line_of(kind.value), f"the name of a {kind.value} has at most {_KEY_MAX} bytes")
    if len(routing_key.encode()) > _KEY_MAX:
        section.mistake(section.line_of("routing-key"), f"a routing key has at most {_KEY_MAX} bytes")


def read_dead_letters(section: FileSection | None) -> DeadLetterPlace | None:
    if section is None:
        return None
    kind = read_kind(section, _DEAD_KINDS, "write")
    routing_key = section.text("routing-key")
    section.finish()
    if kind is None:
        return None
    place = section.text(kind)
    _check_place(section, SinkKind(kind), place, routing_key)
    if kind == SinkKind.PARQUET.value:
        check_address(section, kind, place, BY_ARROW)
    return DeadLetterPlace(SinkKind(kind), place, routing_key, section.line)
