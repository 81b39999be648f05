"""One source of the file: where it reads, what the bodies are, and what a message must be to pass."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from warren.spark.pipelines.avro import ddl_of
from warren.spark.pipelines.document import FileNode, Mistakes
from warren.spark.pipelines.model import DEFAULT_MAX_ROWS, OnError, Source, SourceKind, Watermark
from warren.spark.pipelines.schema_text import SchemaError, SchemaField, parse_schema
from warren.spark.pipelines.section import FileSection, did_you_mean
from warren.spark.pipelines.sql_columns import missing_in_expression
from warren.spark.pipelines.sql_text import SqlError, check_operands, tokens_of
from warren.spark.places import is_local, scheme_of
from warren.spark.schema import COLUMNS

KINDS: Final = {kind.value: kind for kind in SourceKind}
# The message itself, beside the fields of its body.
ENVELOPE: Final = "envelope"
_BODIES: Final = ("avro", "json", "raw", "text")
_FORMATS: Final = ("csv", "json", "parquet", "text")
# Addresses that the library for Delta reaches.
BY_DELTA: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss")
_STARTS: Final = ("earliest", "latest")


def read_source(name: str, node: FileNode, line: int, mistakes: Mistakes) -> Source:
    section = FileSection(node, f'source "{name}"', mistakes)
    section.line = line
    kind = read_kind(section, KINDS, "read")
    if kind is None:
        # Others may name it: one mistake is told once.
        return Source(name, SourceKind.STREAM, "", line=line)
    source_kind = SourceKind(kind)
    is_table = section.choice("as", ("table", "stream"), _default_as(source_kind)) == "table"
    source = Source(
        name=name,
        kind=source_kind,
        place=section.text(kind),
        keys=section.texts("key"),
        body=section.choice("body", _BODIES, "json" if section.has("schema") else "raw"),
        schema=_schema_text(section),
        is_table=is_table,
        format=_read_format(section, source_kind),
        start=_read_start(section, source_kind),
        max_rows=section.number("max-rows", DEFAULT_MAX_ROWS),
        min_partitions=section.number("min-partitions", 0),
        fail_on_data_loss=section.flag("fail-on-data-loss", True),
        watermark=read_watermark(section),
        on_error=OnError(section.choice("on-error", [each.value for each in OnError], OnError.DEAD_LETTER.value)),
        expect={key: text for key, (text, _) in section.mapping("expect").items()},
        declare=section.flag("declare", True),
        options=read_spark_options(section, source_kind is SourceKind.FORMAT),
        line=line,
    )
    section.finish()
    _check_place(section, source)
    _check_body(section, source)
    _check_expectations(section, source)
    return source


def columns_of_source(source: Source) -> frozenset[str] | None:
    """What SQL can name, in lower case; None when only Spark can tell."""
    if source.kind.is_of_broker and source.body in ("raw", "text") and not source.schema:
        return frozenset((*(name for name, _ in COLUMNS), ENVELOPE))
    if not source.schema or source.schema == "infer":
        return None
    try:
        fields = parse_schema(ddl_of(source.schema) if source.body == "avro" else source.schema)
    except SchemaError:
        # Told already.
        return None
    names = {each.name.lower() for each in fields}
    return frozenset(names | {ENVELOPE} if source.kind.is_of_broker else names)


def read_kind(section: FileSection, kinds: Mapping[str, object], verb: str) -> str | None:
    given = section.given(kinds)
    if len(given) > 1 and "format" in given:
        # Beside a place it says what is there.
        given.remove("format")
    if len(given) == 1:
        return given[0]
    if not given:
        section.mistake(section.line, f"names no place to {verb}; give one of {', '.join(kinds)}")
    else:
        section.mistake(section.line_of(given[1]), f"names several places to {verb}, {' and '.join(given)}; give one")
    return None


def read_spark_options(section: FileSection, has_them: bool) -> dict[str, str]:
    found = {key: text for key, (text, _) in section.mapping("options").items()}
    if found and not has_them:
        section.mistake(section.line_of("options"), '"options" are those of a "format" of Spark\'s')
    return found


def _read_start(section: FileSection, kind: SourceKind) -> str:
    node = section.node("start")
    if node is not None and isinstance(node.value, dict):
        offsets = {name: each.value for name, each in node.value.items()}
        if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
            section.mistake(node.line, '"start": offsets are whole numbers by the names of streams')
        return json.dumps(offsets)
    text = section.text("start", "earliest")
    if text in _STARTS:
        return text
    if text.isdecimal():
        if kind is SourceKind.SUPER_STREAM:
            section.mistake(section.line_of("start"), '"start": offsets of a super stream are told by partition')
        return text
    try:
        datetime.fromisoformat(text)
    except ValueError:
        shown = '"start" is earliest, latest, an offset such as 1200, or a time such as 2026-05-01T12:00Z'
        section.mistake(section.line_of("start"), f"{shown}, not {text}")
    return text


def _read_format(section: FileSection, kind: SourceKind) -> str:
    if kind is SourceKind.FORMAT:
        return section.text("format")
    return section.choice("format", _FORMATS, "json" if kind is SourceKind.FILES else "parquet")


def read_watermark(section: FileSection) -> Watermark | None:
    inner = section.section("watermark")
    if inner is None:
        return None
    column, seconds = inner.text("column"), inner.seconds("delay", 0.0)
    if not column:
        inner.mistake(inner.line, '"column" is missing: the column that holds the time of the event')
    if not inner.has("delay"):
        inner.mistake(inner.line, '"delay" is missing: how late an event may come, such as "10 minutes"')
    inner.finish()
    return Watermark(column, seconds)


def _default_as(kind: SourceKind) -> str:
    return "table" if kind in (SourceKind.PARQUET, SourceKind.DELTA) else "stream"


def _check_place(section: FileSection, source: Source) -> None:
    kind = source.kind
    if kind is SourceKind.EXCHANGE and not source.keys:
        section.mistake(section.line, 'an exchange needs "key": the binding key or keys, such as "order.#"')
    if kind is not SourceKind.EXCHANGE and section.has("key"):
        section.mistake(section.line_of("key"), f'"key" is for exchanges; a {kind.value} has none')
    if kind.is_of_broker and source.is_table:
        section.mistake(
            section.line_of("as"), f"a {kind.value} is always a stream; only tables and files can be a table"
        )
    if kind is SourceKind.DELTA and not source.is_table:
        section.mistake(
            section.line_of("as"), "a Delta table can be read as a table only; Parquet and files as streams too"
        )
    if kind not in (SourceKind.FILES, SourceKind.FORMAT) and section.has("format"):
        section.mistake(section.line_of("format"), '"format" is for files')
    if kind is SourceKind.QUEUE and section.has("start"):
        section.mistake(
            section.line_of("start"), "a queue is read from its head; only streams can be started elsewhere"
        )
    if not kind.is_of_broker and section.has("start"):
        section.mistake(section.line_of("start"), "tables and files are read from their beginning")
    if (kind is SourceKind.QUEUE or not kind.is_of_broker) and section.has("min-partitions"):
        section.mistake(section.line_of("min-partitions"), '"min-partitions" is for streams')
    if not kind.is_of_broker and section.has("fail-on-data-loss"):
        section.mistake(section.line_of("fail-on-data-loss"), '"fail-on-data-loss" is for messages')
    if kind is SourceKind.DELTA:
        check_address(section, kind.value, source.place, BY_DELTA)


def _check_body(section: FileSection, source: Source) -> None:
    if not source.kind.is_of_broker:
        _check_file_schema(section, source)
        return
    if source.body == "json" and not source.schema:
        section.mistake(
            section.line_of("body"), 'JSON needs "schema": fields such as "id BIGINT, at TIMESTAMP", or infer'
        )
    if source.body == "avro":
        _check_avro(section, source)
        return
    if source.body != "json" and source.schema:
        section.mistake(section.line_of("schema"), f'"schema" is for JSON and Avro bodies, not for {source.body} ones')
    if source.body != "json" and section.has("on-error") and not source.expect:
        section.mistake(section.line_of("on-error"), f"every body is a {source.body} one: no error can occur")
    if source.schema == "infer" and source.kind is SourceKind.QUEUE:
        section.mistake(
            section.line_of("schema"), "a queue can be read only once, so its schema cannot be inferred; write it out"
        )
    if source.schema and source.schema != "infer":
        _check_schema(section, source)


def _schema_text(section: FileSection) -> str:
    """A text; Avro's is JSON, which stands in the file as it is."""
    node = section.node("schema")
    if node is not None and isinstance(node.value, dict):
        return json.dumps(_plain(node))
    return section.text("schema")


