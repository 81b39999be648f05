"""Reads the arguments of one method in order. Every overrun, and every byte left over, is a syntax error."""

from __future__ import annotations

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.amqp.numbers import text_at
from warren.amqp.tables import decode_table
from warren.errors import NO_METHOD, FrameError, SyntaxRefused


class CutOff(SyntaxRefused):
    """The arguments end too early or too late: it is the frame that is wrong, not a value in it."""


class ArgumentReader:
    """A cursor over `data` from start to end. Numbers are unsigned. Bits come as the octet that packs them."""

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        if start < 0 or end < start or end > len(data):
            raise SyntaxRefused("arguments exceed their frame")
        self.data = data
        self.at: i64 = start
        self.end: i64 = end

    def octet(self) -> int:
        return self.data[self._take(1)]

    def short(self) -> int:
        return i64(read_i16_be(self.data, self._take(2))) & 0xFFFF

    def long(self) -> int:
        return i64(read_i32_be(self.data, self._take(4))) & 0xFFFFFFFF

    def longlong(self) -> int:
        value: int = read_i64_be(self.data, self._take(8))
        return value if value >= 0 else value + 0x10000000000000000

    def shortstr(self) -> str:
        """A name: it must be UTF-8, or nobody could show it."""
        size: i64 = i64(self.data[self._take(1)])
        start = self._take(size)
        try:
            return self.data[start : start + size].decode()
        except UnicodeDecodeError:
            raise FrameError("Malformed UTF-8 in shortstr", NO_METHOD) from None

    def any_shortstr(self) -> str:
        """A property: whatever the publisher put there goes to the consumer as it is."""
        size: i64 = i64(self.data[self._take(1)])
        start = self._take(size)
        return text_at(self.data, start, start + size)

    def longstr(self) -> bytes:
        size: i64 = i64(read_i32_be(self.data, self._take(4))) & 0xFFFFFFFF
        start = self._take(size)
        return self.data[start : start + size]

    def table(self) -> Table:
        size: i64 = i64(read_i32_be(self.data, self._take(4))) & 0xFFFFFFFF
        start = self._take(size)
        return decode_table(self.data, start, start + size)

    def finish(self) -> None:
        if self.at != self.end:
            raise CutOff("bytes left over after the last argument")

    def _take(self, size: i64) -> i64:
        """Step over `size` bytes and return where they start."""
        start: i64 = self.at
        if size > self.end - start:
            raise CutOff("arguments end too early")
        self.at = start + size
        return start
