"""What the codec's tests share: strategies for everything that can stand on the wire, and ways to damage it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal

from hypothesis import strategies as st

from warren.amqp.fields import Field, Table
from warren.amqp.methods import METHODS, Method
from warren.amqp.properties import Properties
from warren.amqp.tables import encode_table

# Every byte string has exactly one such text: invalid UTF-8 comes in as escapes and goes out as it came.
any_text = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
short_text = st.text(st.characters(codec="utf-8"), max_size=60)


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high)


def _tagged(tag: str, values: st.SearchStrategy[object]) -> st.SearchStrategy[Field]:
    return values.map(lambda value: Field(tag, value))  # type: ignore[arg-type]


def _long_string(raw: bytes) -> Field:
    try:
        return Field("S", raw.decode())
    except UnicodeDecodeError:
        return Field("S", raw)


decimals = st.builds(lambda value, scale: Decimal(f"{value}E-{scale}"), _integers(32, False), _integers(8, False))

SCALARS: dict[str, st.SearchStrategy[Field]] = {
    "S": st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda t: t.encode(errors="replace"))).map(
        _long_string
    ),
    "I": _tagged("I", _integers(32, True)),
    "i": _tagged("i", _integers(32, False)),
    "s": _tagged("s", _integers(16, True)),
    "u": _tagged("u", _integers(16, False)),
    "b": _tagged("b", _integers(8, True)),
    "B": _tagged("B", _integers(8, False)),
    "l": _tagged("l", _integers(64, True)),
    "L": _tagged("L", _integers(64, True)),
    "T": _tagged("T", _integers(64, False)),
    "D": _tagged("D", decimals),
    "x": _tagged("x", st.binary(max_size=40)),
    "t": _tagged("t", st.booleans()),
    "V": _tagged("V", st.none()),
    "d": _tagged("d", st.floats(allow_nan=False, allow_infinity=False)),
    "f": _tagged("f", st.floats(allow_nan=False, allow_infinity=False, width=32)),
}

keys = st.one_of(short_text, any_text)
fields = st.recursive(
    st.one_of(*SCALARS.values()),
    lambda inner: st.one_of(
        _tagged("A", st.lists(inner, max_size=4)), _tagged("F", st.dictionaries(short_text, inner, max_size=4))
    ),
    max_leaves=12,
)
tables = st.dictionaries(keys, fields, max_size=6)

properties = st.builds(
    Properties,
    content_type=st.none() | any_text,
    content_encoding=st.none() | any_text,
    headers=st.none() | tables,
    delivery_mode=st.none() | _integers(8, False),
    priority=st.none() | _integers(8, False),
    correlation_id=st.none() | any_text,
    reply_to=st.none() | any_text,
    expiration=st.none() | any_text,
    message_id=st.none() | any_text,
    timestamp=st.none() | _integers(64, False),
    type=st.none() | any_text,
    user_id=st.none() | any_text,
    app_id=st.none() | any_text,
    cluster_id=st.none() | any_text,
)

# Widths of the integers, by the names of the spec; every other integer is a short.
_BITS = {
    "version_major": 8,
    "version_minor": 8,
    "frame_max": 32,
    "message_count": 32,
    "consumer_count": 32,
    "prefetch_size": 32,
    "delivery_tag": 64,
}


def _values(name: str, default: object, texts: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        return _integers(_BITS.get(name, 16), False)
    if isinstance(default, str):
        return texts
    if isinstance(default, bytes):
        return st.binary(max_size=300)
    return tables


def methods_of(kind: type[Method], texts: st.SearchStrategy[str] = short_text) -> st.SearchStrategy[Method]:
    """Every method of one class, whatever its arguments."""
    default = kind()
    arguments = {name: _values(name, getattr(default, name), texts) for name in kind.fields}
    return st.builds(kind, **arguments)


methods = st.sampled_from(METHODS).flatmap(methods_of)


def full_method(kind: type[Method]) -> Method:
    """One in which no argument has a length of zero."""
    method = kind()
    for name in kind.fields:
        default: object = getattr(method, name)
        if isinstance(default, bool | int):
            continue
        value: object = (
            sample_table() if isinstance(default, dict) else "näme" if isinstance(default, str) else b"\x00\xff"
        )
        setattr(method, name, value)
    return method


def sample_table() -> Table:
    """One of every type, with nesting of both kinds."""
    return {
        "S": Field("S", "text"),
        "I": Field("I", -5),
        "i": Field("i", 4294967295),
        "s": Field("s", -300),
        "u": Field("u", 65535),
        "b": Field("b", -1),
        "B": Field("B", 255),
        "l": Field("l", -(1 << 63)),
        "L": Field("L", 1 << 40),
        "T": Field("T", (1 << 64) - 1),
        "D": Field("D", Decimal("3.140")),
        "F": Field("F", {"inner": Field("S", b"\xff\xfe")}),
        "A": Field("A", [Field("I", 1), Field("F", {"deep": Field("t", True)}), Field("A", [])]),
        "x": Field("x", b"\x00\x01"),
        "t": Field("t", False),
        "V": Field("V", None),
        "d": Field("d", 1.5),
        "f": Field("f", -0.25),
    }


def nested_tables(depth: int) -> bytes:
    """Contents of tables within each other, the outermost counted."""
    contents = b""
    for _ in range(depth - 1):
        contents = b"\x01k" + b"F" + struct.pack(">I", len(contents)) + contents
    return contents


def nested_arrays(depth: int) -> bytes:
    """Contents of a table that holds arrays within each other; the table is the first level."""
    value = b""
    for _ in range(depth - 1):
        value = b"A" + struct.pack(">I", len(value)) + value
    return b"\x01k" + value


def truncations(data: bytes) -> Iterator[bytes]:
    for cut in range(len(data)):
        yield data[:cut]


def lies(data: bytes) -> Iterator[bytes]:
    """The same bytes with a large number written over each place in which a length may stand."""
    for at in range(len(data)):
        yield data[:at] + b"\xff" + data[at + 1 :]
        yield data[:at] + b"\x7f\xff\xff\xff"[: len(data) - at] + data[at + 4 :]
        yield data[:at] + b"\xff\xff\xff\xff"[: len(data) - at] + data[at + 4 :]


def contents_of(table: Table) -> bytes:
    return encode_table(table)[4:]
