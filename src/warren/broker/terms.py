"""Field values as Erlang prints them: reply texts quote values that way, and clients' tests compare the texts."""

from __future__ import annotations

from decimal import Decimal

from warren.amqp.fields import Field


def quoted_binary(value: str | bytes) -> str:
    """What ~tp makes of a binary: <<"text">>."""
    if isinstance(value, bytes):
        return "<<" + ",".join([str(octet) for octet in value]) + ">>"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    suffix = "" if value.isascii() else "/utf8"
    return f'<<"{escaped}"{suffix}>>'


def quoted_value(field: Field) -> str:
    """What ~tp makes of a field's value."""
    value = field.value
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, bytes)):
        return quoted_binary(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "[" + ",".join([quoted_binary(name) for name in value]) + "]"
    if isinstance(value, list):
        return "[" + ",".join([quoted_value(item) for item in value]) + "]"
    return str(value)
