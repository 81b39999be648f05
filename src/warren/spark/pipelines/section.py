"""One mapping of the file, read key by key: takes what it knows, and says of the rest that it is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from typing import Final, TypeVar

from warren.spark.pipelines.document import FileNode, Mistakes, Value

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNITS: Final = {"ms": 0.001, "millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?")

T = TypeVar("T")


class FileSection:
    def __init__(self, node: FileNode, title: str, mistakes: Mistakes) -> None:
        self._node = node
        self.title = title
        self.line = node.line
        self._mistakes = mistakes
        self._known: list[str] = []
        if isinstance(node.value, dict):
            self._values = node.value
        else:
            self._values = {}
            self.mistake(node.line, "must be a mapping of keys and values")

    def mistake(self, line: int, reason: str) -> None:
        self._mistakes.add(line, f"{self.title}: {reason}" if self.title else reason)

    def has(self, key: str) -> bool:
        self._known.append(key)
        return key in self._values

    def given(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if self.has(key)]

    def line_of(self, key: str) -> int:
        return self._node.key_lines.get(key, self.line)

    def node(self, key: str) -> FileNode | None:
        return self._values[key] if self.has(key) else None

    def text(self, key: str, default: str = "") -> str:
        node = self.node(key)
        if node is None:
            return default
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return str(node.value)
        if not isinstance(node.value, str):
            self.mistake(node.line, f'"{key}" must be a text')
            return default
        if not node.value.strip():
            self.mistake(node.line, f'"{key}" is empty')
            return default
        return node.value.strip()

    def choice(self, key: str, allowed: Collection[str], default: str) -> str:
        node = self.node(key)
        if node is None:
            return default
        if node.value not in allowed:
            shown = node.value if isinstance(node.value, (str, int, float)) else "this"
            self.mistake(node.line, f'"{key}" cannot be {shown}; it is one of {", ".join(sorted(allowed))}')
            return default
        return str(node.value)

    def number(self, key: str, default: int, least: int = 1) -> int:
        def parse(value: Value) -> int | None:
            return value if type(value) is int and value >= least else None

        return self._parsed(key, default, parse, f"a whole number of at least {least}")

    def flag(self, key: str, default: bool) -> bool:
        return self._parsed(key, default, lambda value: value if isinstance(value, bool) else None, "true or false")

    def seconds(self, key: str, default: float) -> float:
        return self._parsed(key, default, parse_duration, 'a time such as "10 seconds", "5 minutes" or "2 hours"')

    def _parsed(self, key: str, default: T, parse: Callable[[Value], T | None], wanted: str) -> T:
        """What `parse` makes of the value; it gives None for what is not wanted."""
        node = self.node(key)
        if node is None:
            return default
        found = parse(node.value)
        if found is None:
            self.mistake(node.line, f'"{key}" must be {wanted}')
            return default
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """One text, or a list of them."""
        node = self.node(key)
        if node is None:
            return ()
        nodes = node.value if isinstance(node.value, list) else [node]
        found: list[str] = []
        for each in nodes:
            if isinstance(each.value, (str, int)) and not isinstance(each.value, bool) and str(each.value).strip():
                found.append(str(each.value).strip())
            else:
                self.mistake(each.line, f'"{key}" must be a text or a list of texts')
        return tuple(found)

    def mapping(self, key: str) -> dict[str, tuple[str, int]]:
        """Texts by name, each with its line."""
        node = self.node(key)
        if node is None:
            return {}
        if not isinstance(node.value, dict):
            self.mistake(node.line, f'"{key}" must be a mapping of names and texts')
            return {}
        found: dict[str, tuple[str, int]] = {}
        for name, each in node.value.items():
            if isinstance(each.value, bool):
                found[name] = ("true" if each.value else "false", each.line)
            elif isinstance(each.value, (str, int, float)) and str(each.value).strip():
                found[name] = (str(each.value).strip(), each.line)
            else:
                self.mistake(each.line, f'"{key}": "{name}" must be a text')
        return found

    def section(self, key: str) -> FileSection | None:
        node = self.node(key)
        if node is None:
            return None
        return FileSection(node, f"{self.title}: {key}" if self.title else key, self._mistakes)

    def named_sections(self, key: str, kind: str) -> list[tuple[str, FileNode, int]]:
        """Name, content and line of everything in the mapping `key`; names must do as names of views in SQL."""
        node = self.node(key)
        if node is None:
            return []
        if not isinstance(node.value, dict):
            self.mistake(node.line, f'"{key}" must be a mapping: a name, a colon, and what it is')
            return []
        found: list[tuple[str, FileNode, int]] = []
        for name, each in node.value.items():
            line = node.key_lines[name]
            if NAME.fullmatch(name) is None:
                self.mistake(
                    line, f'{kind} "{name}": a name is made of letters, digits and _, and begins with no digit'
                )
                continue
            found.append((name, each, line))
        return found

    def finish(self) -> None:
        """To be called when all keys were asked for."""
        for key in self._values:
            if key not in self._known:
                self.mistake(self.line_of(key), f'unknown key "{key}"{did_you_mean(key, self._known)}')


def parse_duration(value: Value) -> float | None:
    found = _DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if found is None or found[2] not in _UNITS:
        return None
    seconds = float(found[1]) * _UNITS[found[2]]
    return seconds if seconds > 0 else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'; did you mean "{close[0]}"?' if close else ""
