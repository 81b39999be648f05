"""Why a body does not fit its schema, in words that whoever sent it understands. Only asked about those that do not."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any, Final

from warren.spark.pipelines.schema_text import SchemaField, Type

_RANGES: Final = {
    "tinyint": 7, "byte": 7, "smallint": 15, "short": 15, "int": 31, "integer": 31, "bigint": 63, "long": 63,
}  # fmt: skip
_NUMBERS: Final = {"float", "real", "double", "decimal", "dec", "numeric"}
_SHOWN_MAX: Final = 60


def why(body: bytes, fields: tuple[SchemaField, ...]) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        return f"the body is not UTF-8: byte {error.start} is {body[error.start]:#04x}"
    if not text.strip():
        return "the body is empty"
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"the body is not JSON: {error}"
    except RecursionError:
        return "the body is not JSON that can be read: it is nested too deep"
    if not isinstance(value, dict):
        return f"the body is JSON, but {_kind(value)} and not an object"
    return _in_fields(value, fields, "") or "the body does not fit the schema"


def _in_fields(value: dict[str, Any], fields: tuple[SchemaField, ...], path: str) -> str | None:
    for field in fields:
        if field.name in value and value[field.name] is not None:
            found = _in_value(value[field.name], field.type, f"{path}{field.name}")
            if found is not None:
                return found
        elif field.is_required and not path:
            return f"the field {field.name} is missing"
    return None


def _in_value(value: Any, kind: Type, path: str) -> str | None:
    if kind.name == "struct":
        if not isinstance(value, dict):
            return _wrong(value, kind, path)
        return _in_fields(value, kind.fields, f"{path}.")
    if kind.name == "array":
        if not isinstance(value, list):
            return _wrong(value, kind, path)
        found = (_in_value(each, kind.parts[0], f"{path}[{at}]") for at, each in enumerate(value) if each is not None)
        return next((each for each in found if each is not None), None)
    if kind.name == "map":
        if not isinstance(value, dict):
            return _wrong(value, kind, path)
        found = (_in_value(each, kind.parts[1], f"{path}.{key}") for key, each in value.items() if each is not None)
        return next((each for each in found if each is not None), None)
    return None if _fits(value, kind.name) else _wrong(value, kind, path)


def _fits(value: Any, name: str) -> bool:
    if name in _RANGES:
        return (
            isinstance(value, int)
            and not isinstance(value, bool)
            and -(1 << _RANGES[name]) <= value < 1 << _RANGES[name]
        )
    if name in _NUMBERS:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "boolean":
        return isinstance(value, bool)
    if name == "date":
        return isinstance(value, str) and _parses(date.fromisoformat, value)
    if name.startswith("timestamp"):
        return isinstance(value, (int, float)) or (isinstance(value, str) and _parses(datetime.fromisoformat, value))
    return True


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _wrong(value: Any, kind: Type, path: str) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    if len(shown) > _SHOWN_MAX:
        shown = shown[: _SHOWN_MAX - 1] + "…"
    return f"the field {path} is {shown}, which is no {kind.name.upper()}"


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
