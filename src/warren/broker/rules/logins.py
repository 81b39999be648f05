"""Logins that were tried, by protocol and by who from where; after too many wrong ones nothing new is tried for them.

Passwords are slow to check on purpose, but not slow enough for somebody who tries for days. What is limited is one
user's name at one address, and less strictly the address: whoever guesses shuts out nobody but themselves. Whoever has
logged in before is recognised without a check, and never kept waiting.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

WINDOW_MS: Final[i64] = 60_000
# Names and addresses are the peers' own choice: what is remembered about them is bounded.
_SOURCES_MAX: Final = 10_000
# So many times as many of all names together as of one, from the same address.
ALL_NAMES: Final = 4


class Attempts:
    def __init__(self) -> None:
        self.succeeded: i64 = 0
        self.failed: i64 = 0


class _Source:
    def __init__(self, since: i64) -> None:
        # The window in which `failed` counts.
        self.since: i64 = since
        self.failed: i64 = 0
        # Being checked: any of them may be wrong.
        self.open: i64 = 0


class Logins:
    def __init__(self, failures_max: int) -> None:
        # In a minute, of one name from one address; 0 = any number.
        self.failures_max: i64 = failures_max
        self.by_protocol: dict[str, Attempts] = {}
        self._sources: dict[tuple[str, str], _Source] = {}

    def begin(self, address: str, user: str, now: i64) -> i64:
        """0 when this one may be tried, and `noted` comes after it; else milliseconds until it may."""
        if self.failures_max == 0:
            return 0
        named, any_name = self._source(address, user, now), self._source(address, "", now)
        wait: i64 = 0
        if named.failed + named.open >= self.failures_max:
            wait = named.since + WINDOW_MS - now
        elif any_name.failed + any_name.open >= self.failures_max * ALL_NAMES:
            wait = any_name.since + WINDOW_MS - now
        if wait > 0:
            return wait
        named.open += 1
        any_name.open += 1
        return 0

    def noted(self, protocol: str, address: str, user: str, is_right: bool, now: i64) -> None:
        """How one went that was begun."""
        self.counted(protocol, is_right)
        if self.failures_max == 0:
            return
        for name in (user, ""):
            source = self._source(address, name, now)
            source.open = max(source.open - 1, 0)
            if not is_right:
                source.failed += 1

    def counted(self, protocol: str, is_right: bool) -> None:
        attempts = self.by_protocol.get(protocol)
        if attempts is None:
            attempts = Attempts()
            self.by_protocol[protocol] = attempts
        if is_right:
            attempts.succeeded += 1
        else:
            attempts.failed += 1

    def _source(self, address: str, user: str, now: i64) -> _Source:
        key = (address, user)
        source = self._sources.get(key)
        if source is None:
            source = _Source(now)
            self._sources[key] = source
            if len(self._sources) > _SOURCES_MAX:
                del self._sources[next(iter(self._sources))]
        elif now - source.since >= WINDOW_MS:
            source.since = now
            source.failed = 0
        return source

    def reset(self) -> None:
        self.by_protocol.clear()
        self._sources.clear()
