"""What runners of pipelines said of themselves, and when: kept in memory, behind /api/pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from warren.management.listing import Item

_ALIVE: Final = ("starting", "running")
LOST: Final = "lost"
COUNT_MAX: Final = 1000


@dataclass
class PipelineReport:
    vhost: str
    name: str
    user: str
    # In milliseconds of the broker's clock.
    reported_at: int
    lease_seconds: int
    status: Item

    def item(self, now: int) -> Item:
        state = self.status["state"]
        if state in _ALIVE and now > self.reported_at + self.lease_seconds * 1000:
            state = LOST
        return {
            **self.status,
            "name": self.name,
            "vhost": self.vhost,
            "user": self.user,
            "state": state,
            "reported_at": self.reported_at,
            "lease": self.lease_seconds,
        }


@dataclass
class Pipelines:
    reports: dict[tuple[str, str], PipelineReport] = field(default_factory=dict)

    def put(self, report: PipelineReport) -> bool:
        """Whether it is new. Those of which nothing was heard for longest make room."""
        key = (report.vhost, report.name)
        is_new = key not in self.reports
        if is_new and len(self.reports) >= COUNT_MAX:
            del self.reports[min(self.reports, key=lambda each: self.reports[each].reported_at)]
        self.reports[key] = report
        return is_new

    def of_vhosts(self, vhosts: set[str]) -> list[PipelineReport]:
        return [report for (vhost, _), report in sorted(self.reports.items()) if vhost in vhosts]
