"""Writes the arguments of one method in order, alone or in their frame: the mirror of the reader."""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from warren.amqp.constants import FRAME_END, FRAME_METHOD, FRAME_PREFIX
from warren.amqp.fields import Table
from warren.amqp.frames import begin_frame
from warren.amqp.numbers import write_shortstr, write_u16, write_u32, write_u64
from warren.amqp.tables import encode_table
from warren.errors import SyntaxRefused


class ArgumentWriter:
    def __init__(self) -> None:
        self._out = BytesWriter()

    def begin_frame(self, channel: i64, method_id: i64) -> None:
        # How long it is stands there when it is.
        begin_frame(self._out, FRAME_METHOD, channel, 0)
        write_u32(self._out, method_id)

    def end_frame(self) -> bytes:
        out = self._out
        size: i64 = len(out) - FRAME_PREFIX
        out[3] = u8(size >> 24 & 0xFF)
        out[4] = u8(size >> 16 & 0xFF)
        out[5] = u8(size >> 8 & 0xFF)
        out[6] = u8(size & 0xFF)
        out.append(FRAME_END)
        return out.getvalue()

    def octet(self, value: int) -> None:
        if not 0 <= value <= 0xFF:
            raise SyntaxRefused("number does not fit an octet")
        self._out.append(value)

    def short(self, value: int) -> None:
        if not 0 <= value <= 0xFFFF:
            raise SyntaxRefused("number does not fit a short")
        write_u16(self._out, value)

    def long(self, value: int) -> None:
        if not 0 <= value <= 0xFFFFFFFF:
            raise SyntaxRefused("number does not fit a long")
        write_u32(self._out, value)

    def longlong(self, value: int) -> None:
        write_u64(self._out, value)

    def shortstr(self, value: str) -> None:
        write_shortstr(self._out, value)

    def longstr(self, value: bytes) -> None:
        self.long(len(value))
        self._out.write(value)

    def table(self, value: Table) -> None:
        self._out.write(encode_table(value))

    def getvalue(self) -> bytes:
        return self._out.getvalue()
