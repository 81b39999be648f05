"""Counts deliveries without decoding them: all of a run are equally long, so their number follows from the bytes.

The first one is taken apart to learn that length. After that only the last of each read is looked at: its delivery
tag, which the broker counts up by one for each, must be the number of deliveries so far.
"""

from __future__ import annotations

import struct
from typing import Final

from warren.amqp.constants import BASIC_DELIVER, FRAME_END, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD
from warren.client.connection import first_method, refusal
from warren.errors import WarrenError

BUFFER_BYTES: Final = 1024 * 1024
_HEAD: Final = struct.Struct(">BHII")
_FRAME: Final = struct.Struct(">BHI")
_LONGLONG: Final = struct.Struct(">Q")
_STAMP: Final = struct.Struct("<q")
# Class and weight come before the body's size.
_BODY_SIZE_AT: Final = _FRAME.size + 4


class DeliveryCounter:
    def __init__(self) -> None:
        self.count = 0
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        # Of one delivery: its length, and where in it the tag and the body lie. Unknown before the first.
        self._stride = 0
        self._tag_at = 0
        self._body_at = 0

    def room(self) -> memoryview:
        """Where the next read goes."""
        return self._view[self._filled :]

    def received(self, size: int) -> int:
        """Take in what was read into the room, and return how many deliveries that completed."""
        self._filled += size
        if not self._stride and not self._learn():
            return 0
        whole = self._filled // self._stride
        if not whole:
            return 0
        last = (whole - 1) * self._stride
        if not self._is_delivery(last, self.count + whole):
            self.explain()
            return 0
        self.count += whole
        return whole

    def sent_times(self, whole: int) -> list[int]:
        """When each of the deliveries that `received` has just completed was published."""
        places = range(self._body_at, whole * self._stride, self._stride)
        return [_STAMP.unpack_from(self._buffer, place)[0] for place in places]

    def drop(self, whole: int) -> None:
        """These deliveries are done with; what is left of the read moves to the front."""
        done = whole * self._stride
        left = self._filled - done
        if left:
            self._buffer[:left] = self._buffer[done : self._filled]
        self._filled = left

    def explain(self) -> None:
        """Raise if something else than deliveries has come; to be asked whenever nothing comes any more."""
        at = 0
        while self._filled - at >= _HEAD.size:
            kind, _, size, method_id = _HEAD.unpack_from(self._buffer, at)
            if kind == FRAME_METHOD and method_id != BASIC_DELIVER:
                method = first_method(self._view[at : self._filled])
                if method is not None:
                    raise refusal(method)
                return
            at += size + FRAME_OVERHEAD
        if self._stride and self._filled >= 2 * self._stride:
            raise WarrenError("the deliveries of this run are not equally long")

    def _is_delivery(self, at: int, tag: int) -> bool:
        kind, _, _, method_id = _HEAD.unpack_from(self._buffer, at)
        found = _LONGLONG.unpack_from(self._buffer, at + self._tag_at)[0]
        end = self._buffer[at + self._stride - 1]
        return (kind, method_id, found, end) == (FRAME_METHOD, BASIC_DELIVER, tag, FRAME_END)

    def _learn(self) -> bool:
        """Take the first delivery apart; False as long as it is not all there."""
        self.explain()
        header_at = self._frame_end(0)
        body_at = self._frame_end(header_at) if header_at else 0
        if not body_at:
            return False
        if self._buffer[header_at] != FRAME_HEADER:
            raise WarrenError("the broker sent a delivery without a content header")
        missing = _LONGLONG.unpack_from(self._buffer, header_at + _BODY_SIZE_AT)[0]
        at = body_at
        while missing:
            end = self._frame_end(at)
            if not end:
                self._grow()
                return False
            missing -= end - at - FRAME_OVERHEAD
            at = end
        self._stride = at
        self._body_at = body_at + _FRAME.size
        # A short string, the consumer tag, stands between the method's id and the delivery tag.
        self._tag_at = _HEAD.size + 1 + self._buffer[_HEAD.size]
        return True

    def _frame_end(self, at: int) -> int:
        """Where the frame at `at` ends; 0 as long as it is not all there."""
        if self._filled - at < _FRAME.size:
            return 0
        _, _, size = _FRAME.unpack_from(self._buffer, at)
        end = at + int(size) + FRAME_OVERHEAD
        return end if end <= self._filled else 0

    def _grow(self) -> None:
        """A body larger than the buffer: there must always be room for the next read."""
        if self._filled < len(self._buffer):
            return
        self._buffer = self._buffer + bytearray(len(self._buffer))
        self._view = memoryview(self._buffer)
