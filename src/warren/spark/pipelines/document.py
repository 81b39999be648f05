"""A YAML file as a tree that remembers its lines, and the list of mistakes found in it.

PyYAML's own loader forgets where things stood, and takes the second of two equal keys without a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Union

import yaml

from warren.errors import WarrenError

# An alias may point to what holds it; nobody writes a pipeline that deep.
DEPTH_MAX: Final = 20
# Aliases of aliases make a small file large.
NODES_MAX: Final = 50_000
SIZE_MAX: Final = 1_000_000
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")

Value = Union[str, int, float, bool, None, "list[Node]", "dict[str, Node]"]


@dataclass
class Node:
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


def parse(text: str, mistakes: Mistakes, environment: Mapping[str, str] = os.environ) -> Node | None:
    """None when it is not YAML at all; the mistake says where."""
    try:
        composed = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        mistakes.add(1 if mark is None else mark.line + 1, f"not YAML: {error.problem or error.context}")
        return None
    except yaml.YAMLError as error:
        mistakes.add(1, f"not YAML: {' '.join(str(error).split())}")
        return None
    if composed is None:
        mistakes.add(1, "the file is empty")
        return None
    try:
        return _Reader(mistakes, environment).read(composed, 0)
    except _TooMuch:
        mistakes.add(1, f"more than {NODES_MAX} values")
        return None


class _TooMuch(Exception):
    pass


class _Reader:
    def __init__(self, mistakes: Mistakes, environment: Mapping[str, str]) -> None:
        self._mistakes = mistakes
        self._environment = environment
        self._count = 0
        self._constructor = yaml.constructor.SafeConstructor()

    def read(self, node: yaml.Node, depth: int) -> Node:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > NODES_MAX:
            raise _TooMuch
        if depth > DEPTH_MAX:
            self._mistakes.add(line, f"nested deeper than {DEPTH_MAX} levels")
            return Node(None, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, line, depth)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.read(each, depth + 1) for each in node.value], line)
        return Node(self._scalar(node, line), line)

    def _mapping(self, node: yaml.MappingNode, line: int, depth: int) -> Node:
        values: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            key_line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._mistakes.add(key_line, "a key must be a word")
                continue
            # Read as text whatever it looks like: `on` and `no` are names here.
            name = str(key.value)
            if name in values:
                self._mistakes.add(key_line, f'the key "{name}" was given before, in line {lines[name]}')
                continue
            values[name] = self.read(value, depth + 1)
            lines[name] = key_line
        return Node(values, line, lines)

    def _scalar(self, node: yaml.Node, line: int) -> str | int | float | bool | None:
        try:
            value = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            self._mistakes.add(line, f"not a value: {' '.join(str(error).split())}")
            return None
        if isinstance(value, str):
            return self._with_variables(value, line)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        # A date or time: only its text is of interest.
        return str(node.value)

    def _with_variables(self, text: str, line: int) -> str:
        def replaced(found: re.Match[str]) -> str:
            name: str = found[1]
            default: str | None = found[2]
            value = self._environment.get(name) or default
            if value is None:
                self._mistakes.add(
                    line, f"the variable {name} is not set; write ${{{name}:-default}} to give a default"
                )
                return ""
            return value

        return _VARIABLE.sub(replaced, text)
