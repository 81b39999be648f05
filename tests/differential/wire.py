"""AMQP 0-9-1 bytes for the differential tests, independent of Warren's own codec.

pamqp knows the methods and their fields; field tables are written and shown here, because the tests must choose and
see the type octet of every value, which pamqp hides.
"""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pamqp import base, commands, decode

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
END: Final = 0xCE
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"


@dataclass(frozen=True)
class Typed:
    """A table value with its type octet spelt out: Typed("s", 5) is a 16-bit five."""

    tag: str
    value: object


@dataclass(frozen=True)
class Raw:
    """Bytes that stand where an encoded table (with its length) is expected: for malformed ones."""

    data: bytes


# ---- field tables: writing --------------------------------------------------------------------------------------

_NUMBERS: Final = {
    "I": ">i", "i": ">I", "s": ">h", "u": ">H", "b": ">b", "B": ">B",
    "l": ">q", "L": ">q", "T": ">Q", "d": ">d", "f": ">f", "t": ">B",
}  # fmt: skip


def _tag_of(value: object) -> str:
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        return "I" if -(2**31) <= value < 2**31 else "l"
    for kind, tag in ((str, "S"), (bytes, "x"), (float, "d"), (Mapping, "F"), (list, "A")):
        if isinstance(value, kind):
            return tag
    if value is None:
        return "V"
    raise TypeError(f"no field type for {value!r}")


def encode_field(value: object) -> bytes:
    if isinstance(value, Typed):
        tag, value = value.tag, value.value
    else:
        tag = _tag_of(value)
    return tag.encode() + _encode_value(tag, value)


def _encode_value(tag: str, value: object) -> bytes:
    if tag in _NUMBERS:
        return struct.pack(_NUMBERS[tag], value)
    if tag in "Sx":
        data = value.encode() if isinstance(value, str) else value
        assert isinstance(data, bytes)
        return struct.pack(">I", len(data)) + data
    if tag == "F":
        assert isinstance(value, Mapping)
        return encode_table(value)
    if tag == "A":
        assert isinstance(value, Sequence)
        data = b"".join(encode_field(item) for item in value)
        return struct.pack(">I", len(data)) + data
    if tag == "D":
        assert isinstance(value, tuple)
        return struct.pack(">BI", *value)
    assert tag == "V", tag
    return b""


def encode_table(table: Mapping[str, object]) -> bytes:
    data = b"".join(short_string(name) + encode_field(value) for name, value in table.items())
    return struct.pack(">I", len(data)) + data


def short_string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(">B", len(data)) + data


# ---- field tables: showing --------------------------------------------------------------------------------------


def show_table(data: bytes) -> str:
    """One line for the table that `data` begins with; every value but a long string carries its type octet."""
    text, _ = _show_value("F", data, 0)
    return text.removeprefix("F:")


def _show_value(tag: str, data: bytes, at: int) -> tuple[str, int]:
    if tag in _NUMBERS:
        (number,) = struct.unpack_from(_NUMBERS[tag], data, at)
        return f"{tag}:{number}", at + struct.calcsize(_NUMBERS[tag])
    if tag == "V":
        return "V", at
    if tag == "D":
        return "D:{},{}".format(*struct.unpack_from(">BI", data, at)), at + 5
    (size,) = struct.unpack_from(">I", data, at)
    at, end = at + 4, at + 4 + size
    if tag == "S":
        return repr(data[at:end].decode(errors="backslashreplace")), end
    if tag == "x":
        return f"x:{data[at:end]!r}", end
    parts = []
    while at < end:
        name = ""
        if tag == "F":
            size, at = data[at], at + 1
            name, at = data[at : at + size].decode(errors="backslashreplace") + "=", at + size
        text, at = _show_value(chr(data[at]), data, at + 1)
        parts.append(name + text)
    if tag == "F":
        # A table has no order; RabbitMQ itself changes it when it adds to the headers of a dead letter.
        parts.sort()
    opening, closing = ("F:{", "}") if tag == "F" else ("A:[", "]")
    return opening + ", ".join(parts) + closing, end


# ---- methods ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A method as pamqp describes it: its id on the wire and its fields with type and default."""

    name: str
    index: int
    fields: tuple[tuple[str, str, object], ...]
    replies: tuple[str, ...]


