"""Starts Spark on this machine and has it run a Python function, in a process of its own: nothing else tells whether it
would. `python -m warren.spark.trial` prints what came of it; `try_spark` is what `warren doctor` asks."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

# Some seconds as a rule; on a busy machine with a cold disk it may be a minute.
_PATIENCE: Final = 180.0
_ROWS: Final = 3
# How Java and Spark say what went wrong, the most telling first.
_REASONS: Final = (
    re.compile(r"^Caused by: (.+)"),
    re.compile(r"^: (\S+(?:Exception|Error).*)"),
    re.compile(r"^Exception in thread \S+ (.+)"),
    re.compile(r"^(Error.+)"),
    re.compile(r"^(?:\S+\.)?WarrenError: (.+)"),
)


def try_spark() -> tuple[bool, str]:
    """Whether it runs, and how quickly or why not."""
    command = [sys.executable, "-m", "warren.spark.trial"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return False, f"did not start within {_PATIENCE:g} s"
    if run.returncode == 0:
        return True, run.stdout.strip().splitlines()[-1]
    return False, reason_in(run.stderr) or f"ended with exit code {run.returncode}"


def reason_in(errors: str) -> str:
    """The one line of pages that a user can act on; empty when nothing was said."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    for pattern in _REASONS:
        for line in reversed(lines):
            found = pattern.match(line)
            if found is not None:
                return found[1]
    return lines[-1] if lines else ""


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main() -> None:
    from warren.spark.spark_session import session

    begun = time.monotonic()
    spark = session("warren doctor", "local[1]", **{"spark.ui.enabled": False})
    started = time.monotonic()
    count = spark.range(_ROWS).mapInArrow(_same, "id long").count()
    done = time.monotonic()
    spark.stop()
    if count != _ROWS:
        sys.exit(f"{_ROWS} rows went into a Python function on Spark, and {count} came out")
    print(f"starts in {started - begun:.1f} s, and runs Python in {done - started:.1f} s")  # noqa: T201


if __name__ == "__main__":
    main()
