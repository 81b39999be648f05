"""Time for the core: the wall clock as it stood at the start, moved on by the monotonic one.

So a message's time is a real date, and a step of the system's clock expires nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns


class Clock:
    def __init__(self) -> None:
        # Every turn asks for it, and compiled code looks up by name what stands in another module.
        self._ask: Callable[[], int] = monotonic_ns
        # Of the monotonic clock, when it was asked last: whoever times a journey needs no second look at it.
        self.asked_ns = monotonic_ns()
        self._offset_ns = time_ns() - self.asked_ns

    def now(self) -> int:
        """Milliseconds since 1970."""
        self.asked_ns = asked_ns = self._ask()
        return (asked_ns + self._offset_ns) // 1_000_000

    def advance(self, milliseconds: int) -> None:
        """Later, all at once: for tests that cannot wait."""
        self._offset_ns += milliseconds * 1_000_000
