"""Python's search for garbage, held off for a while."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Iterator[None]:
    """For work that makes very many objects and no cycles: looking for some among all that is remembered would cost an
    eighth of the time in queues, and a quarter where keys are new."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
