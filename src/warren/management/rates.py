"""How fast counters grow, seen from the questions asked: every answer is compared with one some seconds older."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

INTERVAL_MS: Final = 5_000
FORGET_MS: Final = 600_000
SAMPLES_MAX: Final = FORGET_MS // INTERVAL_MS
_SWEEP_MS: Final = 60_000

Key = tuple[str, ...]


@dataclass
class History:
    """Samples that an answer should show: so far back, so far apart."""

    age: int
    step: int


class Rates:
    def __init__(self) -> None:
        # Per counter: the older sample to compare with, and a newer one that takes its place.
        self._samples: dict[Key, tuple[int, int, int, int]] = {}
        # When, and how much it was, oldest first; only of those that somebody asks the history of.
        self._histories: dict[Key, deque[tuple[int, int]]] = {}
        self._swept_at = 0

    def rate(self, key: Key, value: int, now: int) -> float:
        """Per second, since the last sample that is old enough."""
        old_at, old, new_at, new = self._samples.get(key, (now, value, now, value))
        if now - new_at >= INTERVAL_MS:
            old_at, old, new_at, new = new_at, new, now, value
        self._samples[key] = (old_at, old, new_at, new)
        self._sweep(now)
        return round((value - old) * 1000 / (now - old_at), 1) if now > old_at else 0.0

    def details(self, key: Key, counters: dict[str, int], now: int, history: History | None = None) -> dict[str, Any]:
        """Every counter, and beside it `<name>_details` with its rate."""
        shown: dict[str, Any] = {}
        for name, value in counters.items():
            shown[name] = value
            details: dict[str, Any] = {"rate": self.rate((*key, name), value, now)}
            if history is not None:
                details |= _sampled(self._history((*key, name), value, now), history, now)
            shown[f"{name}_details"] = details
        return shown

    def _history(self, key: Key, value: int, now: int) -> list[tuple[int, int]]:
        """What was sampled, and what is now."""
        kept = self._histories.setdefault(key, deque(maxlen=SAMPLES_MAX))
        if not kept or now - kept[-1][0] >= INTERVAL_MS:
            kept.append((now, value))
        return [*kept, (now, value)]

    def forget(self) -> None:
        self._samples.clear()
        self._histories.clear()

    def _sweep(self, now: int) -> None:
        # Objects go and are never asked for again: what is known of them must go too.
        # By time, not by questions: one list of ten thousand queues asks about a hundred thousand counters.
        if now - self._swept_at >= _SWEEP_MS:
            self._swept_at = now
            self._samples = {key: sample for key, sample in self._samples.items() if now - sample[2] < FORGET_MS}
            self._histories = {key: kept for key, kept in self._histories.items() if now - kept[-1][0] < FORGET_MS}


def _sampled(samples: list[tuple[int, int]], history: History, now: int) -> dict[str, Any]:
    """Newest first, at whole steps; what was not asked about then is what was last known before."""
    newest = now - now % history.step
    times = range(newest, newest - history.age - 1, -history.step)
    known = sorted(samples, reverse=True)
    shown = []
    for time in times:
        value = next((value for at, value in known if at <= time), 0)
        shown.append({"sample": value, "timestamp": time})
    values = [each["sample"] for each in shown]
    growth = (values[0] - values[-1]) * 1000 / max(history.age, 1)
    return {"samples": shown, "avg": sum(values) / len(values), "avg_rate": growth}
