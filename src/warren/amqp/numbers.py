"""Unsigned numbers and short strings over librt's signed, unchecked primitives: the smallest parts of the codec."""

from __future__ import annotations

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from warren.errors import SyntaxRefused


def write_u16(writer: BytesWriter, value: i64) -> None:
    """The caller knows that the value fits."""
    if value >= 0x8000:
        value -= 0x10000
    write_i16_be(writer, i16(value))


def write_u32(writer: BytesWriter, value: i64) -> None:
    """The caller knows that the value fits."""
    if value >= 0x80000000:
        value -= 0x100000000
    write_i32_be(writer, i32(value))


def write_u64(writer: BytesWriter, value: int) -> None:
    if not 0 <= value <= 0xFFFFFFFFFFFFFFFF:
        raise SyntaxRefused("number does not fit a long long")
    write_i64_be(writer, value if value < 0x8000000000000000 else value - 0x10000000000000000)


def write_shortstr(writer: BytesWriter, text: str) -> None:
    encoded = encode_text(text)
    size = len(encoded)
    if size > 255:
        raise SyntaxRefused(f"a short string cannot hold {size} bytes")
    writer.append(size)
    writer.write(encoded)


def text_at(data: bytes, start: i64, end: i64) -> str:
    """Text that encode_text turns into the same bytes, valid UTF-8 or not: names must survive a round trip."""
    raw = data[start:end]
    # Strict first: it is the one decoder that compiles to a direct call.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _encode_escaped(text)


def _encode_escaped(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise SyntaxRefused("text holds a lone surrogate") from None
