"""What a user may give as a path, as a text in JSON, or as objects of Python."""

from __future__ import annotations

import json
from pathlib import Path

from warren.errors import WarrenError


def read_json(given: object) -> object:
    """Raises ValueError for a text, or a file, that is no JSON."""
    if isinstance(given, Path) or (isinstance(given, str) and given.lstrip()[:1] not in ("{", "[")):
        given = _read(Path(given))
    return json.loads(given) if isinstance(given, str) else given


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise WarrenError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WarrenError(f"cannot read {path}: not a text file") from None
