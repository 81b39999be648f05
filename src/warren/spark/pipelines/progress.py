"""How a query is doing, gathered from what Spark reports after each batch."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from warren.spark.pipelines.misfits import MISFITS

# Rates are those of the last seconds: a batch's own rate says nothing about the time between batches.
WINDOW: Final = 10.0


@dataclass
class QueryStatus:
    name: str
    sources: list[str]
    sink: str
    state: str = "waiting"
    rows: int = 0
    misfits: int = 0
    # Behind the watermark, so left out of groups and joins.
    late: int = 0
    lag: int | None = None
    batch: int = -1
    batch_ms: int = 0
    restarts: int = 0
    last_error: str | None = None
    last_batch_at: int | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, progress: dict[str, Any]) -> None:
        """One report of Spark's. The same batch is reported again while nothing comes."""
        # None where Spark cannot know; somebody else may.
        self.lag = self.lag if (lag := lag_of(progress)) is None else lag
        rows = rows_of(progress)
        if progress["batchId"] <= self.batch and not rows:
            return
        self.batch = int(progress["batchId"])
        self.rows += rows
        self.misfits += misfits_of(progress)
        self.late += late_of(progress)
        self.batch_ms = int((progress.get("durationMs") or {}).get("triggerExecution") or 0)
        self.last_batch_at = round(time.time() * 1000)
        self._recent.append((time.monotonic(), rows))

    def rows_per_second(self) -> float:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - WINDOW:
            self._recent.popleft()
        return round(sum(rows for _, rows in self._recent) / WINDOW, 1)

    def as_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sources": self.sources,
            "sink": self.sink,
            "state": self.state,
            "rows": self.rows,
            "rows_per_second": self.rows_per_second(),
            "lag": self.lag,
            "batch": self.batch,
            "batch_ms": self.batch_ms,
            "misfits": self.misfits,
            "late": self.late,
            "restarts": self.restarts,
            "last_error": self.last_error,
            "last_batch_at": self.last_batch_at,
        }


def rows_of(progress: dict[str, Any]) -> int:
    """Spark Connect leaves the sum to its client."""
    parts = (int(source.get("numInputRows") or 0) for source in progress.get("sources") or [])
    return int(progress["numInputRows"] or 0) if "numInputRows" in progress else sum(parts)


def misfits_of(progress: dict[str, Any]) -> int:
    observed = progress.get("observedMetrics") or {}
    return sum(_count_in(row) for name, row in observed.items() if name.startswith(MISFITS))


def _count_in(row: dict[str, Any]) -> int:
    # By name; through Spark Connect a list of values.
    return int((row["values"][0] if "values" in row else row[MISFITS]) or 0)


def late_of(progress: dict[str, Any]) -> int:
    """As Spark counts them: rows of one group that came in one task are put together before, and count as one."""
    return sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in progress.get("stateOperators") or [])


def lag_of(progress: dict[str, Any]) -> int | None:
    """Rows that are there and not read yet. None where a source, such as a folder, cannot say."""
    found = [each for source in progress.get("sources") or [] if (each := _lag_of_source(source)) is not None]
    return sum(found) if found else None


def _lag_of_source(source: dict[str, Any]) -> int | None:
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, latest[name] - end.get(name, 0)) for name in latest)


def _offsets(value: object) -> dict[str, int] | None:
    """Offsets of the format `warren`: numbers by name."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
    if not isinstance(parsed, dict) or not all(type(each) is int for each in parsed.values()):
        return None
    return parsed
