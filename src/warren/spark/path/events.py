"""What happens in queues while a path is played, one row each, and the Arrow batches in which it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from warren.spark.arrow_schema import struct_of

# The outcome of an entry into a stream, which never leaves it.
APPENDED: Final = "appended"
# What a row is about.
ENTERED: Final = "entered"  # a message entered a queue
DEAD_LETTERED: Final = "dead_lettered"  # it left for the dead-letter exchange
DROPPED: Final = "dropped"  # it left for nowhere
REFUSED: Final = "refused"  # a full queue did not take it
CONSUMED: Final = "consumed"  # a consumer settled it
KEPT: Final = "kept"  # it is there at the end
CONFIRMED: Final = "confirmed"  # what its publisher hears, as far as these queues go
STATE: Final = "state"  # of a queue, for the next batch of a stream


class Event(NamedTuple):
    kind: str
    vhost: str | None = None
    queue: str | None = None
    position: int | None = None
    publisher: str | None = None
    sequence: int | None = None
    exchange: str | None = None
    routing_key: str | None = None
    # Milliseconds, as everywhere in the broker; below 0 is never.
    at: int = -1
    # entered: published or dead_letter. dead_lettered, dropped: expired, maxlen, rejected, delivery_limit, duplicate.
    reason: str | None = None
    # entered: the exchange whose binding led here.
    via: str | None = None
    from_queue: str | None = None
    x_death: str | None = None
    redelivered: bool | None = None
    expires_at: int = -1
    body_size: int | None = None
    # confirmed: ack or nack. consumed: acked, rejected, requeued. kept: ready or unacked.
    outcome: str | None = None
    consumer: str | None = None
    # confirmed: the number of the row.
    message: int | None = None
    # kept: in which order it would be handed out, from 1.
    place: int | None = None
    component: int | None = None
    saved: bytes | None = None


# Nearly all rows are of three kinds. Of those only the fields that they have are kept, as plain tuples in this order:
# to name each field, and to hand empty ones to Arrow value by value, takes a fifth of the time of the whole stage.
_PLACE: Final = ("vhost", "queue", "position", "publisher", "sequence", "exchange", "routing_key")
ENTERED_FIELDS: Final = (*_PLACE, "at", "reason", "via", "from_queue", "expires_at", "body_size", "outcome")
DROPPED_FIELDS: Final = (*_PLACE, "at", "reason", "body_size")
KEPT_FIELDS: Final = (
    *_PLACE, "x_death", "redelivered", "expires_at", "body_size", "outcome", "place", "component", "saved",
)  # fmt: skip
Row = tuple[object, ...]
# Rows of one kind that are collected before they leave.
BATCH: Final = 10_000


# Of the columns that are no text.
_KINDS: Final = {
    "position": "bigint", "sequence": "bigint", "at": "timestamp", "redelivered": "boolean", "expires_at": "timestamp",
    "body_size": "bigint", "message": "bigint", "place": "bigint", "component": "int", "saved": "binary",
}  # fmt: skip
SPARK_SCHEMA: Final = ", ".join(f"{name} {_KINDS.get(name, 'string')}" for name in Event._fields)
ARROW_SCHEMA: Final = pa.schema(struct_of(SPARK_SCHEMA))


class EventRows:
    """Collects rows; `batches` hands them over, kind by kind, each in the order in which it happened."""

    def __init__(self) -> None:
        self.entered: list[Row] = []
        self.dropped: list[Row] = []
        self.kept: list[Row] = []
        # Of all other kinds.
        self.others: list[Event] = []

    @property
    def are_many(self) -> bool:
        # What is dropped has entered, and what is kept comes at the end.
        return len(self.entered) >= BATCH or len(self.kept) >= BATCH or len(self.others) >= BATCH

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows, self.entered = self.entered, []
        yield from _batch(ENTERED, ENTERED_FIELDS, rows)
        rows, self.dropped = self.dropped, []
        yield from _batch(DROPPED, DROPPED_FIELDS, rows)
        rows, self.kept = self.kept, []
        yield from _batch(KEPT, KEPT_FIELDS, rows)
        others, self.others = self.others, []
        yield from _batch("", Event._fields, others)


def _batch(kind: str, names: tuple[str, ...], rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
    if not rows:
        return
    values = dict(zip(names, zip(*rows, strict=True), strict=True))
    count = len(rows)
    columns = []
    for field in ARROW_SCHEMA:
        given = values.get(field.name)
        if given is None:
            columns.append(pa.repeat(kind, count) if field.name == "kind" else pa.nulls(count, field.type))
        elif pa.types.is_timestamp(field.type):
            millis = np.array(given, np.int64)
            columns.append(pa.array(millis * 1000, field.type, mask=millis < 0))
        else:
            columns.append(pa.array(given, field.type))
    yield pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
