"""What all jobs have in common: they say how far they are, and sum up at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Progress:
    done: int
    # None as long as nobody knows.
    total: int | None
    what: str = "messages"


Watcher = Callable[[Progress], None]


@dataclass
class Summary:
    """`as_data` is what --json prints, `text` what people read."""

    job: str
    messages: int
    seconds: float
    text: str
    details: dict[str, Any]

    def as_data(self) -> dict[str, Any]:
        data = asdict(self)
        details = data.pop("details")
        data["messages_per_second"] = round(self.messages / self.seconds, 1) if self.seconds else 0.0
        return {**data, **details}


def ignore(progress: Progress) -> None:
    """For callers who do not watch."""
