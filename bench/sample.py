"""Where a process spends its CPU time: looks at its stack every millisecond, which costs less than it shows."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

INTERVAL = 0.001


class Samples:
    def __init__(self) -> None:
        self.count = 0
        # By function: how often it ran, itself or what it called.
        self._within: Counter[str] = Counter()
        self._itself: Counter[str] = Counter()

    def take(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        names = []
        while frame is not None:
            names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        self._itself.update(names[:1])
        self._within.update(set(names))

    def shares(self, folder_of: set[str]) -> list[dict[str, object]]:
        """Functions of these modules, the most expensive first."""
        return [
            {
                "function": name,
                "share": round(count / self.count, 3),
                "itself": round(self._itself[name] / self.count, 3),
            }
            for name, count in self._within.most_common()
            if name.split(".")[0] in folder_of and count * 50 > self.count
        ]


@contextmanager
def sampled() -> Iterator[Samples]:
    samples = Samples()
    before = signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    try:
        yield samples
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
