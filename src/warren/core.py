"""Which build of the core runs here: compiled by mypyc, or the same source interpreted, and then why."""

from __future__ import annotations

import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

# Looked up, not imported: this module stands below the compiled folders.
_PLACE: Final = find_spec("warren.amqp.constants")
IS_COMPILED: Final = _PLACE is not None and not str(_PLACE.origin).endswith(".py")


@cache
def describe_core() -> str:
    """As people are told it: `warren --version`, `status`, the start of a broker, /api/overview."""
    return "compiled" if IS_COMPILED else f"interpreted, about 5x slower: {_why_interpreted()}"


def _why_interpreted() -> str:
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        return "no C compiler"
    # A checkout: src/ and beside it what compiles it.
    if Path(__file__).parents[2].joinpath("setup.py").exists():
        return "run from its source"
    return "installed without compiling"
