"""Schemas as Spark writes them, `id BIGINT NOT NULL, tags ARRAY<STRING>`, understood without Spark.

Needed before Spark starts, to refuse a wrong one; and in a task, to say which field of a message does not fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

SIMPLE: Final = {
    "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double",
    "string", "binary", "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "variant", "decimal", "dec", "numeric",
}  # fmt: skip
_WITH_NUMBERS: Final = {"decimal", "dec", "numeric", "char", "varchar"}
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|(\w+)|(<>|[<>(),:]))")


class SchemaError(ValueError):
    """Says what is wrong, and nothing about where: a schema is short."""


@dataclass(frozen=True)
class Type:
    name: str
    # Of an array its element, of a map its key and value.
    parts: tuple[Type, ...] = ()
    fields: tuple[SchemaField, ...] = ()


@dataclass(frozen=True)
class SchemaField:
    name: str
    type: Type
    is_required: bool = False


@dataclass
class _Tokens:
    texts: list[str]
    at: int = 0
    # What stood in back quotes is a name even when it looks like a word of the language.
    quoted: set[int] = field(default_factory=set)

    def peek(self) -> str:
        return self.texts[self.at] if self.at < len(self.texts) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def take_if(self, *words: str) -> bool:
        if self.peek().lower() in words and self.at not in self.quoted:
            self.at += 1
            return True
        return False

    def need(self, token: str, where: str) -> None:
        if not self.take_if(token):
            found = f'found "{self.peek()}"' if self.peek() else "it ends"
            raise SchemaError(f'expected "{token}" {where}, but {found}')


def parse_schema(text: str) -> tuple[SchemaField, ...]:
    tokens = _tokens_of(text)
    fields = _fields(tokens, separator="")
    if tokens.peek():
        raise SchemaError(f'expected a comma before "{tokens.peek()}"')
    names = [each.name.lower() for each in fields]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f'the field "{name}" is there twice')
    return fields


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _tokens_of(text: str) -> _Tokens:
    tokens = _Tokens([])
    at = 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise SchemaError(f'cannot read "{text[at : at + 20].strip()}"')
        if found[1] is not None:
            tokens.quoted.add(len(tokens.texts))
            tokens.texts.append(found[1][1:-1].replace("``", "`"))
        elif found[4] == "<>":
            tokens.texts += ["<", ">"]
        else:
            tokens.texts.append(found[2] or found[3] or found[4])
        at = found.end()
    return tokens


def _fields(tokens: _Tokens, separator: str) -> tuple[SchemaField, ...]:
    found = [_field(tokens, separator)]
    while tokens.take_if(","):
        found.append(_field(tokens, separator))
    return tuple(found)


def _field(tokens: _Tokens, separator: str) -> SchemaField:
    name = tokens.take()
    if not name or name in "<>(),:":
        raise SchemaError(f'expected the name of a field, but found "{name}"' if name else "a field's name is missing")
    if separator or tokens.peek() == ":":
        tokens.take_if(":")
    if not tokens.peek() or tokens.peek() == ",":
        raise SchemaError(f'the field "{name}" has no type')
    kind = _type(tokens, name)
    is_required = tokens.take_if("not")
    if is_required:
        tokens.need("null", 'after "NOT"')
    if tokens.take_if("comment"):
        tokens.take()
    return SchemaField(name, kind, is_required)


def _type(tokens: _Tokens, field_name: str) -> Type:
    name = tokens.take().lower()
    if name == "array":
        tokens.need("<", 'after "ARRAY"')
        element = _type(tokens, field_name)
        tokens.need(">", 'after the element of "ARRAY"')
        return Type("array", (element,))
    if name == "map":
        tokens.need("<", 'after "MAP"')
        key = _type(tokens, field_name)
        tokens.need(",", 'between key and value of "MAP"')
        value = _type(tokens, field_name)
        tokens.need(">", 'after the value of "MAP"')
        return Type("map", (key, value))
    if name == "struct":
        tokens.need("<", 'after "STRUCT"')
        fields = _fields(tokens, separator=":")
        tokens.need(">", 'after the fields of "STRUCT"')
        return Type("struct", (), fields)
    if name not in SIMPLE and name not in _WITH_NUMBERS:
        close = get_close_matches(name, [*SIMPLE, "array", "map", "struct"], n=1)
        hint = f"; did you mean {close[0].upper()}?" if close else ""
        raise SchemaError(f'the field "{field_name}" has the unknown type {name.upper() or "nothing"}{hint}')
    if name in _WITH_NUMBERS and tokens.take_if("("):
        while tokens.peek().isdigit() or tokens.peek() == ",":
            tokens.take()
        tokens.need(")", f"after the numbers of {name.upper()}")
    return Type(name)
