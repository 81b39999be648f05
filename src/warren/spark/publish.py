"""Publishes in bulk and waits for the broker's word on every message: confirmed, refused or returned."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Final

from warren.amqp.constants import BASIC_ACK, BASIC_NACK, BASIC_RETURN, FRAME_METHOD, FRAME_OVERHEAD, HEARTBEAT_FRAME
from warren.amqp.deliveries import without_heartbeats
from warren.amqp.methods import BasicReturn, ConfirmSelect, ConfirmSelectOk
from warren.client.connection import Client, ConnectionLost, first_method, refusal
from warren.client.duplex import Duplex
from warren.errors import WarrenError

# Handed to the kernel at a time.
SEND_BYTES: Final = 1 << 17
_FRAME: Final = struct.Struct(">BHI")
# Type, channel, size, method, tag, bits.
_CONFIRM: Final = struct.Struct(">BHIIQB")

# Method and content (header and body frames) of what nobody took.
Returned = Callable[[BasicReturn, bytes], None]


class Confirms:
    """Which numbers the broker has not answered yet. It may answer out of order."""

    def __init__(self) -> None:
        self.published = 0
        self._low = 0
        self._early: set[int] = set()

    @property
    def outstanding(self) -> int:
        return self.published - self._low - len(self._early)

    def answer(self, tag: int, multiple: bool) -> None:
        if multiple:
            if tag > self._low:
                self._early = {early for early in self._early if early > tag}
                self._low = tag
        elif tag > self._low:
            self._early.add(tag)
        while self._low + 1 in self._early:
            self._low += 1
            self._early.remove(self._low)


class ConfirmedPublisher:
    def __init__(self, client: Client, max_in_flight: int, on_return: Returned) -> None:
        client.call(ConfirmSelect(), ConfirmSelectOk)
        self.confirms = Confirms()
        self._client = client
        self._duplex = Duplex(client)
        self._max_in_flight = max_in_flight
        self._on_return = on_return
        self._unread = b""
        self._frames: list[bytes] = []
        self._size = 0
        self._unsent = 0

    @property
    def most_at_once(self) -> int:
        """How many messages `publish` may be given: others are on the way while these are made."""
        return max(1, self._max_in_flight // 2)

    def publish(self, frames: bytes, messages: int = 1) -> None:
        """All frames of so many messages. Waits while too many are unanswered."""
        if self.confirms.outstanding + self._unsent + messages > self._max_in_flight:
            self._send()
            # Half, so that the next ones go out in bulk again.
            self._await(min(self._max_in_flight // 2, self._max_in_flight - messages))
        self._frames.append(frames)
        self._size += len(frames)
        self._unsent += messages
        if self._size >= SEND_BYTES:
            self._send()

    def finish(self) -> None:
        """Returns when the broker has confirmed everything."""
        self._send()
        self._await(0)
        self._duplex.restore()

    def _send(self) -> None:
        frames, self._frames, self._size = self._frames, [], 0
        self.confirms.published += self._unsent
        self._unsent = 0
        self._feed(self._duplex.write(b"".join(frames)))

    def _await(self, most: int) -> None:
        """Until no more than so many are unanswered."""
        silent_since = time.monotonic()
        while self.confirms.outstanding > most:
            data = self._duplex.read(1.0)
            if data:
                silent_since = time.monotonic()
                self._feed(data)
            elif time.monotonic() - silent_since > self._client.timeout:
                raise ConnectionLost(
                    f"the broker at {self._client.target.place} has not confirmed "
                    f"{self.confirms.outstanding} messages for {self._client.timeout:g} s"
                )

    def _feed(self, data: bytes) -> None:
        data = self._unread + data if self._unread else data
        if HEARTBEAT_FRAME in data:
            # They may come between any two frames, also within a return.
            data = without_heartbeats(data, 0)
        at = 0
        while len(data) - at >= FRAME_OVERHEAD:
            after = self._take(data, at)
            if not after:
                break
            at = after
        self._unread = data[at:]

    def _take(self, data: bytes, at: int) -> int:
        """Where the frame, or the frames of a return, at `at` end; 0 as long as they are not all there."""
        kind, _, size = _FRAME.unpack_from(data, at)
        after: int = at + int(size) + FRAME_OVERHEAD
        if after > len(data):
            return 0
        method_id = int.from_bytes(data[at + 7 : at + 11], "big") if kind == FRAME_METHOD else 0
        if method_id == BASIC_ACK:
            _, _, _, _, tag, bits = _CONFIRM.unpack_from(data, at)
            self.confirms.answer(tag, bits & 1 != 0)
            return after
        if method_id == BASIC_RETURN:
            return self._take_return(data, at, after)
        if method_id == BASIC_NACK:
            raise WarrenError("the broker refused a message (basic.nack): a queue is full or has failed")
        method = first_method(data[at:after])
        raise WarrenError("the broker sent an unexpected frame") if method is None else refusal(method)

    def _take_return(self, data: bytes, at: int, header_at: int) -> int:
        if len(data) - header_at < FRAME_OVERHEAD + 12:
            return 0
        missing = int.from_bytes(data[header_at + 11 : header_at + 19], "big")
        after = header_at + FRAME_OVERHEAD + int(_FRAME.unpack_from(data, header_at)[2])
        while missing > 0:
            if len(data) - after < FRAME_OVERHEAD:
                return 0
            size = int(_FRAME.unpack_from(data, after)[2])
            missing -= size
            after += size + FRAME_OVERHEAD
        if after > len(data):
            return 0
        method = first_method(data[at:header_at])
        assert isinstance(method, BasicReturn)
        self._on_return(method, data[header_at:after])
        return after
