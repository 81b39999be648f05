"""What a query promises, by the kind of what it reads and what it writes."""

from __future__ import annotations

from dataclasses import dataclass

from warren.spark.pipelines.graph import order_of_sinks, sources_of
from warren.spark.pipelines.model import Definition, Sink, SinkKind, Source, SourceKind
from warren.spark.pipelines.read_sink import FILE_FORMATS
from warren.spark.pipelines.row_order import RowOrder, row_order

ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True)
class Guarantee:
    source: str
    sink: str
    promise: str
    reason: str


def guarantees(definition: Definition) -> list[Guarantee]:
    return [
        Guarantee(source.name, name, *promise(definition, source, definition.sinks[name]))
        for name in order_of_sinks(definition)[0]
        for source in sources_of(definition, definition.sinks[name].origin)
        if source.is_stream
    ]


def promise(definition: Definition, source: Source, sink: Sink) -> tuple[str, str]:
    if sink.kind is SinkKind.CONSOLE:
        return AT_LEAST_ONCE, "a batch that was interrupted is shown again"
    reading = _reading(source)
    if sink.kind is SinkKind.FORMAT:
        return _promise_of_format(reading, sink)
    if sink.kind is SinkKind.PARQUET:
        return ONCE, f"{reading}; the files of a batch replace those of an interrupted attempt"
    if sink.kind is SinkKind.DELTA:
        return ONCE, f"{reading}; a batch is a Delta transaction with its own number, and is skipped when it is there"
    order = row_order(definition, sink)
    if order.can_be_numbered:
        numbered = "rows are numbered" if order is RowOrder.SAME else "rows are sorted and numbered"
        return ONCE, f"{reading}; {numbered}, and a Warren leaves out what it has (RabbitMQ: at least once)"
    again = "rows of an interrupted batch are published again under the same id, so once where the queue deduplicates"
    return AT_LEAST_ONCE, f"{reading}; {again}"


def _promise_of_format(reading: str, sink: Sink) -> tuple[str, str]:
    if sink.place in FILE_FORMATS:
        return ONCE, f"{reading}; Spark notes beside the files which of them count, and reads no others"
    return AT_LEAST_ONCE, f"{reading}; a batch that was interrupted is given to {sink.place} again, as a whole"


def _reading(source: Source) -> str:
    if source.kind is SourceKind.FORMAT:
        return f"the checkpoint holds the offsets, if {source.format} can be read again from there"
    if source.kind is SourceKind.QUEUE:
        return (
            "the queue is settled after the batch is written, and a batch that has lost messages since is refused "
            "(RabbitMQ's goes through a spool: at least once)"
        )
    if not source.kind.is_of_broker:
        return "the checkpoint holds which files a batch has, and they can be read again as long as nobody changes them"
    return "the checkpoint holds the offsets, and the same rows can be read again"
