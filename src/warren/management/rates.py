"""How fast counters grow, seen from the questions asked: every answer is compared with one some seconds older."""

from __future__ import annotations

from typing import Any, Final

INTERVAL_MS: Final = 5_000
FORGET_MS: Final = 600_000
_SWEEP_EVERY: Final = 1_000

Key = tuple[str, ...]


class Rates:
    def __init__(self) -> None:
        # Per counter: the older sample to compare with, and a newer one that takes its place.
        self._samples: dict[Key, tuple[int, int, int, int]] = {}
        self._asked = 0

    def rate(self, key: Key, value: int, now: int) -> float:
        """Per second, since the last sample that is old enough."""
        old_at, old, new_at, new = self._samples.get(key, (now, value, now, value))
        if now - new_at >= INTERVAL_MS:
            old_at, old, new_at, new = new_at, new, now, value
        self._samples[key] = (old_at, old, new_at, new)
        self._sweep(now)
        return round((value - old) * 1000 / (now - old_at), 1) if now > old_at else 0.0

    def details(self, key: Key, counters: dict[str, int], now: int) -> dict[str, Any]:
        """Every counter, and beside it `<name>_details` with its rate."""
        shown: dict[str, Any] = {}
        for name, value in counters.items():
            shown[name] = value
            shown[f"{name}_details"] = {"rate": self.rate((*key, name), value, now)}
        return shown

    def _sweep(self, now: int) -> None:
        # Objects go and are never asked for again: what is known of them must go too.
        self._asked += 1
        if self._asked % _SWEEP_EVERY == 0:
            self._samples = {key: sample for key, sample in self._samples.items() if now - sample[2] < FORGET_MS}
