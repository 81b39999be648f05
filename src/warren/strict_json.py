"""JSON of people's files and of clients: what the standard does not have is refused, though Python would read it.

If it were kept, no answer that shows it could be written. A byte order mark, as Windows puts it first, is passed over.
"""

from __future__ import annotations

import json
import re
from math import isinf
from pathlib import Path
from typing import Any, Final

from warren.errors import WarrenError

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def loads(data: bytes) -> Any:
    """Raises ValueError, or RecursionError."""
    value = json.loads(data, parse_constant=_no_number, parse_float=_finite)
    if has_surrogates(data):
        # Mostly half of a pair that is whole; this finds out.
        check_text(value)
    return value


def has_surrogates(data: bytes) -> bool:
    # The first looks at ten bytes in the time in which the second looks at one.
    return b"\\u" in data and _SURROGATE.search(data) is not None


def decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def check_text(value: object) -> None:
    """Raises ValueError where half of a surrogate pair is in it."""
    json.dumps(value, ensure_ascii=False).encode()


def parse(data: bytes, name: str) -> Any:
    """What people are told when it is none names it so."""
    try:
        return loads(data)
    except (ValueError, RecursionError) as error:
        raise WarrenError(f"{name} is not JSON: {error}") from None


def read_json(path: str | Path) -> Any:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise WarrenError(f"cannot read {path}: {error.strerror}") from None
    return parse(data, str(path))


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        _no_number(text)
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
