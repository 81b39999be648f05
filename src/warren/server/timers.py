"""The one timer of the loop that stands for all timers of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warren.broker.node import Node
from warren.server.clock import Clock


class DeadlineTimer:
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
