"""Spark's errors in one line: they go on for pages, and what a user can act on is at their beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from warren.errors import WarrenError

_MAX: Final = 500
_RAISED: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception): ")


def one_line(error: BaseException) -> str:
    """Where one of our own errors is behind it, that is what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if "WarrenError" in line]
    # An error in a function of ours, such as one that writes a batch, comes as Python's traceback of it.
    raised = [line for line in lines if _RAISED.match(line)] if any("Traceback" in line for line in lines) else []
    if ours:
        text = ours[-1].partition("WarrenError:")[2].strip()
    else:
        text = raised[-1].partition(": ")[2] if raised else " ".join(lines[:2])
    return (text.partition(" SQLSTATE:")[0] or type(error).__name__)[:_MAX]


@contextmanager
def told_in_one_line(what: str) -> Iterator[None]:
    """For what a user wrote in SQL, or named and Spark did not find."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise WarrenError(f"{what}: {one_line(error)}") from error
