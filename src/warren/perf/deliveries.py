"""Counts deliveries without decoding them: all of a run are equally long, so their number follows from the bytes.

The first one is taken apart to learn that length. After that only the last of each read is looked at: its delivery
tag, which the broker counts up by one for each, must be the number of deliveries so far.
"""

from __future__ import annotations

import struct
from typing import Final

from warren.amqp.constants import BASIC_DELIVER, FRAME_END, FRAME_PREFIX
from warren.amqp.frames import properties_span
from warren.client.session import Session, refusal
from warren.errors import WarrenError

BUFFER_BYTES: Final = 1024 * 1024
_LONGLONG: Final = struct.Struct(">Q")
_STAMP: Final = struct.Struct("<q")
# Of a delivery: its first frame's head and the method's id, which are the same in all of a run, and then the consumer's
# tag, a short string, before the delivery's own.
_HEAD_BYTES: Final = FRAME_PREFIX + 4


class DeliveryCounter:
    def __init__(self) -> None:
        self.count = 0
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        # Of one delivery: its length, and where in it the tag and the body lie. Unknown before the first.
        self._stride = 0
        self._head = b""
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

    def rest(self) -> bytes:
        """What has come of deliveries that are not complete."""
        return bytes(self._view[: self._filled])

    def explain(self) -> None:
        """Raise if something else than deliveries has come; to be asked whenever nothing comes any more."""
        session = Session()
        session.feed(self.rest())
        while (received := session.take()) is not None:
            if received.method_id != BASIC_DELIVER:
                raise refusal(received.method)
        if self._stride and self._filled >= 2 * self._stride:
            raise WarrenError("the deliveries of this run are not equally long")

    def _is_delivery(self, at: int, tag: int) -> bool:
        buffer = self._buffer
        found = _LONGLONG.unpack_from(buffer, at + self._tag_at)[0]
        is_whole = buffer[at + self._stride - 1] == FRAME_END
        return is_whole and found == tag and buffer.startswith(self._head, at)

    def _learn(self) -> bool:
        """Take the first delivery apart; False as long as it is not all there."""
        session = Session()
        session.feed(self.rest())
        first = session.take()
        if first is None:
            self._grow()
            return False
        if first.method_id != BASIC_DELIVER:
            raise refusal(first.method)
        self._head = first.frame[:_HEAD_BYTES]
        self._stride = len(first.frame) + len(first.content)
        self._tag_at = _HEAD_BYTES + 1 + first.frame[_HEAD_BYTES]
        # Behind the end of the header frame and the head of the first body frame.
        self._body_at = len(first.frame) + properties_span(first.content)[1] + 1 + FRAME_PREFIX
        return True

    def _grow(self) -> None:
        """A body larger than the buffer: there must always be room for the next read."""
        if self._filled < len(self._buffer):
            return
        self._buffer = self._buffer + bytearray(len(self._buffer))
        self._view = memoryview(self._buffer)
