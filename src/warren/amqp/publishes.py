"""Lays out the frames of basic.publish for many rows at once: columns of bytes in, what goes onto the wire out.

The counterpart of deliveries.py, for messages that are a target, a body, a delivery mode and at most one header: the
number of the row, which tells a repeated message. Columns are as Arrow lays them out (little-endian, 32 bits).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le
from mypy_extensions import i64

from warren.amqp.constants import FRAME_BODY, FRAME_END, FRAME_OVERHEAD
from warren.amqp.frames import begin_frame, begin_header
from warren.amqp.numbers import write_u16, write_u32
from warren.amqp.properties import DELIVERY_MODE, HEADERS

_S: Final = 0x53
_WIDTH: Final = 4


class Publishes:
    def __init__(self, channel: int, frame_max: int, delivery_mode: int, header: bytes, identity: bytes) -> None:
        """`identity` is what the text of the header begins with; without a name there is no header."""
        self._channel: i64 = channel
        self._room: i64 = frame_max - FRAME_OVERHEAD if frame_max > FRAME_OVERHEAD else 0x7FFFFFFF
        self._delivery_mode: i64 = delivery_mode
        self._header = header
        self._identity = identity
        self._bodies = b""
        self._ends = b""
        self._targets: list[bytes] = []
        self._which = b""
        self._at: i64 = 0
        self._count: i64 = 0
        self._row: i64 = 0

    @property
    def left(self) -> int:
        return self._count - self._at

    def load(self, bodies: bytes, ends: bytes, targets: list[bytes], which: bytes, row: int) -> None:
        """`ends` has the start of the first body before them; `which` is the number of each row's target, empty when
        there is only one; `row` is the number of the first."""
        self._bodies = bodies
        self._ends = ends
        self._targets = targets
        self._which = which
        self._at = 0
        self._count = len(ends) // _WIDTH - 1
        self._row = row

    def take(self, most: int, most_bytes: int) -> bytes:
        """Frames of the next rows: of one at least, and no more when there are so many rows or bytes."""
        writer = BytesWriter()
        last: i64 = min(self._at + i64(most), self._count)
        enough: i64 = most_bytes
        while self._at < last and len(writer) < enough:
            at = self._at
            number: i64 = i64(read_i32_le(self._which, at * _WIDTH)) if self._which else 0
            writer.write(self._targets[number])
            start: i64 = i64(read_i32_le(self._ends, at * _WIDTH))
            end: i64 = i64(read_i32_le(self._ends, (at + 1) * _WIDTH))
            self._write_header(writer, end - start, str(self._row + at).encode())
            self._write_body(writer, start, end)
            self._at = at + 1
        return writer.getvalue()

    def _write_header(self, writer: BytesWriter, body_size: i64, row: bytes) -> None:
        name: i64 = len(self._header)
        text: i64 = len(self._identity) + len(row)
        # Length and name, the type, length and text.
        table: i64 = 1 + name + 1 + 4 + text
        # Flags, the table, the mode.
        begin_header(writer, self._channel, body_size, 3 + (4 + table if name else 0))
        if name:
            write_u16(writer, HEADERS | DELIVERY_MODE)
            write_u32(writer, table)
            writer.append(name)
            writer.write(self._header)
            writer.append(_S)
            write_u32(writer, text)
            writer.write(self._identity)
            writer.write(row)
        else:
            write_u16(writer, DELIVERY_MODE)
        writer.append(self._delivery_mode)
        writer.append(FRAME_END)

    def _write_body(self, writer: BytesWriter, at: i64, end: i64) -> None:
        while at < end:
            size: i64 = min(end - at, self._room)
            begin_frame(writer, FRAME_BODY, self._channel, size)
            writer.write(self._bodies[at : at + size])
            writer.append(FRAME_END)
            at += size
