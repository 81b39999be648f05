"""The last word of a campaign: what came of it as a line of JSON, to a file as well where one was asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Report(Protocol):
    def summary(self) -> Mapping[str, object]: ...

    def is_good(self) -> bool: ...

    def complaints(self) -> str: ...


def tell(summary: Mapping[str, object], file: Path | None) -> None:
    line = json.dumps(summary)
    if file is not None:
        file.write_text(line + "\n")
    print(line)  # noqa: T201


def tell_and_exit(report: Report, file: Path | None) -> None:
    """With the complaints, if there are any."""
    tell(report.summary(), file)
    if not report.is_good():
        sys.exit(report.complaints())
