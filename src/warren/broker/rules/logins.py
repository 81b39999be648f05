"""Logins that were tried, by protocol and by where from; too many wrong ones from one place have to wait.

Passwords are slow to check on purpose, but not slow enough for somebody who tries for days.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

WINDOW_MS: Final[i64] = 60_000
# Addresses are the peers' own choice: what is remembered about them is bounded.
_SOURCES_MAX: Final = 10_000


class Attempts:
    def __init__(self) -> None:
        self.succeeded: i64 = 0
        self.failed: i64 = 0


class _Source:
    def __init__(self, since: i64) -> None:
        # The window in which `failed` counts.
        self.since: i64 = since
        self.failed: i64 = 0


class Logins:
    def __init__(self, failures_max: int) -> None:
        # In a minute from one address; 0 = any number.
        self.failures_max: i64 = failures_max
        self.by_protocol: dict[str, Attempts] = {}
        self._sources: dict[str, _Source] = {}

    def noted(self, protocol: str, address: str, is_right: bool, now: i64) -> None:
        attempts = self.by_protocol.get(protocol)
        if attempts is None:
            attempts = Attempts()
            self.by_protocol[protocol] = attempts
        if is_right:
            attempts.succeeded += 1
            return
        attempts.failed += 1
        source = self._sources.get(address)
        if source is None or now - source.since >= WINDOW_MS:
            self._sources.pop(address, None)
            source = _Source(now)
            self._sources[address] = source
            if len(self._sources) > _SOURCES_MAX:
                del self._sources[next(iter(self._sources))]
        source.failed += 1

    def wait_of(self, address: str, now: i64) -> i64:
        """Milliseconds until logins from this address are looked at again; 0 = now."""
        source = self._sources.get(address)
        if source is None or self.failures_max == 0 or source.failed < self.failures_max:
            return 0
        return max(source.since + WINDOW_MS - now, 0)

    def reset(self) -> None:
        self.by_protocol.clear()
        self._sources.clear()
