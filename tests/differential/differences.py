"""Every difference between Warren and RabbitMQ 3.10.8 that was looked at and is meant, with its reason.

A Difference is one place in one session: these lines of RabbitMQ's, those of Warren's instead. A Rule is one reason
that shows in many sessions alike. Whatever else differs fails a test, and so does an entry that no longer occurs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Difference:
    session: str
    # "connection 1, channel 1"
    stream: str
    # Consecutive lines of the stream; none on either side means that the other has lines at the end.
    rabbitmq: tuple[str, ...]
    warren: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Rule:
    # What RabbitMQ's lines have, and what stands there in Warren's.
    rabbitmq: re.Pattern[str]
    warren: str
    reason: str

    def applied_to(self, line: str) -> str:
        return self.rabbitmq.sub(self.warren, line)


RULES: Final[tuple[Rule, ...]] = ()

DIFFERENCES: Final[tuple[Difference, ...]] = ()
