"""Regular expressions that users write into permissions and policies, with the meaning of Erlang's re:run.

A match may start anywhere (write ^ and $ to anchor) and works on bytes: `.` is one byte of the UTF-8 name.
"""

from __future__ import annotations

import re
from typing import Final

from warren.errors import WarrenError

# RabbitMQ's own ceiling for patterns.
PATTERN_BYTES_MAX: Final = 1024


class PatternError(WarrenError):
    """Not a regular expression. `reason` and `position` are worded as PCRE words them."""

    def __init__(self, text: str, reason: str, position: int) -> None:
        super().__init__(f"invalid regular expression '{text}': {reason} at position {position}")
        self.reason = reason
        self.position = position


class Pattern:
    def __init__(self, text: str) -> None:
        data = text.encode(errors="surrogateescape")
        if len(data) > PATTERN_BYTES_MAX:
            raise PatternError(text, f"longer than {PATTERN_BYTES_MAX} bytes", PATTERN_BYTES_MAX)
        self.text = text
        try:
            self._compiled: re.Pattern[bytes] = re.compile(data)
        except re.error as error:
            raise PatternError(text, error.msg, error.pos or 0) from None

    def matches(self, subject: str) -> bool:
        return self._compiled.search(subject.encode(errors="surrogateescape")) is not None
