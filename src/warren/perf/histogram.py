"""How long things took: a histogram of nanoseconds that is off by at most 1.6 %, however many it holds."""

from __future__ import annotations

from typing import Final

# Each power of two is cut into 64 equal parts.
_BITS: Final = 6
_PARTS: Final = 1 << _BITS
PERCENTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}


class Histogram:
    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.total = 0
        self.largest = 0

    def add(self, nanoseconds: int, times: int = 1) -> None:
        slot = _slot_of(nanoseconds)
        self._counts[slot] = self._counts.get(slot, 0) + times
        self.total += times
        if nanoseconds > self.largest:
            self.largest = nanoseconds

    def merge(self, other: Histogram) -> None:
        for slot, times in other._counts.items():
            self._counts[slot] = self._counts.get(slot, 0) + times
        self.total += other.total
        self.largest = max(self.largest, other.largest)

    def clear(self) -> None:
        self._counts.clear()
        self.total = self.largest = 0

    def percentile(self, share: float) -> int:
        """The nanoseconds that this share of all did not exceed, but for the width of a part."""
        seen = 0
        for slot in sorted(self._counts):
            seen += self._counts[slot]
            if seen > share * self.total:
                return _start_of(slot)
        return self.largest

    def figures(self) -> dict[str, float]:
        """In microseconds; none when nothing was timed."""
        if not self.total:
            return {}
        percentiles = {name: self.percentile(share) / 1000 for name, share in PERCENTILES.items()}
        return {**percentiles, "max_us": self.largest / 1000}


def _slot_of(value: int) -> int:
    if value < _PARTS:
        return max(value, 0)
    shift = value.bit_length() - 1 - _BITS
    return (shift << _BITS) + (value >> shift)


def _start_of(slot: int) -> int:
    if slot < _PARTS:
        return slot
    shift = (slot >> _BITS) - 1
    return (slot - (shift << _BITS)) << shift
