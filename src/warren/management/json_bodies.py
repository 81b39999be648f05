"""The JSON that clients send: a long one is read in pieces."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from warren.management.listing import Item
from warren.management.pieces import BYTES_PER_UNIT, Pace
from warren.strict_json import check_text, decoder, has_surrogates, loads

AT_ONCE: Final = 65536
# What is read at once of it. Whatever is longer is gone into.
WINDOW: Final = 16384
# How deep: each time it costs a window more.
_DEPTH: Final = 32
# For a unit.
_CHARACTERS: Final = 100
# Of a string, and no half of an escape or of a surrogate pair. Not possessive: the first releases of Python 3.11,
# Debian's among them, cut that elsewhere.
_WHOLE_SIGNS: Final = re.compile(
    r'(?:[^"\\\x00-\x1f]+|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*'
)
_SIGN_MAX: Final = 12
_BLANK: Final = re.compile(r"[ \t\n\r]*")


async def json_in(data: bytes, pace: Pace) -> Any:
    """Raises ValueError, or RecursionError, as strict_json does; also for a long one that is no object."""
    return loads(data) if len(data) <= AT_ONCE else await _in_pieces(data, pace)


async def _in_pieces(data: bytes, pace: Pace) -> Any:
    """The same for a long one. To read 10 MB at once would take 100 ms."""
    text = data.decode(json.detect_encoding(data), "surrogatepass")
    reading = _Reading(text, has_surrogates(data), pace)
    await pace.spend(len(data) // BYTES_PER_UNIT)
    at = _blank(text, 0)
    if not text.startswith("{", at):
        raise ValueError("expected an object")
    value, at = await reading.container(at, 1)
    if _blank(text, at) != len(text):
        raise ValueError("something follows the object")
    return value


class _Reading:
    def __init__(self, text: str, may_be_lone: bool, pace: Pace) -> None:
        self._text = text
        self._may_be_lone = may_be_lone
        self._pace = pace
        self._read = decoder().raw_decode

    async def value(self, at: int, depth: int) -> tuple[Any, int]:
        """The one that begins here, and where it ends."""
        text = self._text
        if text.startswith('"', at):
            return await self._string(at)
        if len(text) - at > WINDOW and text.startswith(("[", "{"), at):
            try:
                value, size = self._read(text[at : at + WINDOW])
            except ValueError:
                # It is longer, or wrong, which is found out on the way.
                await self._pace.spend(WINDOW // _CHARACTERS)
                return await self.container(at, depth + 1)
            end = at + size
        else:
            value, end = self._read(text, at)
        if self._may_be_lone:
            check_text(value)
        await self._pace.spend(2 + (end - at) // _CHARACTERS)
        return value, end

    async def container(self, at: int, depth: int) -> tuple[Any, int]:
        """A list or an object, entry by entry."""
        if depth > _DEPTH:
            raise ValueError("nested too deeply for its length")
        text = self._text
        is_list = text.startswith("[", at)
        entries: list[Any] = []
        fields: Item = {}
        end = "]" if is_list else "}"
        at = _blank(text, at + 1)
        is_first = True
        while not text.startswith(end, at):
            if not is_first:
                at = _expected(text, at, ",")
            is_first = False
            if is_list:
                entry, at = await self.value(at, depth)
                entries.append(entry)
            else:
                if not text.startswith('"', at):
                    raise ValueError("expected a name")
                name, at = await self._string(at)
                at = _expected(text, at, ":")
                fields[name], at = await self.value(at, depth)
            at = _blank(text, at)
        return entries if is_list else fields, at + 1

    async def _string(self, at: int) -> tuple[str, int]:
        """Where much is escaped, 10 MB would take 50 ms."""
        text = self._text
        parts: list[str] = []
        at += 1
        while True:
            found = _WHOLE_SIGNS.match(text, at, at + max(WINDOW, _SIGN_MAX))
            end = at if found is None else found.end()
            if end == at:
                break
            part: str = self._read(f'"{text[at:end]}"')[0]
            if self._may_be_lone:
                check_text(part)
            parts.append(part)
            await self._pace.spend(1 + (end - at) // _CHARACTERS)
            at = end
        if not text.startswith('"', at):
            raise ValueError(f"no end of a text at {at}")
        return "".join(parts), at + 1


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
