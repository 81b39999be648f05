"""A file as a tree whose values know their lines, and the list of mistakes found in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Union

from warren.errors import WarrenError

SIZE_MAX: Final = 1_000_000

Value = Union[str, int, float, bool, None, "list[FileNode]", "dict[str, FileNode]"]


@dataclass
class FileNode:
    value: Value
    line: int
    # The lines of a mapping's keys: a mistake in a key stands there, not where its value begins.
    key_lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, order=True)
class Mistake:
    line: int
    reason: str


class Mistakes:
    """All that is wrong with one file. Reading goes on after the first."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: set[Mistake] = set()

    def add(self, line: int, reason: str) -> None:
        self._found.add(Mistake(line, reason))

    def __bool__(self) -> bool:
        return bool(self._found)

    def lines(self) -> list[str]:
        return [f"{self._where(each.line)}: {each.reason}" for each in sorted(self._found)]

    def _where(self, line: int) -> str:
        # A pipeline made in Python has no lines.
        return f"{self.file}:{line}" if line else self.file


def read_text(path: Path) -> str:
    try:
        if path.stat().st_size > SIZE_MAX:
            raise WarrenError(f"{path} is larger than {SIZE_MAX} bytes: is it a pipeline?")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise WarrenError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WarrenError(f"{path} is not text in UTF-8") from error
