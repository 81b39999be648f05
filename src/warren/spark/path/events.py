"""What happens in queues while a path is played, one row each, and the Arrow batches in which it leaves."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

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
FIELDS: Final = (
    ("kind", pa.string(), "string"),
    ("vhost", pa.string(), "string"),
    ("queue", pa.string(), "string"),
    ("position", pa.int64(), "bigint"),
    ("publisher", pa.string(), "string"),
    ("sequence", pa.int64(), "bigint"),
    ("exchange", pa.string(), "string"),
    ("routing_key", pa.string(), "string"),
    ("at", _MICROS, "timestamp"),
    # entered: published or dead_letter. dead_lettered, dropped: expired, maxlen, rejected, delivery_limit, duplicate.
    ("reason", pa.string(), "string"),
    # entered: the exchange whose binding led here.
    ("via", pa.string(), "string"),
    ("from_queue", pa.string(), "string"),
    ("x_death", pa.string(), "string"),
    ("redelivered", pa.bool_(), "boolean"),
    ("expires_at", _MICROS, "timestamp"),
    ("body_size", pa.int64(), "bigint"),
    # confirmed: ack or nack. consumed: acked, rejected, requeued. kept: ready or unacked.
    ("outcome", pa.string(), "string"),
    ("consumer", pa.string(), "string"),
    ("message", pa.int64(), "bigint"),
    # kept: in which order it would be handed out, from 1.
    ("place", pa.int64(), "bigint"),
    ("component", pa.int32(), "int"),
    ("saved", pa.binary(), "binary"),
)
ARROW_SCHEMA: Final = pa.schema([(name, kind) for name, kind, _ in FIELDS])
SPARK_SCHEMA: Final = ", ".join(f"{name} {spark}" for name, _, spark in FIELDS)
_NAMES: Final = tuple(name for name, _, _ in FIELDS)
_TIMES: Final = ("at", "expires_at")

Event = dict[str, Any]


class Events:
    """Collects rows; `batch` hands them over."""

    def __init__(self) -> None:
        self.rows: list[Event] = []

    def add(self, kind: str, **values: Any) -> None:
        values["kind"] = kind
        self.rows.append(values)

    def batch(self) -> pa.RecordBatch:
        rows, self.rows = self.rows, []
        columns = []
        for name, kind, _ in FIELDS:
            values = [row.get(name) for row in rows]
            if name in _TIMES:
                values = [None if value is None or value < 0 else value * 1000 for value in values]
            columns.append(pa.array(values, kind))
        return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