def _plain(node: FileNode) -> object:
    if isinstance(node.value, dict):
        return {key: _plain(each) for key, each in node.value.items()}
    return [_plain(each) for each in node.value] if isinstance(node.value, list) else node.value


def _check_avro(section: FileSection, source: Source) -> None:
    if not source.schema:
        section.mistake(section.line_of("body"), 'Avro needs "schema": the schema that messages are written with')
        return
    try:
        fields = parse_schema(ddl_of(source.schema))
    except SchemaError as error:
        section.mistake(section.line_of("schema"), f"schema: {error}")
        return
    _check_no_envelope(section, fields)


def _check_schema(section: FileSection, source: Source) -> None:
    line = section.line_of("schema")
    try:
        fields = parse_schema(source.schema)
    except SchemaError as error:
        section.mistake(line, f"schema: {error}")
        return
    _check_no_envelope(section, fields)


def _check_no_envelope(section: FileSection, fields: tuple[SchemaField, ...]) -> None:
    if any(each.name.lower() == ENVELOPE for each in fields):
        reason = f'schema: the field "{ENVELOPE}" would hide the message itself, which has that name'
        section.mistake(section.line_of("schema"), reason)


def _check_file_schema(section: FileSection, source: Source) -> None:
    if section.has("body"):
        section.mistake(section.line_of("body"), '"body" is for messages; tables and files have columns')
    if source.kind is SourceKind.FORMAT and source.schema:
        _check_schema(section, source)
    if source.kind is not SourceKind.FILES or source.format in ("parquet", "text"):
        return
    if not source.schema or source.schema == "infer":
        section.mistake(
            section.line, f'files of {source.format} need "schema": fields such as "id BIGINT, at TIMESTAMP"'
        )
        return
    _check_schema(section, source)


def _check_expectations(section: FileSection, source: Source) -> None:
    columns = columns_of_source(source)
    for name, (condition, line) in section.mapping("expect").items():
        try:
            check_operands(tokens_of(condition))
        except SqlError as error:
            section.mistake(line, f'expect "{name}": {error.reason}')
            continue
        for each in missing_in_expression(condition, columns) if columns is not None else ():
            section.mistake(line, f'expect "{name}": {no_column(each.name, each.known)}')
    watermark = source.watermark
    if columns is not None and watermark is not None and watermark.column.lower() not in columns:
        section.mistake(section.line_of("watermark"), f"watermark: {no_column(watermark.column, columns)}")


def no_column(name: str, known: Iterable[str]) -> str:
    return f'there is no column "{name}"{did_you_mean(name.lower(), known)}'


def check_address(section: FileSection, key: str, place: str, schemes: tuple[str, ...]) -> None:
    """For what is reached without Spark, which would know more."""
    if not is_local(place) and scheme_of(place) not in schemes:
        known = ", ".join(f"{scheme}://" for scheme in schemes)
        section.mistake(section.line_of(key), f"{place} cannot be reached here; folders and {known} can")
