"""Publishes the rows of a query to exchanges. A task succeeds when the broker has confirmed every row of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    NullType,
    StringType,
    StructType,
    TimestampType,
)

from warren.amqp.constants import PUBLISHER
from warren.errors import WarrenError
from warren.spark.consume import open_client
from warren.spark.encode import LEFT_BEHIND, Encoder
from warren.spark.options import OnReturn, WriteOptions
from warren.spark.publish import ConfirmedPublisher
from warren.spark.returns import CollectedReturns, FailingReturns, IgnoredReturns, Returns
from warren.spark.schema import PROPERTIES, PROPERTY_NAMES
from warren.spark.worker_memory import keep_modules

_HEADERS: Final = "map<string,string>"
# Of the number of a row: what is above it is the batch.
_ROW_BITS: Final = 32


@dataclass
class Published(WriterCommitMessage):
    """What a task has done."""

    messages: int
    returned: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        # Made once, on the driver: a task that is run again gives its messages the same ids.
        self._job = str(uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        return publish_task(self._options, self._job, 0, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        return publish_task(self._options, *batch_of_query(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The broker has confirmed all of it already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What is published stays published; the batch is repeated with the same ids."""


def publish_task(options: WriteOptions, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Published:
    """A publisher is a partition of a query, whose numbers go on from batch to batch: whatever an attempt of an earlier
    batch still sends is behind."""
    partition = _partition()
    numbered = (f"{options.publisher}/{query}/{partition}", batch << _ROW_BITS) if options.publisher else None
    return publish_rows(options, f"{query}/{batch}/{partition}", batches, numbered)


def publish_rows(
    options: WriteOptions,
    identity: str,
    batches: Iterator[pa.RecordBatch],
    numbered: tuple[str, int] | None = None,
) -> Published:
    """`identity` is what ids begin with; `numbered` the name of a publisher and from which number on its rows count."""
    returns = returns_of(options, identity)
    client = open_client(options.target, options.timeout, numbered)
    try:
        if numbered is not None and PUBLISHER not in client.server_properties:
            raise WarrenError(
                f"the broker at {options.target.place} does not number publishes: it takes a Warren of this release; "
                "leave option publisher out, and rows of an interrupted batch may come twice"
            )
        publisher = ConfirmedPublisher(client, options.max_in_flight, returns.take)
        encoder = Encoder(options, client.frame_max, identity)
        for batch in batches:
            encoder.publish(batch, publisher)
        publisher.finish()
        returns.finish()
    except BaseException:
        client.abandon()
        raise
    client.leave()
    keep_modules()
    return Published(publisher.confirms.published, returns.count)


def returns_of(options: WriteOptions, identity: str) -> Returns:
    if options.on_return is OnReturn.COLLECT:
        return CollectedReturns(options.returns_path, identity)
    return IgnoredReturns() if options.on_return is OnReturn.IGNORE else FailingReturns()


def check_columns(schema: StructType) -> None:
    """Refuse what cannot be sent, so that nobody believes that it was."""
    names = set(schema.names)
    if len(names & {"body", "value"}) != 1:
        raise WarrenError("a message needs one column body (or value), binary or string")
    known = {"body", "value", "exchange", "routing_key", "properties", "headers", "headers_raw"}
    unknown = names - known - set(PROPERTY_NAMES) - set(LEFT_BEHIND)
    if unknown:
        raise WarrenError(
            f"column {sorted(unknown)[0]} has no place in a message: put it into body or headers, or drop it"
        )
    flat = (names & set(PROPERTY_NAMES)) - {"timestamp"}
    if "properties" in names and flat:
        raise WarrenError(f"columns properties and {sorted(flat)[0]} contradict each other: give one of them")
    _check_types(schema)


def _check_types(schema: StructType) -> None:
    for field in schema.fields:
        kind = field.dataType
        if field.name in ("body", "value") and not isinstance(kind, BinaryType | StringType):
            raise WarrenError(f"column {field.name} is {kind.simpleString()} and must be binary or string")
        if field.name in ("exchange", "routing_key") and not isinstance(kind, StringType):
            raise WarrenError(f"column {field.name} is {kind.simpleString()} and must be string")
        if field.name == "headers_raw" and not isinstance(kind, BinaryType):
            raise WarrenError(f"column headers_raw is {kind.simpleString()} and must be binary")
        if field.name == "headers" and kind.simpleString() != _HEADERS:
            raise WarrenError(f"column headers is {kind.simpleString()} and must be {_HEADERS}")
        if field.name in PROPERTY_NAMES:
            _check_property(field.name, field.name, kind)
        if field.name == "properties":
            unknown = set(kind.names) - set(PROPERTY_NAMES) if isinstance(kind, StructType) else {"anything else"}
            if unknown or not isinstance(kind, StructType):
                raise WarrenError(f"column properties must be a struct of {', '.join(PROPERTY_NAMES)}")
            for each in kind.fields:
                _check_property(f"properties.{each.name}", each.name, each.dataType)


def _check_property(column: str, name: str, kind: DataType) -> None:
    """Workers would fail at the first row, four times, without a word about which column it is."""
    is_number = dict(PROPERTIES)[name] != "string"
    is_moment = name == "timestamp" and isinstance(kind, TimestampType)
    if not is_moment and not isinstance(kind, (IntegralType if is_number else StringType, NullType)):
        wanted = "a timestamp, or seconds as bigint" if name == "timestamp" else "int" if is_number else "string"
        raise WarrenError(f"column {column} is {kind.simpleString()} and must be {wanted}")


def batch_of_query() -> tuple[str, int]:
    """Which of which: the same whenever Spark does the batch again."""
    context = TaskContext.get()
    query = context and context.getLocalProperty("sql.streaming.queryId")
    batch = context and context.getLocalProperty("streaming.sql.batchId")
    if not query or not batch:
        raise WarrenError("Spark did not tell which batch of which query this is, so a repeated one cannot be told")
    return query, int(batch)


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
