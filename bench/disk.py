"""The least that a durable confirm can take: append to a file and wait until the disk has it."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Final

from warren.perf.histogram import Histogram
from warren.perf.measure import Figures

RECORD: Final = b"x" * 1024


def append_and_sync(folder: Path, seconds: float) -> Figures:
    times = Histogram()
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            start = time.monotonic_ns()
            file.write(RECORD)
            os.fdatasync(file.fileno())
            times.add(time.monotonic_ns() - start)
    return times.figures()
