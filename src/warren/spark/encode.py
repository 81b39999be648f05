"""Turns rows into the frames of basic.publish: which columns there may be, and how each gets onto the wire."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warren.amqp.deliveries import text_of
from warren.amqp.fields import Field, Table
from warren.amqp.methods import BasicPublish
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.publishes import BytesColumn, Publishes, RowProperties, only_mode
from warren.amqp.tables import decode_table, encode_table
from warren.client.session import CHANNEL, frame_of
from warren.errors import AmqpError, WarrenError
from warren.spark.arrow_values import bytes_value, number_value, numbers_of
from warren.spark.options import WriteOptions
from warren.spark.property_bytes import CannotBeSent, PropertyBytes
from warren.spark.publish import SEND_BYTES, ConfirmedPublisher
from warren.spark.schema import PROPERTY_NAMES

# Of a message that was read: where it was, which it cannot take along.
LEFT_BEHIND: Final = ("queue", "offset", "redelivered", "arrived_at")
_MOST_TARGETS: Final = 10_000
_PERSISTENT: Final = 2
_MODE: Final = "delivery_mode"
_NO_BYTES: Final = bytes_value(b"", pa.binary())

# Exchange and routing key.
_Target = tuple[str | None, str | None]
_Headers = Sequence[tuple[str, str | None]]


class Encoder:
    """For the rows of one task. `identity` is what the ids of its messages begin with."""

    def __init__(self, options: WriteOptions, frame_max: int, identity: str) -> None:
        self._options = options
        self._identity = identity
        self._row = 0
        self._targets: dict[_Target, bytes] = {}
        header = options.deduplication_header.encode()
        self._mode = 1 if options.persistent is False else _PERSISTENT
        self._publishes = Publishes(CHANNEL, frame_max, header, f"{identity}/".encode())

    def publish(self, batch: pa.RecordBatch, publisher: ConfirmedPublisher) -> None:
        for frames, messages in self.chunks(batch, publisher.most_at_once, SEND_BYTES):
            publisher.publish(frames, messages)

    def chunks(self, batch: pa.RecordBatch, most: int, most_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Frames of many messages, and how many."""
        columns = _Columns(batch)
        publishes = self._publishes
        properties = self._properties(columns) if columns.has_properties else only_mode(self._mode)
        publishes.load(_laid_out(columns.bodies()), properties, *self._all_targets(columns), self._row)
        self._row += batch.num_rows
        while left := publishes.left:
            frames = publishes.take(most, most_bytes)
            yield frames, left - publishes.left

    def _target(self, exchange: str | None, key: str | None) -> bytes:
        frame = self._targets.get((exchange, key))
        if frame is None:
            if exchange is None or key is None:
                name = "exchange" if exchange is None else "routing_key"
                raise WarrenError(f"column {name} is null in row {self._identity}/{self._row - 1}")
            frame = frame_of(BasicPublish(exchange=exchange, routing_key=key, mandatory=self._options.mandatory))
            if len(self._targets) >= _MOST_TARGETS:
                self._targets.clear()
            self._targets[exchange, key] = frame
        return frame

    def _all_targets(self, columns: _Columns) -> tuple[list[bytes], bytes]:
        """The distinct ones, and which of them each row has."""
        options = self._options
        if options.exchange is not None and options.routing_key is not None:
            return [self._target(options.exchange, options.routing_key)], b""
        pairs, which = columns.targets(options.exchange, options.routing_key)
        targets = []
        for number, (exchange, key) in enumerate(pairs):
            if exchange is None or key is None:
                # Which row it is goes into what is said of it.
                self._row += int(np.argmax(which == number)) + 1
            targets.append(self._target(exchange, key))
        return targets, which.tobytes()

    def _properties(self, columns: _Columns) -> RowProperties:
        given = columns.properties()
        given[_MODE] = self._modes(columns, given.get(_MODE))
        try:
            laid_out = PropertyBytes(given, columns.rows)
        except CannotBeSent as refused:
            value = given[refused.name][refused.row].as_py()
            with self._told_of(refused.row):
                encode_properties(Properties(**{refused.name: value}))
            raise
        before, behind = _laid_out(laid_out.before), _laid_out(laid_out.behind)
        return RowProperties(laid_out.flags, before, self._tables(columns), behind)

    def _modes(self, columns: _Columns, modes: pa.Array | None) -> pa.Array:
        """A message that was read keeps its own mode, or none, unless the option says otherwise."""
        mode = number_value(np.int32(self._mode), pa.int32())
        if self._options.persistent is not None or modes is None:
            return pa.repeat(mode, columns.rows)
        unread = columns.without_properties()
        return modes if unread is None else pc.if_else(unread, mode, modes)

    def _tables(self, columns: _Columns) -> BytesColumn:
        """Of the rows that have headers of their own, with the id; others are left out, and get no more than an id."""
        headers, raw = columns.optional("headers"), columns.optional("headers_raw")
        if headers is None and raw is None:
            return BytesColumn(b"")
        none = [None] * columns.rows
        pairs = enumerate(zip(headers or none, raw or none, strict=True))
        tables = [b"" if own == (None, None) else self._table(row, *own) for row, own in pairs]
        ends = np.cumsum([0, *map(len, tables)], dtype=np.int32)
        return BytesColumn(b"".join(tables), ends.tobytes())

    def _table(self, row: int, headers: _Headers | None, raw: bytes | None) -> bytes:
        with self._told_of(row):
            table = merge_headers(headers, raw)
            assert table is not None
            name = self._options.deduplication_header
            if name and (name not in table or self._options.new_ids):
                table[name] = Field("S", f"{self._identity}/{self._row + row}")
            return encode_table(table)

    @contextlib.contextmanager
    def _told_of(self, row: int) -> Iterator[None]:
        try:
            yield
        except AmqpError as error:
            raise WarrenError(f"row {self._identity}/{self._row + row} cannot be sent: {error.explanation}") from error


