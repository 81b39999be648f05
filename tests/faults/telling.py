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


def exit_where_skipped(reason: str | None, file: Path | None) -> None:
    """Nothing failed where nothing can be tried: whoever looks for failures goes by the exit code."""
    if reason is not None:
        tell({"skipped": reason}, file)
        sys.exit(0)


def tell_and_exit(report: Report, file: Path | None) -> None:
    """With the complaints, if there are any."""
    tell(report.summary(), file)
    if not report.is_good():
        sys.exit(report.complaints())
