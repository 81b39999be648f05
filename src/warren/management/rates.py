"""How fast counters grow, seen from the questions asked: every answer is compared with one some seconds older."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

INTERVAL_MS: Final = 5_000
FORGET_MS: Final = 600_000
SAMPLES_MAX: Final = FORGET_MS // INTERVAL_MS

Key = tuple[str, ...]
Sample = tuple[int, tuple[int, ...], int, tuple[int, ...]]


@dataclass
class History:
    """Samples that an answer should show: so far back, so far apart."""

    age: int
    step: int


class Rates:
    def __init__(self) -> None:
        # Counters that are told together: an older sample to compare with, and a newer one that takes its place.
        # What was not asked about for a while is in the second dict, and gone after as long again.
        self._samples: dict[Key, Sample] = {}
        self._older: dict[Key, Sample] = {}
        # When, and how much it was, oldest first; only of those that somebody asks the history of.
        self._histories: dict[Key, deque[tuple[int, int]]] = {}
        self._older_histories: dict[Key, deque[tuple[int, int]]] = {}
        self._swept_at = 0

    def rates(self, key: Key, counters: dict[str, int], now: int) -> dict[str, float]:
        """Per second, since the last sample that is old enough."""
        # The first of their names tells them from others of the same object.
        together = (*key, next(iter(counters)))
        return dict(zip(counters, self._rates(together, tuple(counters.values()), now), strict=True))

    def _rates(self, key: Key, values: tuple[int, ...], now: int) -> list[float]:
        self._sweep(now)
        sample = self._samples.get(key) or self._older.pop(key, None) or (now, values, now, values)
        old_at, old, new_at, new = sample
        if now - new_at >= INTERVAL_MS:
            old_at, old, new_at, new = new_at, new, now, values
        self._samples[key] = (old_at, old, new_at, new)
        if now <= old_at:
            return [0.0] * len(values)
        return [round((value - was) * 1000 / (now - old_at), 1) for value, was in zip(values, old, strict=True)]

    def details(self, key: Key, counters: dict[str, int], now: int, history: History | None = None) -> dict[str, Any]:
        """Every counter, and beside it `<name>_details` with its rate."""
        shown: dict[str, Any] = {}
        rates = self.rates(key, counters, now)
        for name, value in counters.items():
            shown[name] = value
            details: dict[str, Any] = {"rate": rates[name]}
            if history is not None:
                details |= _sampled(self._history((*key, name), value, now), history, now)
            shown[f"{name}_details"] = details
        return shown

    def _history(self, key: Key, value: int, now: int) -> list[tuple[int, int]]:
        """What was sampled, and what is now."""
        kept = self._histories.get(key)
        if kept is None:
            kept = self._older_histories.pop(key, deque(maxlen=SAMPLES_MAX))
            self._histories[key] = kept
        if not kept or now - kept[-1][0] >= INTERVAL_MS:
            kept.append((now, value))
        return [*kept, (now, value)]

    def forget(self) -> None:
        for known in (self._samples, self._older, self._histories, self._older_histories):
            known.clear()

    def _sweep(self, now: int) -> None:
        # Objects go and are never asked for again: what is known of them must go too, without looking at each.
        if now - self._swept_at >= FORGET_MS:
            self._swept_at = now
            self._older, self._samples = self._samples, {}
            self._older_histories, self._histories = self._histories, {}


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
