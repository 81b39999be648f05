"""Keeps account of a publisher's confirms: how many have come, and how long each message waited for its own."""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

from warren.amqp.constants import BASIC_ACK, BASIC_NACK, FRAME_OVERHEAD
from warren.client.connection import first_method, refusal
from warren.errors import WarrenError
from warren.perf.histogram import Histogram

# A whole frame of basic.ack or basic.nack: type, channel, size, method, tag, bits, end.
_CONFIRM: Final = struct.Struct(">BHIIQBB")
_PAYLOAD: Final = _CONFIRM.size - FRAME_OVERHEAD


class Confirms:
    def __init__(self) -> None:
        self.count = 0
        self.waits = Histogram()
        self._unread = b""
        # All up to here are confirmed, and these beyond it: brokers may confirm out of order.
        self._low = 0
        self._early: set[int] = set()
        # Number of the last message of each send, and when that was.
        self._sends: deque[tuple[int, int]] = deque()

    def sent(self, last: int, now: int) -> None:
        """Messages up to number `last` are on their way."""
        self._sends.append((last, now))

    def feed(self, data: bytes, now: int) -> None:
        data = self._unread + data if self._unread else data
        whole = len(data) - len(data) % _CONFIRM.size
        at = 0
        for _, _, size, method, tag, bits, _ in _CONFIRM.iter_unpack(memoryview(data)[:whole]):
            if method != BASIC_ACK or size != _PAYLOAD:
                break
            if bits & 1:
                self._settle_up_to(tag, now)
            else:
                self._settle(tag, now)
            at += _CONFIRM.size
        self._unread = data[at:]
        method_ahead = first_method(self._unread) if self._unread else None
        if method_ahead is not None:
            raise _complaint(method_ahead.id) or refusal(method_ahead)

    def _settle_up_to(self, tag: int, now: int) -> None:
        start = self._low
        while self._sends and self._low < tag:
            last, then = self._sends[0]
            end = min(last, tag)
            known = sum(1 for number in self._early if self._low < number <= end) if self._early else 0
            if end - self._low > known:
                self.waits.add(now - then, end - self._low - known)
                self.count += end - self._low - known
            self._low = end
            if end == last:
                self._sends.popleft()
        if self._early and self._low > start:
            self._early = {number for number in self._early if number > self._low}
        self._take_in_early()

    def _settle(self, tag: int, now: int) -> None:
        if tag == self._low + 1:
            self._settle_up_to(tag, now)
            return
        self._early.add(tag)
        self.count += 1
        then = next(then for last, then in self._sends if last >= tag)
        self.waits.add(now - then)

    def _take_in_early(self) -> None:
        while self._low + 1 in self._early:
            self._low += 1
            self._early.discard(self._low)
            if self._sends and self._sends[0][0] == self._low:
                self._sends.popleft()


def _complaint(method_id: int) -> WarrenError | None:
    return WarrenError("the broker refused a message (basic.nack)") if method_id == BASIC_NACK else None
