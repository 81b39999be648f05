"""Field values as Erlang prints them: reply texts quote values that way, and clients' tests compare the texts."""

from __future__ import annotations

from warren.amqp.fields import Field


def quoted_binary(value: str | bytes) -> str:
    """What ~tp makes of a binary: <<"text">>, or its octets when it is no UTF-8."""
    if not value:
        return "<<>>"
    if isinstance(value, str) and not _is_encodable(value):
        value = value.encode(errors="surrogateescape")
    if isinstance(value, bytes):
        return "<<" + ",".join([str(octet) for octet in value]) + ">>"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    suffix = "" if value.isascii() else "/utf8"
    return f'<<"{escaped}"{suffix}>>'


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted_value(field: Field) -> str:
    """What ~tp makes of a field's value; of a table only the names, since reply texts are short."""
    value = field.value
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, bytes)):
        return quoted_binary(value)
    if isinstance(value, dict):
        return "[" + ",".join([quoted_binary(name) for name in value]) + "]"
    if isinstance(value, list):
        return "[" + ",".join([quoted_value(item) for item in value]) + "]"
    return str(value)