def _spelling(pamqp_name: str) -> str:
    """'Basic.RecoverAsync' -> 'basic.recover-async'."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"-\1", pamqp_name).lower()


def _spec_of(method: type[base.Frame]) -> Spec:
    defaults = {name: parameter.default for name, parameter in inspect.signature(method).parameters.items()}
    fields = tuple((name, method.amqp_type(name), defaults.get(name)) for name in method.attributes())
    return Spec(_spelling(method.name), method.index, fields, tuple(_spelling(name) for name in method.valid_responses))


def _catalogue() -> dict[str, Spec]:
    specs = [_spec_of(method) for method in commands.INDEX_MAPPING.values()]
    # RabbitMQ still answers class access, which left the specification with 0-9-1 and is not in pamqp.
    bits = tuple((name, "bit", False) for name in ("exclusive", "passive", "active", "write", "read"))
    specs.append(Spec("access.request", 30 << 16 | 10, (("realm", "shortstr", ""), *bits), ("access.request-ok",)))
    specs.append(Spec("access.request-ok", 30 << 16 | 11, (("ticket", "short", 1),), ()))
    return {spec.name: spec for spec in specs}


METHODS: Final = _catalogue()
_BY_INDEX: Final = {spec.index: spec for spec in METHODS.values()}
_EMPTY: Final[dict[str, object]] = {"shortstr": "", "longstr": "", "table": {}, "bit": False}


def encode_method(name: str, **given: object) -> bytes:
    """The payload of a method frame. Fields not given take pamqp's defaults."""
    spec = METHODS[name]
    unknown = given.keys() - {field for field, _, _ in spec.fields}
    if unknown:
        raise TypeError(f"{name} has no field {unknown}")
    out, bits = [struct.pack(">I", spec.index)], []
    for field, kind, default in spec.fields:
        value = given.get(field, default)
        if value is None or value is inspect.Parameter.empty:
            value = _EMPTY.get(kind, 0)
        if kind == "bit":
            bits.append(bool(value))
            continue
        out += [_packed(bits), _encode_argument(kind, value)]
        bits = []
    return b"".join([*out, _packed(bits)])


def _packed(bits: list[bool]) -> bytes:
    return bytes([sum(bit << place for place, bit in enumerate(bits))]) if bits else b""


def _encode_argument(kind: str, value: object) -> bytes:
    if isinstance(value, Raw):
        return value.data
    if kind == "table":
        assert isinstance(value, Mapping)
        return encode_table(value)
    if kind == "shortstr":
        assert isinstance(value, str | bytes)
        return short_string(value)
    if kind == "longstr":
        return _encode_value("S", value)
    return struct.pack({"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}[kind], value)


def decode_method(payload: bytes) -> tuple[str, dict[str, object]]:
    """Name and fields; a table comes out as the line that shows it."""
    (index,) = struct.unpack_from(">I", payload)
    spec = _BY_INDEX.get(index)
    if spec is None:
        return f"method {index >> 16}.{index & 0xFFFF}", {"payload": payload[4:]}
    fields: dict[str, object] = {}
    data, bit = payload[4:], 0
    for field, kind, _ in spec.fields:
        if kind == "bit":
            fields[field] = bool(data[0] >> bit & 1)
            bit += 1
            continue
        data, bit = data[1 if bit else 0 :], 0
        if kind == "table":
            (size,) = struct.unpack_from(">I", data)
            fields[field], data = show_table(data), data[4 + size :]
            continue
        used, fields[field] = _decode_argument(kind, data)
        data = data[used:]
    return spec.name, fields


def _decode_argument(kind: str, data: bytes) -> tuple[int, object]:
    if kind == "shortstr":
        # pamqp insists on UTF-8.
        return data[0] + 1, data[1 : data[0] + 1].decode(errors="backslashreplace")
    return decode.by_type(data, kind, 0)


# ---- frames and contents ----------------------------------------------------------------------------------------

PROPERTIES: Final = (
    ("content_type", "shortstr"), ("content_encoding", "shortstr"), ("headers", "table"), ("delivery_mode", "octet"),
    ("priority", "octet"), ("correlation_id", "shortstr"), ("reply_to", "shortstr"), ("expiration", "shortstr"),
    ("message_id", "shortstr"), ("timestamp", "longlong"), ("type", "shortstr"), ("user_id", "shortstr"),
    ("app_id", "shortstr"), ("cluster_id", "shortstr"),
)  # fmt: skip


def frame(kind: int, channel: int, payload: bytes, end: int = END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def encode_properties(**given: object) -> bytes:
    """Flags and values of the properties given."""
    flags, out = 0, []
    for place, (name, kind) in enumerate(PROPERTIES):
        if given.get(name) is not None:
            flags |= 1 << (15 - place)
            out.append(_encode_argument(kind, given[name]))
    return struct.pack(">H", flags) + b"".join(out)


def header(body_size: int, properties: bytes = b"\x00\x00", class_id: int = 60, weight: int = 0) -> bytes:
    """The payload of a content header frame."""
    return struct.pack(">HHQ", class_id, weight, body_size) + properties


def decode_header(payload: bytes) -> tuple[int, dict[str, object]]:
    """Announced body size and the properties present."""
    _, _, size, flags = struct.unpack_from(">HHQH", payload)
    data, continues = payload[14:], flags & 1
    while continues:
        (continues,) = struct.unpack_from(">H", data)
        data, continues = data[2:], continues & 1
    properties: dict[str, object] = {}
    for place, (name, kind) in enumerate(PROPERTIES):
        if not flags >> (15 - place) & 1:
            continue
        if kind == "table":
            (length,) = struct.unpack_from(">I", data)
            properties[name], data = show_table(data), data[4 + length :]
        else:
            used, properties[name] = _decode_argument(kind, data)
            data = data[used:]
    return size, properties
