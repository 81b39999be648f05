"""What a user may give as a path, as a text in JSON, or as objects of Python."""

from __future__ import annotations

from pathlib import Path

from warren.strict_json import loads, read_json


def read_given(given: object) -> object:
    """Raises ValueError for a text that is no JSON."""
    if isinstance(given, Path) or (isinstance(given, str) and given.lstrip()[:1] not in ("{", "[")):
        return read_json(given)
    return loads(given.encode()) if isinstance(given, str) else given
