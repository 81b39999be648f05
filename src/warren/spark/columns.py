"""Makes Arrow record batches of deliveries: the bytes are laid out already, so this costs little for each message."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from warren.amqp.deliveries import Column, Deliveries, SparseColumn, SparseNumbers
from warren.spark.arrow_schema import ARROW, HEADERS_TYPE, PROPERTIES_TYPE
from warren.spark.arrow_values import Numbers, array_of, array_of_flags, bytes_value, flags_of, number_value, numbers_of
from warren.spark.schema import PROPERTIES

_ZERO: Final = bytes(4)
# What a timestamp of microseconds can hold, in seconds.
_SECONDS_MAX: Final = 9_223_372_036_854
_NO_SECONDS: Final = number_value(np.int64(0), pa.int64())


def record_batch(deliveries: Deliveries, queue: str) -> pa.RecordBatch:
    count = deliveries.count
    frames = pa.py_buffer(deliveries.frames())
    seconds = _sparse_numbers(deliveries.timestamp, count, pa.int64())
    properties = []
    for name, kind in PROPERTIES:
        if name == "timestamp":
            properties.append(seconds)
        elif kind == "string":
            properties.append(_sparse_text(getattr(deliveries, name), count))
        else:
            properties.append(_sparse_numbers(getattr(deliveries, name), count, pa.int32()))
    columns = [
        _full(deliveries.body, frames, count, pa.binary()),
        _valid_text(_full(deliveries.exchange, frames, count, pa.string())),
        _valid_text(_full(deliveries.routing_key, frames, count, pa.string())),
        pa.repeat(bytes_value(queue.encode(), pa.string()), count),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(deliveries.places.getvalue())]),
        _moments(seconds),
        array_of_flags(np.frombuffer(deliveries.redelivered.getvalue(), np.bool_)),
        pa.StructArray.from_arrays(properties, fields=list(PROPERTIES_TYPE)),
        _headers(deliveries, count),
        _sparse(deliveries.headers, count, pa.binary()),
        _arrivals(deliveries, count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def _full(column: Column, frames: pa.Buffer, count: int, kind: pa.DataType) -> pa.Array:
    """The edges are those of values and of what lies between two of them, which is left out."""
    edges = pa.py_buffer(column.edges.getvalue())
    all_of_them = pa.Array.from_buffers(kind, max(0, 2 * count - 1), [None, edges, frames])
    return all_of_them.take(array_of(np.arange(0, 2 * count, 2), pa.int64()))


def _sparse(column: SparseColumn, count: int, kind: pa.DataType) -> pa.Array:
    rows = np.frombuffer(column.rows.getvalue(), "<i4")
    if not len(rows):
        return pa.nulls(count, kind)
    ends = pa.py_buffer(_ZERO + column.ends.getvalue())
    dense = pa.Array.from_buffers(kind, len(rows), [None, ends, pa.py_buffer(column.values.getvalue())])
    return _spread(dense, rows, count)


def _sparse_text(column: SparseColumn, count: int) -> pa.Array:
    return _valid_text(_sparse(column, count, pa.string()))


def _sparse_numbers(column: SparseNumbers, count: int, kind: pa.DataType) -> pa.Array:
    rows = np.frombuffer(column.rows.getvalue(), "<i4")
    if not len(rows):
        return pa.nulls(count, kind)
    dense = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(column.values.getvalue())]).cast(kind)
    return _spread(dense, rows, count)


def _spread(dense: pa.Array, rows: Numbers, count: int) -> pa.Array:
    """The values in the rows that have one, nulls in the others."""
    if len(rows) == count:
        return dense
    places = np.full(count, -1, np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    return dense.take(array_of(places, pa.int32(), places < 0))


def _headers(deliveries: Deliveries, count: int) -> pa.Array:
    with_headers = np.frombuffer(deliveries.headers.rows.getvalue(), "<i4")
    if not len(with_headers):
        return pa.nulls(count, HEADERS_TYPE)
    names, values = deliveries.header_names, deliveries.header_values
    rows = np.frombuffer(names.rows.getvalue(), "<i4")
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=ends[1:])
    is_absent = np.ones(count + 1, np.bool_)
    is_absent[with_headers] = False
    is_absent[count] = False
    return pa.MapArray.from_arrays(
        array_of(ends, pa.int32(), is_absent), _dense_text(names, len(rows)), _dense_text(values, len(rows))
    )


def _dense_text(column: SparseColumn, count: int) -> pa.Array:
    ends = pa.py_buffer(_ZERO + column.ends.getvalue())
    values = pa.py_buffer(column.values.getvalue())
    return _valid_text(pa.Array.from_buffers(pa.string(), count, [None, ends, values]))


def _moments(seconds: pa.Array) -> pa.Array:
    """Publishers put anything into a timestamp; what is no moment that a calendar knows is null."""
    kind = pa.timestamp("us", tz="UTC")
    if seconds.null_count == len(seconds):
        return pa.nulls(len(seconds), kind)
    numbers = numbers_of(seconds.fill_null(_NO_SECONDS))
    is_absent = flags_of(seconds.is_null()) | (numbers < 0) | (numbers > _SECONDS_MAX)
    micros = np.where(is_absent, 0, numbers) * 1_000_000
    return array_of(micros, pa.int64(), is_absent).cast(kind)


def _arrivals(deliveries: Deliveries, count: int) -> pa.Array:
    millis = np.frombuffer(deliveries.times.getvalue(), "<i8")
    return array_of(millis * 1000, pa.int64(), millis < 0).cast(pa.timestamp("us", tz="UTC"))


def _valid_text(texts: pa.Array) -> pa.Array:
    """AMQP carries any bytes where text is meant, and one such message must not end a query that only looks at it."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.view(pa.binary()).to_pylist()
        return pa.array([None if value is None else value.decode("utf-8", "replace") for value in raw], pa.string())
    return texts
