"""How fast counters grow, seen from the questions asked: every answer is compared with one some seconds older."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

INTERVAL_MS: Final = 5_000
# No two samples are nearer than this, and none is older.
SAMPLE_MS: Final = 1_000
FORGET_MS: Final = 600_000
SAMPLES_MAX: Final = 600
# Ten minutes of a few hundred counters. Where there are more, each is known for less long, down to one interval.
SAMPLES_OF_ALL: Final = 200_000
SAMPLES_MIN: Final = INTERVAL_MS // SAMPLE_MS + 2
SWEEP_MS: Final = 60_000

Key = tuple[str, ...]


@dataclass
class History:
    """Samples that an answer should show: so far back, so far apart."""

    age: int
    step: int


class Rates:
    def __init__(self) -> None:
        # Per counter: when, and how much it was, oldest first.
        self._samples: dict[Key, list[tuple[int, int]]] = {}
        self._swept_at = 0

    def rate(self, key: Key, value: int, now: int) -> float:
        """Per second, since the last sample that is old enough."""
        samples = self._samples.setdefault(key, [])
        if not samples or now - samples[-1][0] >= SAMPLE_MS:
            samples.append((now, value))
            self._trim(samples, now)
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

    def kept(self) -> int:
        return sum(len(samples) for samples in self._samples.values())

    def forget(self) -> None:
        self._samples.clear()

    def _trim(self, samples: list[tuple[int, int]], now: int) -> None:
        most = max(SAMPLES_OF_ALL // len(self._samples), SAMPLES_MIN)
        while len(samples) > most or now - samples[0][0] > FORGET_MS:
            del samples[0]

    def _sweep(self, now: int) -> None:
        # Objects go and are never asked for again: what is known of them must go too.
        if now - self._swept_at >= SWEEP_MS:
            self._swept_at = now
            self._samples = {key: each for key, each in self._samples.items() if now - each[-1][0] < FORGET_MS}


def _growth(samples: list[tuple[int, int]], now: int, value: int) -> float:
    # From the newest on: it is some seconds back, however many there are.
    recent = reversed(samples)
    at, old = next((sample for sample in recent if now - sample[0] >= INTERVAL_MS), samples[0])
    return round((value - old) * 1000 / (now - at), 1) if now > at else 0.0


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
