"""The JSON that clients send: a long one is read in pieces."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from warren.management.listing import Item
from warren.management.pieces import BYTES_PER_UNIT, Pace
from warren.strict_json import check_text, decoder, has_surrogates, loads

AT_ONCE: Final = 65536
# For a unit.
_CHARACTERS: Final = 100
_BLANK: Final = re.compile(r"[ \t\n\r]*")


async def json_in(data: bytes, pace: Pace) -> Any:
    """Raises ValueError, or RecursionError, as strict_json does."""
    if len(data) <= AT_ONCE or not data.lstrip().startswith(b"{"):
        return loads(data)
    return await _in_pieces(data, pace)


async def _in_pieces(data: bytes, pace: Pace) -> Any:
    """The same for a long object: of its lists, entry by entry. To read 10 MB at once would take 100 ms."""
    text = data.decode(json.detect_encoding(data), "surrogatepass")
    may_be_lone = has_surrogates(data)
    await pace.spend(len(data) // BYTES_PER_UNIT)
    read = decoder().raw_decode
    value: Item = {}
    at = _expected(text, 0, "{")
    if text.startswith("}", at):
        return _ended(text, at + 1, value)
    while True:
        if not text.startswith('"', at):
            raise ValueError("expected a name")
        name, at = read(text, at)
        at = _expected(text, _blank(text, at), ":")
        if text.startswith("[", at):
            entries: list[Any] = []
            at = _blank(text, at + 1)
            while not text.startswith("]", at):
                if entries:
                    at = _expected(text, at, ",")
                start = at
                entry, at = read(text, at)
                if may_be_lone:
                    check_text(entry)
                entries.append(entry)
                await pace.spend(2 + (at - start) // _CHARACTERS)
                at = _blank(text, at)
            value[name], at = entries, at + 1
        else:
            start = at
            value[name], at = read(text, at)
            if may_be_lone:
                check_text(value[name])
            await pace.spend((at - start) // _CHARACTERS)
        at = _blank(text, at)
        if text.startswith("}", at):
            return _ended(text, at + 1, value)
        at = _expected(text, at, ",")


def _blank(text: str, at: int) -> int:
    """Where the next sign is."""
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _expected(text: str, at: int, sign: str) -> int:
    """Behind the sign, and what is blank behind it."""
    at = _blank(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"expected {sign} at {at}")
    return _blank(text, at + 1)


def _ended(text: str, at: int, value: Item) -> Item:
    if _blank(text, at) != len(text):
        raise ValueError("something follows the object")
    return value
