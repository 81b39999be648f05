"""Publishes encoded once, many in a row, to be sent again and again with few system calls."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from warren.amqp.constants import FRAME_PREFIX
from warren.amqp.frames import content_frames, properties_span
from warren.amqp.methods import BasicPublish
from warren.amqp.properties import Properties, encode_properties
from warren.client.session import CHANNEL, frame_of

# One system call sends about this much: more gains nothing on a loopback, and the broker reads in such pieces.
SEND_BYTES: Final = 64 * 1024
# Of many keys and large bodies, only as many messages are prepared as fit in here.
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
_STAMP: Final = struct.Struct("<q")


class Batch:
    """Messages of one size, end to end; message n begins at n * stride."""

    def __init__(
        self, exchange: str, keys: list[str], size: int, properties: Sequence[Properties], frame_max: int
    ) -> None:
        contents = [content_frames(CHANNEL, encode_properties(each), b"x" * size, frame_max) for each in properties]
        publishes = [frame_of(BasicPublish(exchange=exchange, routing_key=key)) for key in keys]
        self.stride = len(publishes[0]) + len(contents[0])
        # From the end: everything before depends on the length of names.
        self._body_at = self.stride - len(contents[0]) + properties_span(contents[0])[1] + 1 + FRAME_PREFIX
        pairs = [publish + content for publish in publishes for content in contents]
        messages = b"".join(pairs[: max(1, BATCH_BYTES_MAX // self.stride)])
        self.data = bytearray(messages * max(1, SEND_BYTES // len(messages)))
        self.count = len(self.data) // self.stride
        self.view = memoryview(self.data)
        assert len(self.data) == self.count * self.stride, "all messages of a batch are of one length"

    def stamp(self, first: int, last: int, now: int) -> None:
        """Put the time into the bodies of messages first..last-1 (numbers within the batch)."""
        for number in range(first, last):
            _STAMP.pack_into(self.data, number * self.stride + self._body_at, now)
