"""How far the publishers of a queue have come that number what they publish: what is at or below that is there already.

A name and one number stand for all that a publisher has sent, where deduplication.py needs an id for each message. The
number is kept with the message (Backing.remember), so after a crash both are there or neither is.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

# Of one queue. Those that have been silent longest are forgotten first.
PUBLISHERS_MAX: Final[i64] = 10_000
# What the keys of the store begin with that are names of publishers.
_MARK: Final = b"p"


class Publishers:
    def __init__(self, most: i64 = PUBLISHERS_MAX) -> None:
        self._most: i64 = most
        # Those that were silent longest come first.
        self._last: dict[bytes, int] = {}

    @staticmethod
    def of(recalled: dict[bytes, int]) -> Publishers | None:
        """As the store has kept them; they are taken out of what it has."""
        keys = [key for key in recalled if key.startswith(_MARK)]
        if not keys:
            return None
        publishers = Publishers()
        for key in keys:
            publishers.note(key, recalled.pop(key))
        return publishers

    def has_passed(self, key: bytes, number: i64) -> bool:
        return number <= self._last.get(key, -1)

    def note(self, key: bytes, number: i64) -> None:
        self._last.pop(key, None)
        self._last[key] = number
        if len(self._last) > self._most:
            del self._last[next(iter(self._last))]

    def notes(self) -> list[tuple[bytes, int]]:
        return list(self._last.items())


def key_of(name: str) -> bytes:
    return _MARK + name.encode("utf-8", "surrogateescape")
