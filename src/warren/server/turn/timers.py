"""Timers of the loop, few of them: each one that is set and taken down again costs more than what it is for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from warren.broker.node import Node
from warren.server.turn.clock import Clock

T = TypeVar("T")

# Seconds that may pass between two looks at a line.
_ROUGHLY: Final = 0.005


class DeadlineTimer:
    """Stands for all timers of the core."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, clock: Clock, tick: Callable[[], None]) -> None:
        self._loop = loop
        self._node = node
        self._clock = clock
        self._tick = tick
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for = -1

    def arm(self) -> None:
        """See to it that the loop wakes in time for the core's next deadline."""
        deadline = self._node.next_deadline()
        if deadline < 0:
            return
        # A timer that fires too early costs one look; taking it down at every change of mind costs more.
        if self._handle is not None and self._armed_for <= deadline:
            return
        self.cancel()
        self._armed_for = deadline
        delay = max(deadline - self._clock.now(), 0) / 1000
        self._handle = self._loop.call_later(delay, self._fire)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._tick()
        self.arm()


class Line(Generic[T]):
    """All wait equally long, so one timer is enough: for whoever is in front. Nobody leaves before their time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[T], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._call = call
        self._waiting: deque[tuple[float, T]] = deque()

    def join(self, member: T) -> None:
        self._waiting.append((self._loop.time() + self._seconds, member))
        if len(self._waiting) == 1:
            self._loop.call_at(self._waiting[0][0], self._fire)

    def _fire(self) -> None:
        now, due = self._loop.time(), []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(self._waiting.popleft()[1])
        if self._waiting:
            # Those who came one by one are let go a few at a time.
            self._loop.call_at(max(self._waiting[0][0], now + _ROUGHLY), self._fire)
        for member in due:
            self._call(member)
