"""Keeps account of a publisher's confirms: how many have come, and how long each message waited for its own."""

from __future__ import annotations

from collections import deque

from warren.amqp.constants import BASIC_NACK
from warren.client.session import Received, Session, refusal
from warren.errors import WarrenError
from warren.perf.histogram import Histogram


class ConfirmTimes:
    def __init__(self, session: Session) -> None:
        self.count = 0
        self.waits = Histogram()
        self._session = session
        # Of what is being read.
        self._now = 0
        # All up to here are confirmed, and these beyond it: brokers may confirm out of order.
        self._low = 0
        self._early: set[int] = set()
        # Number of the last message of each send, and when that was.
        self._sends: deque[tuple[int, int]] = deque()

    def sent(self, last: int, now: int) -> None:
        """Messages up to number `last` are on their way."""
        self._sends.append((last, now))

    def feed(self, data: bytes, now: int) -> None:
        self._now = now
        self._session.feed(data)
        received = self._session.take_confirms(self._settle)
        if received is not None:
            raise complaint(received)

    def _settle(self, tag: int, multiple: bool) -> None:
        if multiple or tag == self._low + 1:
            self._settle_up_to(tag, self._now)
            return
        self._early.add(tag)
        self.count += 1
        then = next(then for last, then in self._sends if last >= tag)
        self.waits.add(self._now - then)

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

    def _take_in_early(self) -> None:
        while self._low + 1 in self._early:
            self._low += 1
            self._early.discard(self._low)
            if self._sends and self._sends[0][0] == self._low:
                self._sends.popleft()


def complaint(received: Received) -> WarrenError:
    """What to tell when something else than acks has come."""
    if received.method_id == BASIC_NACK:
        return WarrenError("the broker refused a message (basic.nack)")
    return refusal(received.method)
