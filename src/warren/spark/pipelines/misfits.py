"""Messages that do not fit: found by Spark's own JSON reader, and put aside by the task that met them.

A step in the plan, not a query of its own: a queue can be read only once, and a query with state cannot hand its batch
to a function. Whoever fails and tries again sends the same dead letter with the same id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from warren.spark.folders import Share
from warren.spark.pipelines.avro import with_decoded
from warren.spark.pipelines.lateness import Lateness
from warren.spark.pipelines.model import DeadLetterPlace, Definition, OnError, SinkKind, Source
from warren.spark.pipelines.read_source import ENVELOPE
from warren.spark.pipelines.schema_text import SchemaField, parse_schema, quoted
from warren.spark.pipelines.why import why

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

REASON: Final = "_reason"
_VALUE: Final = "_value"
_CORRUPT: Final = "_corrupt"
_UNTIL: Final = "_until"
# The reason that Spark can give: a task then looks closer.
_BODY: Final = "body"
MISFITS: Final = "misfits"
# Of a body, in the text of an error.
_SHOWN: Final = 100


@dataclass(frozen=True)
class Aside:
    """All that a task needs to put misfits aside; travels to the executors."""

    pipeline: str
    source: str
    fields: tuple[SchemaField, ...]
    dead_letters: DeadLetterPlace
    broker: str
    # Where a Parquet place is.
    share: Share | None = None
    lateness: Lateness | None = None


def fit(
    frame: DataFrame,
    definition: Definition,
    source: Source,
    schema: str,
    keeps_misfits: bool,
    lateness: Lateness | None,
) -> DataFrame:
    """Rows of messages in, rows of the source out; what does not fit goes where the source says. What comes too late
    goes there as well, and on: it is Spark that leaves it out, and counts."""
    from pyspark.sql import functions as f

    dead = definition.dead_letters if source.on_error is OnError.DEAD_LETTER else None
    lateness = None if dead is None else lateness
    rows = _columns(frame, source, schema)
    if not source.can_misfit and lateness is None:
        return rows
    rows = rows.withColumn(REASON, f.expr(_reason(source, schema)))
    rows = rows.observe(f"{MISFITS}_{source.name}", f.expr(f"count_if({REASON} IS NOT NULL)").alias(MISFITS))
    if source.on_error is OnError.FAIL:
        told = f.when(f.col(REASON).isNotNull(), f.raise_error(f.expr(_complaint(source))))
        return rows.where(told.isNull()).drop(REASON, _VALUE)
    if dead is None or not keeps_misfits:
        rows = rows.where(f.col(REASON).isNull())
    if dead is None or not (keeps_misfits or lateness):
        return rows.drop(REASON, _VALUE)
    aside = Aside(
        definition.name,
        source.name,
        parse_schema(schema) if schema else (),
        dead,
        definition.broker,
        _share(definition, dead, source),
        lateness,
    )
    rows = rows.drop(_VALUE)
    kept = rows.drop(REASON).schema
    rows = rows if lateness is None else rows.withColumn(_UNTIL, f.expr(lateness.until))
    return rows.mapInArrow(_put_aside(aside), kept)


def _share(definition: Definition, dead: DeadLetterPlace, source: Source) -> Share | None:
    if dead.kind is not SinkKind.PARQUET:
        return None
    return Share(definition.place_of(dead.place), f"{definition.name}.{source.name}")


def _columns(frame: DataFrame, source: Source, schema: str) -> DataFrame:
    """What SQL sees of a message: its body's fields and the envelope, or all of its columns."""
    from pyspark.sql import functions as f

    if source.body == "text":
        return frame.withColumn("body", f.col("body").cast("string")).withColumn(ENVELOPE, f.struct(*frame.columns))
    if source.body == "raw":
        return frame.withColumn(ENVELOPE, f.struct(*frame.columns))
    columns = frame.columns
    if source.body == "avro":
        frame = with_decoded(frame, source.schema, schema, _VALUE, _CORRUPT)
    else:
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        nullable = _without_requirements(schema)
        value = f.from_json(f.col("body").cast("string"), f"{nullable}, {_CORRUPT} STRING", options)
        frame = frame.withColumn(_VALUE, value)
    names = [each.name for each in parse_schema(schema)]
    return frame.select(_VALUE, f.struct(*columns).alias(ENVELOPE)).select(
        *(f.col(_VALUE)[name].alias(name) for name in names), ENVELOPE, _VALUE
    )


def _without_requirements(schema: str) -> str:
    """Spark takes NOT NULL of a parsed column at its word; here it is a condition."""
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(schema)
    assert isinstance(found, StructType)
    return ", ".join(f"{quoted(each.name)} {each.dataType.simpleString()}" for each in found.fields)


def _reason(source: Source, schema: str) -> str:
    cases: list[str] = []
    if source.body == "json":
        body = f"{ENVELOPE}.body"
        cases.append(f"WHEN {body} IS NULL OR NOT is_valid_utf8(CAST({body} AS STRING)) THEN '{_BODY}'")
        cases.append(f"WHEN {_VALUE} IS NULL OR {_VALUE}.{_CORRUPT} IS NOT NULL THEN '{_BODY}'")
        cases += [
            f"WHEN {quoted(each.name)} IS NULL THEN 'the field {_text(each.name)} is missing'"
            for each in parse_schema(schema)
            if each.is_required
        ]
    if source.body == "avro":
        cases.append(f"WHEN {_VALUE}.{_CORRUPT} IS NOT NULL THEN {_VALUE}.{_CORRUPT}")
    for name, condition in source.expect.items():
        reason = _text(f'expectation "{name}" is not met: {condition}')
        cases.append(f"WHEN NOT coalesce(({condition}), false) THEN '{reason}'")
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"


def _complaint(source: Source) -> str:
    """Which message it is, and how it begins where Spark knows no more than that it does not fit."""
    body = f"left(CAST({ENVELOPE}.body AS STRING), {_SHOWN})"
    reason = f"if({REASON} = '{_BODY}', concat('the body does not fit the schema: ', {body}), {REASON})"
    which = f"'message ', {ENVELOPE}.offset, ' of ', {ENVELOPE}.queue, ': '"
    return f"concat('source {_text(source.name)}: ', {which}, {reason})"


def _text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _put_aside(aside: Aside) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        from warren.spark.pipelines.dead_letters import DeadLetterWriter
        from warren.spark.worker_memory import keep_modules

        writer = DeadLetterWriter(aside)
        for batch in batches:
            reasons = batch.column(REASON)
            if reasons.null_count < batch.num_rows:
                bad = batch.filter(pc.is_valid(reasons))
                writer.add(bad.column(ENVELOPE), _reasons(bad, aside.fields))
                batch = batch.filter(pc.is_null(reasons))
            if aside.lateness is not None:
                writer.add_late(batch.filter(pc.less_equal(batch.column(_UNTIL), writer.watermark)).column(ENVELOPE))
                batch = batch.drop_columns([_UNTIL])
            yield batch.drop_columns([REASON])
        # Before the task may be called done.
        writer.finish()
        keep_modules()

    return step


def _reasons(bad: pa.RecordBatch, fields: tuple[SchemaField, ...]) -> list[str]:
    bodies: list[Any] = bad.column(ENVELOPE).field("body").to_pylist()
    reasons: list[str] = bad.column(REASON).to_pylist()
    return [
        why(bytes(body or b""), fields) if reason == _BODY else reason
        for body, reason in zip(bodies, reasons, strict=True)
    ]
