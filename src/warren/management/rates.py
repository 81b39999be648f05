"""How fast counters grow, seen from the questions asked: every answer is compared with one some seconds older."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

INTERVAL_MS: Final = 5_000
# No two samples are nearer than this, and none is older.
SAMPLE_MS: Final = 1_000
FORGET_MS: Final = 600_000
SAMPLES_MAX: Final = 600
_SWEEP_EVERY: Final = 1_000

Key = tuple[str, ...]


@dataclass
class History:
    """Samples that an answer should show: so far back, so far apart."""

    age: int
    step: int


class Rates:
    def __init__(self) -> None:
        # Per counter: when, and how much it was, oldest first.
        self._samples: dict[Key, deque[tuple[int, int]]] = {}
        self._asked = 0

    def rate(self, key: Key, value: int, now: int) -> float:
        """Per second, since the last sample that is old enough."""
        samples = self._samples.setdefault(key, deque())
        if not samples or now - samples[-1][0] >= SAMPLE_MS:
            samples.append((now, value))
            while now - samples[0][0] > FORGET_MS:
                samples.popleft()
        self._sweep(now)
        return _growth(samples, now, value)

    def details(self, key: Key, counters: dict[str, int], now: int, history: History | None = None) -> dict[str, Any]:
        """Every counter, and beside it `<name>_details` with its rate."""
        shown: dict[str, Any] = {}
        for name, value in counters.items():
            shown[name] = value
            details: dict[str, Any] = {"rate": self.rate((*key, name), value, now)}
            if history is not None:
                details |= _sampled(self._samples[(*key, name)], history, now)
            shown[f"{name}_details"] = details
        return shown

    def forget(self) -> None:
        self._samples.clear()

    def _sweep(self, now: int) -> None:
        # Objects go and are never asked for again: what is known of them must go too.
        self._asked += 1
        if self._asked % _SWEEP_EVERY == 0:
            self._samples = {key: each for key, each in self._samples.items() if now - each[-1][0] < FORGET_MS}


def _growth(samples: deque[tuple[int, int]], now: int, value: int) -> float:
    old_enough = [sample for sample in samples if now - sample[0] >= INTERVAL_MS]
    at, old = old_enough[-1] if old_enough else samples[0]
    return round((value - old) * 1000 / (now - at), 1) if now > at else 0.0


def _sampled(samples: deque[tuple[int, int]], history: History, now: int) -> dict[str, Any]:
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
