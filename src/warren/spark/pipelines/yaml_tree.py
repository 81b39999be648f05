"""YAML into a tree that remembers its lines: PyYAML's own loader forgets them, and lets a key be given twice."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

import yaml

from warren.spark.pipelines.document import FileNode, Mistakes

# An alias may point to what holds it; nobody writes a pipeline that deep.
DEPTH_MAX: Final = 20
# Aliases of aliases make a small file large.
NODES_MAX: Final = 50_000
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def parse(text: str, mistakes: Mistakes, environment: Mapping[str, str] = os.environ) -> FileNode | None:
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

    def read(self, node: yaml.Node, depth: int) -> FileNode:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > NODES_MAX:
            raise _TooMuch
        if depth > DEPTH_MAX:
            self._mistakes.add(line, f"nested deeper than {DEPTH_MAX} levels")
            return FileNode(None, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, line, depth)
        if isinstance(node, yaml.SequenceNode):
            return FileNode([self.read(each, depth + 1) for each in node.value], line)
        return FileNode(self._scalar(node, line), line)

    def _mapping(self, node: yaml.MappingNode, line: int, depth: int) -> FileNode:
        values: dict[str, FileNode] = {}
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
        return FileNode(values, line, lines)

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
