"""Values written as Erlang writes them, because RabbitMQ's refusals quote them so and tools read those texts."""

from __future__ import annotations

from warren.amqp.fields import Field, type_name


def erlang_term(value: object) -> str:
    """A JSON value in Erlang's notation: <<"x">>, #{<<"a">> => 1}, [1,2]."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return erlang_binary(value)
    if isinstance(value, list):
        return "[" + ",".join([erlang_term(item) for item in value]) + "]"
    if isinstance(value, dict):
        return "#{" + ",".join([f"{erlang_term(key)} => {erlang_term(item)}" for key, item in value.items()]) + "}"
    return str(value)


def erlang_binary(text: str) -> str:
    if not text:
        return "<<>>"
    if not _is_printable(text):
        data = text.encode(errors="surrogateescape")
        return "<<" + ",".join([str(byte) for byte in data]) + ">>"
    quoted = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return f'<<"{quoted}">>' if text.isascii() else f'<<"{quoted}"/utf8>>'


def erlang_octets(data: bytes) -> str:
    """Octets: as text when all of them are printable."""
    if data and all(32 <= octet < 127 or octet in b"\n\r\t" for octet in data):
        return erlang_binary(data.decode())
    return "<<" + ",".join([str(octet) for octet in data]) + ">>"


def erlang_string(text: str) -> str:
    """A string: \"text\" with control characters escaped."""
    return erlang_binary(text)[2:-2] if text and text.isascii() else f'"{text}"'


def erlang_value(field: Field) -> str:
    """A field's value; of a table only the names, since reply texts are short."""
    value = field.value
    if value is None:
        return "undefined"
    if isinstance(value, bytes):
        return "<<" + ",".join([str(octet) for octet in value]) + ">>"
    if isinstance(value, dict):
        return "[" + ",".join([erlang_binary(name) for name in value]) + "]"
    if isinstance(value, list):
        return "[" + ",".join([erlang_value(item) for item in value]) + "]"
    return erlang_term(value)


def erlang_argument(name: str, field: Field) -> str:
    """One of a table's entries: {<<"x-max-length">>,signedint,9}."""
    return "{" + f"{erlang_binary(name)},{type_name(field.tag)},{_inner(field)}" + "}"


def _inner(field: Field) -> str:
    value = field.value
    if isinstance(value, dict):
        return "[" + ",".join([erlang_argument(name, value[name]) for name in value]) + "]"
    if isinstance(value, list):
        return "[" + ",".join(["{" + f"{type_name(item.tag)},{_inner(item)}" + "}" for item in value]) + "]"
    return erlang_value(field)


def erlang_address(address: str) -> str:
    """An IP address as a tuple of its numbers: {127,0,0,1}, {0,0,0,0,0,0,0,1}."""
    if "." in address:
        parts = address.split(".")
        return "{" + ",".join(parts) + "}" if len(parts) == 4 and all(part.isdigit() for part in parts) else address
    if ":" not in address:
        return address
    head, _, tail = address.partition("::")
    first = [part for part in head.split(":") if part]
    last = [part for part in tail.split(":") if part]
    groups = first + ["0"] * (8 - len(first) - len(last)) + last
    return "{" + ",".join([str(int(group, 16)) for group in groups]) + "}"


def erlang_pairs(pairs: dict[str, object]) -> str:
    """A property list: [{<<"a">>,1}]."""
    return (
        "[" + ",".join(["{" + f"{erlang_term(key)},{erlang_term(value)}" + "}" for key, value in pairs.items()]) + "]"
    )


def _is_printable(text: str) -> bool:
    for character in text:
        if not character.isprintable() and character not in "\n\r\t":
            return False
    return text != ""
