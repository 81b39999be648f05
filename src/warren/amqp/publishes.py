"""Lays out the frames of basic.publish for many rows at once: columns of bytes in, what goes onto the wire out.

The counterpart of deliveries.py. Columns are as Arrow lays them out (little-endian, 32 bits). A row that has no headers
of its own gets one: the number of the row, which tells a repeated message.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i64_be
from mypy_extensions import i64

from warren.amqp.constants import FRAME_BODY, FRAME_END, FRAME_OVERHEAD
from warren.amqp.frames import begin_frame, begin_header
from warren.amqp.numbers import write_u16, write_u32
from warren.amqp.properties import DELIVERY_MODE, HEADERS

_S: Final = 0x53
_WIDTH: Final = 4
# In a header frame: behind type, channel and size of the frame, class and weight.
_BODY_SIZE_AT: Final = 7 + 4


class BytesColumn:
    """`ends` has the start of the first value before them. Without any, the value is the same in every row."""

    def __init__(self, values: bytes, ends: bytes = b"") -> None:
        self._values = values
        self._ends = ends

    @property
    def is_one(self) -> bool:
        return not self._ends

    @property
    def rows(self) -> int:
        return len(self._ends) // _WIDTH - 1

    def start(self, at: i64) -> i64:
        return i64(read_i32_le(self._ends, at * _WIDTH)) if self._ends else 0

    def size(self, at: i64) -> i64:
        if not self._ends:
            return len(self._values)
        return i64(read_i32_le(self._ends, (at + 1) * _WIDTH)) - i64(read_i32_le(self._ends, at * _WIDTH))

    def piece(self, start: i64, end: i64) -> bytes:
        return self._values[start:end]


class RowProperties:
    """`flags` are those of all but the headers, 32 bits for each row, or for all of them. `before` and `behind` is what
    the wire has before the headers and behind them, `tables` the headers of rows that have some, whole."""

    def __init__(self, flags: bytes, before: BytesColumn, tables: BytesColumn, behind: BytesColumn) -> None:
        self.before = before
        self.tables = tables
        self.behind = behind
        self._flags = flags
        self._is_one = len(flags) == _WIDTH
        self.are_alike = self._is_one and before.is_one and behind.is_one and tables.is_one and not tables.size(0)

    def flags(self, at: i64) -> i64:
        return i64(read_i32_le(self._flags, 0 if self._is_one else at * _WIDTH))


def only_mode(delivery_mode: int) -> RowProperties:
    """Of rows that are a body and a target and nothing else."""
    none = BytesColumn(b"")
    return RowProperties(DELIVERY_MODE.to_bytes(_WIDTH, "little"), none, none, BytesColumn(bytes([delivery_mode])))


class Publishes:
    def __init__(self, channel: int, frame_max: int, header: bytes, identity: bytes) -> None:
        """`identity` is what the text of the header begins with; without a name there is no header."""
        self._channel: i64 = channel
        self._room: i64 = frame_max - FRAME_OVERHEAD if frame_max > FRAME_OVERHEAD else 0x7FFFFFFF
        self._header = header
        self._identity = identity
        self._bodies = BytesColumn(b"")
        self._properties = only_mode(0)
        self._targets: list[bytes] = []
        self._which = b""
        self._at: i64 = 0
        self._count: i64 = 0
        self._row: i64 = 0
        # Of rows that are alike, see _lay_out.
        self._digits: i64 = -1
        self._opening = b""
        self._before_number = b""
        self._behind_number = b""

    @property
    def left(self) -> int:
        return self._count - self._at

    def load(
        self, bodies: BytesColumn, properties: RowProperties, targets: list[bytes], which: bytes, row: int
    ) -> None:
        """`which` is the number of each row's target, empty when there is only one; `row` that of the first row."""
        self._bodies = bodies
        self._properties = properties
        self._digits = -1
        self._targets = targets
        self._which = which
        self._at = 0
        self._count = bodies.rows
        self._row = row

    def take(self, most: int, most_bytes: int) -> bytes:
        """Frames of the next rows: of one at least, and no more when there are so many rows or bytes."""
        writer = BytesWriter()
        last: i64 = min(self._at + i64(most), self._count)
        enough: i64 = most_bytes
        are_alike = self._properties.are_alike
        while self._at < last and len(writer) < enough:
            at = self._at
            number: i64 = i64(read_i32_le(self._which, at * _WIDTH)) if self._which else 0
            writer.write(self._targets[number])
            start = self._bodies.start(at)
            end = start + self._bodies.size(at)
            if are_alike:
                self._write_like_others(writer, at, end - start)
            else:
                self._write_header(writer, at, end - start)
            self._write_body(writer, start, end)
            self._at = at + 1
        return writer.getvalue()

    def _write_like_others(self, writer: BytesWriter, at: i64, body_size: i64) -> None:
        """Headers that differ in nothing but the size of the body and the number."""
        number = str(self._row + at).encode() if self._header else b""
        if len(number) != self._digits:
            self._lay_out(at, len(number))
        writer.write(self._opening)
        write_i64_be(writer, body_size)
        writer.write(self._before_number)
        writer.write(number)
        writer.write(self._behind_number)

    def _lay_out(self, at: i64, digits: i64) -> None:
        """A header in pieces: where these are is known when it is, once for all numbers of so many digits."""
        writer = BytesWriter()
        self._write_header(writer, at, 0)
        whole = writer.getvalue()
        number: i64 = len(whole) - 1 - self._properties.behind.size(at) - digits
        self._opening = whole[:_BODY_SIZE_AT]
        self._before_number = whole[_BODY_SIZE_AT + 8 : number]
        self._behind_number = whole[number + digits :]
        self._digits = digits

    def _write_header(self, writer: BytesWriter, at: i64, body_size: i64) -> None:
        given = self._properties
        flags = given.flags(at)
        table = given.tables.size(at)
        number = b""
        if not table and self._header:
            number = str(self._row + at).encode()
            # Its length, length and name of the header, the type, length and text.
            table = 4 + 1 + len(self._header) + 1 + 4 + len(self._identity) + len(number)
        if table:
            flags |= HEADERS
        before, behind = given.before.size(at), given.behind.size(at)
        begin_header(writer, self._channel, body_size, 2 + before + table + behind)
        write_u16(writer, flags)
        if before:
            _write(writer, given.before, at, before)
        if number:
            self._write_number(writer, table - 4, number)
        elif table:
            _write(writer, given.tables, at, table)
        if behind:
            _write(writer, given.behind, at, behind)
        writer.append(FRAME_END)

    def _write_number(self, writer: BytesWriter, size: i64, number: bytes) -> None:
        write_u32(writer, size)
        writer.append(len(self._header))
        writer.write(self._header)
        writer.append(_S)
        write_u32(writer, len(self._identity) + len(number))
        writer.write(self._identity)
        writer.write(number)

    def _write_body(self, writer: BytesWriter, at: i64, end: i64) -> None:
        while at < end:
            size: i64 = min(end - at, self._room)
            begin_frame(writer, FRAME_BODY, self._channel, size)
            writer.write(self._bodies.piece(at, at + size))
            writer.append(FRAME_END)
            at += size


def _write(writer: BytesWriter, column: BytesColumn, at: i64, size: i64) -> None:
    start = column.start(at)
    writer.write(column.piece(start, start + size))