def merge_headers(headers: _Headers | None, raw: bytes | None) -> Table | None:
    """A header of `headers` keeps the type that it has in `raw` as long as its text is the same; else it is text."""
    typed = None if raw is None else decode_table(raw, 4, len(raw))
    if headers is None or typed is None:
        return typed if headers is None else {name: _text_field(value) for name, value in headers}
    merged: Table = {}
    for name, value in headers:
        field = typed.get(name)
        merged[name] = field if field is not None and text_of(field) == value else _text_field(value)
    return merged


def _text_field(value: str | None) -> Field:
    return Field("V", None) if value is None else Field("S", value)


def _laid_out(column: pa.Array | None) -> BytesColumn:
    """The bytes of all values, and where each ends."""
    if column is None:
        return BytesColumn(b"")
    column = column.fill_null(_NO_BYTES) if column.null_count else column
    _, ends, values = column.buffers()
    if ends is None or not len(column):
        return BytesColumn(b"", bytes(4))
    numbers = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    if values is None:
        return BytesColumn(b"", numbers.tobytes())
    # A slice of a large column must not take all of it along.
    first, last = int(numbers[0]), int(numbers[-1])
    return BytesColumn(values.slice(first, last - first).to_pybytes(), (numbers - numbers[0]).tobytes())


class _Columns:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._names = set(batch.schema.names)
        self.rows = batch.num_rows
        # Whether a row is more than a body and where it goes.
        self.has_properties = bool(self._names & {"properties", "headers", "headers_raw", *PROPERTY_NAMES})
        self._properties = batch.column("properties") if "properties" in self._names else None

    def targets(self, exchange: str | None, key: str | None) -> tuple[list[_Target], np.ndarray[Any, Any]]:
        """Every distinct exchange and key, and for each row which of them it has."""
        exchanges, exchange_of = self._distinct("exchange", exchange)
        keys, key_of = self._distinct("routing_key", key)
        codes, which = np.unique(exchange_of * len(keys) + key_of, return_inverse=True)
        pairs = [(exchanges[code // len(keys)], keys[code % len(keys)]) for code in codes.tolist()]
        return pairs, which.astype(np.int32)

    def _distinct(self, name: str, fixed: str | None) -> tuple[list[str | None], np.ndarray[Any, Any]]:
        if fixed is not None:
            return [fixed], np.zeros(self._batch.num_rows, np.int64)
        encoded = self._batch.column(name).dictionary_encode(null_encoding="encode")
        return encoded.dictionary.to_pylist(), numbers_of(encoded.indices).astype(np.int64)

    def optional(self, name: str) -> list[Any] | None:
        if name not in self._names or self._batch.column(name).null_count == self._batch.num_rows:
            return None
        values: list[Any] = self._batch.column(name).to_pylist()
        return values

    def bodies(self) -> pa.BinaryArray:
        # Text is its bytes: a view, not a conversion.
        return self._batch.column("body" if "body" in self._names else "value").cast(pa.binary())

    def properties(self) -> dict[str, pa.Array]:
        if self._properties is not None:
            names = [field.name for field in self._properties.type]
            return dict(zip(names, self._properties.flatten(), strict=True))
        return {name: self._batch.column(name) for name in PROPERTY_NAMES if name in self._names}

    def without_properties(self) -> pa.Array | None:
        """By row, whether it has none of them because nothing was read; None where columns are single properties."""
        return None if self._properties is None else self._properties.is_null()
