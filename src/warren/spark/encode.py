"""Turns rows into the frames of basic.publish: which columns there may be, and how each gets onto the wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from warren.amqp.deliveries import text_of
from warren.amqp.fields import Field, Table
from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicPublish
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.publishes import Publishes
from warren.amqp.tables import decode_table
from warren.client.session import CHANNEL, frame_of
from warren.errors import AmqpError, WarrenError
from warren.spark.options import WriteOptions
from warren.spark.property_columns import PropertyColumn, fields_of, property_columns
from warren.spark.schema import PROPERTY_NAMES

# Of a message that was read: where it was, which it cannot take along.
LEFT_BEHIND: Final = ("queue", "offset", "redelivered", "arrived_at")
_MOST_TARGETS: Final = 10_000
_PERSISTENT: Final = 2

T = TypeVar("T")
# Exchange and routing key.
_Target = tuple[str | None, str | None]


class Encoder:
    """For the rows of one task. `identity` is what the ids of its messages begin with."""

    def __init__(self, options: WriteOptions, frame_max: int, identity: str) -> None:
        self._options = options
        self._frame_max = frame_max
        self._identity = identity
        self._row = 0
        self._targets: dict[_Target, bytes] = {}
        header = options.deduplication_header.encode()
        mode = 1 if options.persistent is False else _PERSISTENT
        self._publishes = Publishes(CHANNEL, frame_max, mode, header, f"{identity}/".encode())

    def chunks(self, batch: pa.RecordBatch, most: int, most_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Frames of many messages, and how many. Most rows are a body and a key, which takes no object for each."""
        columns = _Columns(batch)
        if not columns.are_plain:
            yield from _grouped(self.messages(batch), most, most_bytes)
            return
        publishes = self._publishes
        publishes.load(*columns.body_buffers(), *self._all_targets(columns), self._row)
        self._row += batch.num_rows
        while left := publishes.left:
            frames = publishes.take(most, most_bytes)
            yield frames, left - publishes.left

    def messages(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """The frames of each."""
        columns = _Columns(batch)
        bodies = columns.bodies()
        exchanges = columns.texts("exchange", self._options.exchange)
        keys = columns.texts("routing_key", self._options.routing_key)
        properties, sets_mode = columns.properties(), self._sets_mode(columns)
        headers, raw_headers = columns.optional("headers"), columns.optional("headers_raw")
        for at in range(batch.num_rows):
            identity = f"{self._identity}/{self._row}"
            self._row += 1
            encoded = self._properties(
                identity,
                {name: values[at] for name, values in properties if values[at] is not None},
                sets_mode[at],
                None if headers is None else headers[at],
                None if raw_headers is None else raw_headers[at],
            )
            body = bodies[at] or b""
            yield self._target(exchanges[at], keys[at]) + content_frames(CHANNEL, encoded, body, self._frame_max)

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

    def _properties(
        self,
        identity: str,
        values: dict[str, Any],
        sets_mode: bool,
        headers: Sequence[tuple[str, str | None]] | None,
        raw_headers: bytes | None,
    ) -> bytes:
        try:
            table = merge_headers(headers, raw_headers)
            name = self._options.deduplication_header
            if name and (table is None or name not in table or self._options.new_ids):
                table = {} if table is None else table
                table[name] = Field("S", identity)
            if "timestamp" in values:
                # Unsigned on the wire, and a bigint is not.
                values["timestamp"] %= 1 << 64
            if sets_mode:
                values["delivery_mode"] = 1 if self._options.persistent is False else _PERSISTENT
            return encode_properties(Properties(headers=table, **values))
        except AmqpError as error:
            raise WarrenError(f"row {identity} cannot be sent: {error.explanation}") from error

    def _sets_mode(self, columns: _Columns) -> Sequence[bool]:
        """By row. A message that was read keeps its own mode, or none, unless the option says otherwise."""
        if self._options.persistent is not None or not columns.have_mode:
            return _Same(True)
        return columns.without_properties()


def merge_headers(headers: Sequence[tuple[str, str | None]] | None, raw: bytes | None) -> Table | None:
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


def _grouped(messages: Iterator[bytes], most: int, most_bytes: int) -> Iterator[tuple[bytes, int]]:
    group: list[bytes] = []
    size = 0
    for message in messages:
        group.append(message)
        size += len(message)
        if len(group) >= most or size >= most_bytes:
            yield b"".join(group), len(group)
            group, size = [], 0
    if group:
        yield b"".join(group), len(group)


class _Columns:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._names = set(batch.schema.names)
        # Whether a row is no more than a body and where it goes.
        self.are_plain = not self._names & {"properties", "headers", "headers_raw", *PROPERTY_NAMES}
        self._properties = batch.column("properties") if "properties" in self._names else None
        fields = self._names if self._properties is None else {field.name for field in self._properties.type}
        self.have_mode = "delivery_mode" in fields

    def body_buffers(self) -> tuple[bytes, bytes]:
        """The bytes of all bodies, and where each ends."""
        bodies = self._bodies()
        bodies = bodies.fill_null(b"") if bodies.null_count else bodies
        _, ends, values = bodies.buffers()
        if ends is None or not len(bodies):
            return b"", bytes(4)
        numbers = np.frombuffer(ends, np.int32)[bodies.offset : bodies.offset + len(bodies) + 1]
        if values is None:
            return b"", numbers.tobytes()
        # A slice of a large column must not take all of it along.
        first, last = int(numbers[0]), int(numbers[-1])
        return values.slice(first, last - first).to_pybytes(), (numbers - numbers[0]).tobytes()

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
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return encoded.dictionary.to_pylist(), codes

    def optional(self, name: str) -> list[Any] | None:
        if name not in self._names or self._batch.column(name).null_count == self._batch.num_rows:
            return None
        values: list[Any] = self._batch.column(name).to_pylist()
        return values

    def bodies(self) -> list[bytes | None]:
        bodies: list[bytes | None] = self._bodies().to_pylist()
        return bodies

    def _bodies(self) -> pa.BinaryArray:
        # Text is its bytes: a view, not a conversion.
        return self._batch.column("body" if "body" in self._names else "value").cast(pa.binary())

    def texts(self, name: str, fixed: str | None) -> Sequence[str | None]:
        if fixed is not None:
            return _Same(fixed)
        texts: list[str | None] = self._batch.column(name).to_pylist()
        return texts

    def properties(self) -> list[PropertyColumn]:
        if self._properties is not None:
            return fields_of(self._properties)
        flat = [name for name in PROPERTY_NAMES if name in self._names]
        return property_columns(flat, [self._batch.column(name) for name in flat])

    def without_properties(self) -> Sequence[bool]:
        """By row."""
        if self._properties is None or not self._properties.null_count:
            return _Same(False)
        missing: list[bool] = self._properties.is_null().to_pylist()
        return missing


class _Same(Sequence[T]):
    """The same in every row."""

    def __init__(self, value: T) -> None:
        self._value = value

    def __getitem__(self, at: object) -> Any:
        return self._value

    def __len__(self) -> int:
        return 1
