"""What happens in queues while a path is played, one row each, and the Arrow batches in which it leaves."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

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

_MICROS: Final = pa.timestamp("us", "UTC")


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


# An Event, or a tuple of the same values. Nearly all rows are of the two kinds below, made without naming each field:
# that takes a fifth of the time that the whole stage took with it.
Row = tuple[object, ...]


def entered_row(
    vhost: str, queue: str, position: int, publisher: str, sequence: int, exchange: str, routing_key: str, at: int,
    reason: str, via: str, from_queue: str | None, expires_at: int, body_size: int, outcome: str | None,
) -> Row:  # fmt: skip
    return (
        ENTERED, vhost, queue, position, publisher, sequence, exchange, routing_key, at, reason, via, from_queue,
        None, None, expires_at, body_size, outcome, None, None, None, None, None,
    )  # fmt: skip


def kept_row(
    vhost: str, queue: str, position: int, publisher: str, sequence: int, exchange: str, routing_key: str,
    x_death: str | None, redelivered: bool, expires_at: int, body_size: int, outcome: str, place: int,
    component: int | None, saved: bytes | None,
) -> Row:  # fmt: skip
    return (
        KEPT, vhost, queue, position, publisher, sequence, exchange, routing_key, -1, None, None, None,
        x_death, redelivered, expires_at, body_size, outcome, None, None, place, component, saved,
    )  # fmt: skip


_KINDS: Final = {
    "position": (pa.int64(), "bigint"),
    "sequence": (pa.int64(), "bigint"),
    "at": (_MICROS, "timestamp"),
    "redelivered": (pa.bool_(), "boolean"),
    "expires_at": (_MICROS, "timestamp"),
    "body_size": (pa.int64(), "bigint"),
    "message": (pa.int64(), "bigint"),
    "place": (pa.int64(), "bigint"),
    "component": (pa.int32(), "int"),
    "saved": (pa.binary(), "binary"),
}
FIELDS: Final = tuple((name, *_KINDS.get(name, (pa.string(), "string"))) for name in Event._fields)
ARROW_SCHEMA: Final = pa.schema([(name, kind) for name, kind, _ in FIELDS])
SPARK_SCHEMA: Final = ", ".join(f"{name} {spark}" for name, _, spark in FIELDS)


class EventRows:
    """Collects rows; `batch` hands them over."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def batch(self) -> pa.RecordBatch:
        rows, self.rows = self.rows, []
        columns = []
        for (_, kind, _), values in zip(FIELDS, zip(*rows, strict=True), strict=True):
            if kind == _MICROS:
                columns.append(pa.array([None if value < 0 else value * 1000 for value in values], kind))
            else:
                columns.append(pa.array(values, kind))
        return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
