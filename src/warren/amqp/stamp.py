"""Headers put into content that is otherwise left as it came: spliced in, without decoding anything else.

Who reads a stream, or browses a queue, is told where each message stands by such a header; and dead letters what they
died of.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i64_be
from mypy_extensions import i64, u8

from warren.amqp.constants import FRAME_END, FRAME_HEADER
from warren.amqp.fields import Field, Table
from warren.amqp.frames import body_of, content_frames, properties_span, rechannel
from warren.amqp.numbers import write_u16, write_u32
from warren.amqp.properties import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    PRIORITY,
    REPLY_TO,
    decode_properties,
    encode_properties,
)
from warren.amqp.tables import after_value

# Where the properties' flags stand in a content header frame, and how long a field of type `l` is beside its name.
_FLAGS_AT: Final[i64] = 19
_LONG_SIZE: Final[i64] = 10


def stamped(content: bytes, channel: i64, name: bytes, value: i64) -> bytes:
    """The same content for `channel` with header `name` (ASCII) = `value`, a long; one of that name is replaced."""
    place = find_headers(content)
    # Asked for the flag first: compiled, a slice that ends before it begins is an error.
    if place is None or (place.flags & HEADERS and name in content[place.headers + 4 : place.headers_end]):
        return _rebuilt(content, channel, name, value)
    end = place.end
    writer = BytesWriter()
    writer.append(FRAME_HEADER)
    write_u16(writer, channel)
    _write_headers(writer, content, place, place.flags, len(name) + _LONG_SIZE, 0)
    writer.append(u8(len(name)))
    writer.write(name)
    writer.append(0x6C)
    write_i64_be(writer, value)
    writer.write(content[place.headers_end : end])
    writer.append(FRAME_END)
    if end + 1 < len(content):
        writer.write(rechannel(content[end + 1 :], channel))
    return writer.getvalue()


def find_headers(content: bytes) -> HeaderPlace | None:
    """None where more flags follow the first, which hardly anybody sends: such content has to be decoded."""
    flags: i64 = i64(read_i16_be(content, _FLAGS_AT)) & 0xFFFF
    return None if flags & 1 else HeaderPlace(content, flags)


class HeaderPlace:
    """Where in a checked content the headers and the expiration lie."""

    def __init__(self, content: bytes, flags: i64) -> None:
        at: i64 = _FLAGS_AT + 2
        self.flags: i64 = flags
        self.end: i64 = i64(read_i32_be(content, 3)) + 7
        if flags & CONTENT_TYPE:
            at += 1 + i64(content[at])
        if flags & CONTENT_ENCODING:
            at += 1 + i64(content[at])
        # With the four bytes of their length, if there are any.
        self.headers: i64 = at
        if flags & HEADERS:
            at += 4 + (i64(read_i32_be(content, at)) & 0xFFFFFFFF)
        self.headers_end: i64 = at
        if flags & DELIVERY_MODE:
            at += 1
        if flags & PRIORITY:
            at += 1
        if flags & CORRELATION_ID:
            at += 1 + i64(content[at])
        if flags & REPLY_TO:
            at += 1 + i64(content[at])
        self.expiration: i64 = at
        if flags & EXPIRATION:
            at += 1 + i64(content[at])
        self.expiration_end: i64 = at


def names_of_plain(content: bytes, place: HeaderPlace) -> set[bytes] | None:
    """Of headers that come out of decoding and encoding as they went in; None where that is not certain."""
    names: set[bytes] = set()
    at: i64 = place.headers + 4
    while at < place.headers_end:
        size: i64 = i64(content[at])
        name = content[at + 1 : at + 1 + size]
        at += 1 + size
        tag: i64 = i64(content[at])
        # A true that is not 1, and what may hold one; and of a repeated name only the first is kept.
        if name in names or tag == 0x74 or tag == 0x46 or tag == 0x41:
            return None
        names.add(name)
        at = after_value(content, at)
    return names


def with_more_headers(content: bytes, place: HeaderPlace, fields: bytes) -> bytes:
    """The same content with these fields behind the headers that it has, and without an expiration."""
    writer = BytesWriter()
    writer.write(content[:3])
    expiration_size = place.expiration_end - place.expiration
    _write_headers(writer, content, place, place.flags & ~EXPIRATION, len(fields), expiration_size)
    writer.write(fields)
    writer.write(content[place.headers_end : place.expiration])
    writer.write(content[place.expiration_end :])
    return writer.getvalue()


def _write_headers(
    writer: BytesWriter, content: bytes, place: HeaderPlace, flags: i64, added: i64, removed: i64
) -> None:
    """From the size of the frame to the headers that are there, before `added` bytes of more of them; behind those,
    `removed` bytes less follow than do now."""
    size: i64 = place.headers_end - place.headers
    length: i64 = 0 if size > 0 else 4
    write_u32(writer, place.end - 7 + length + added - removed)
    writer.write(content[7:_FLAGS_AT])
    write_u16(writer, flags | HEADERS)
    writer.write(content[_FLAGS_AT + 2 : place.headers])
    write_u32(writer, size + length - 4 + added)
    if size > 4:
        writer.write(content[place.headers + 4 : place.headers_end])


def _rebuilt(content: bytes, channel: i64, name: bytes, value: i64) -> bytes:
    start, end = properties_span(content)
    properties = decode_properties(content, start, end)
    headers: Table = {} if properties.headers is None else properties.headers
    headers[name.decode()] = Field("l", value)
    properties.headers = headers
    return content_frames(channel, encode_properties(properties), body_of(content), 0)
