"""Frames cut by hand: how each begins, and the content (header frame and body frames) that travels with a message.

"Content" is those frames verbatim, concatenated: how the broker keeps a message. Sending it on is then a copy with
another channel number, unless the receiver's frame_max is smaller than the sender's was.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i64_be
from mypy_extensions import i64, u8

from warren.amqp.constants import (
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_OVERHEAD,
    FRAME_PREFIX,
)
from warren.amqp.numbers import write_u16, write_u32
from warren.errors import FrameError

# class(2) weight(2) body size(8), then the properties
_HEADER_FIXED: Final = 12


def begin_frame(writer: BytesWriter, kind: u8, channel: i64, size: i64) -> None:
    writer.append(kind)
    write_u16(writer, channel)
    write_u32(writer, size)


def begin_header(writer: BytesWriter, channel: i64, body_size: i64, properties_size: i64) -> None:
    """A header frame up to its properties; behind them comes the frame end."""
    begin_frame(writer, FRAME_HEADER, channel, _HEADER_FIXED + properties_size)
    write_u16(writer, CLASS_BASIC)
    write_u16(writer, 0)
    write_i64_be(writer, body_size)


def content_frames(channel: i64, properties: bytes, body: bytes, frame_max: i64) -> bytes:
    """Header frame and as many body frames as it takes; none for an empty body. frame_max 0 is no limit."""
    writer = BytesWriter()
    begin_header(writer, channel, len(body), len(properties))
    writer.write(properties)
    writer.append(FRAME_END)
    _write_body(writer, channel, body, frame_max)
    return writer.getvalue()


def rechannel(content: bytes, channel: i64) -> bytes:
    """The same frames under another channel number."""
    size: i64 = len(content)
    # All frames of a content share one channel, so the first speaks for the rest.
    if size >= FRAME_PREFIX and (i64(read_i16_be(content, 1)) & 0xFFFF) == channel:
        return content
    writer = BytesWriter()
    writer.write(content)
    high = u8(channel >> 8)
    low = u8(channel & 0xFF)
    at: i64 = 0
    while at < size:
        after = _frame_end(content, at)
        writer[at + 1] = high
        writer[at + 2] = low
        at = after
    return writer.getvalue()


def spliced(content: bytes, start: i64, end: i64, piece: bytes) -> bytes:
    """The same frames with other bytes in this place of the header frame."""
    writer = BytesWriter()
    writer.write(content[:3])
    size: i64 = i64(read_i32_be(content, 3)) & 0xFFFFFFFF
    write_u32(writer, size - (end - start) + len(piece))
    writer.write(content[FRAME_PREFIX:start])
    writer.write(piece)
    writer.write(content[end:])
    return writer.getvalue()


def reframe(content: bytes, channel: i64, frame_max: i64) -> bytes:
    """The header frame as it is and the body cut anew."""
    after = _frame_end(content, 0)
    writer = BytesWriter()
    writer.append(FRAME_HEADER)
    write_u16(writer, channel)
    writer.write(content[3:after])
    _write_body(writer, channel, body_of(content), frame_max)
    return writer.getvalue()


def needs_reframing(content: bytes, frame_max: i64) -> bool:
    """Whether a body frame is too large for frame_max. A header frame cannot be cut, so it is not asked about."""
    size: i64 = len(content)
    if frame_max == 0 or size <= frame_max:
        return False
    at = _frame_end(content, 0)
    while at < size:
        after = _frame_end(content, at)
        if after - at > frame_max:
            return True
        at = after
    return False


def body_of(content: bytes) -> bytes:
    size: i64 = len(content)
    at = _frame_end(content, 0)
    if at == size:
        return b""
    after = _frame_end(content, at)
    if after == size:
        return content[at + FRAME_PREFIX : after - 1]
    return b"".join(body_parts(content))


def body_parts(content: bytes) -> list[bytes]:
    """The body as its frames cut it."""
    return [content[start:end] for start, end in body_spans(content)]


def body_spans(content: bytes) -> list[tuple[int, int]]:
    """Where the parts of the body begin and end, frame by frame."""
    spans: list[tuple[int, int]] = []
    size: i64 = len(content)
    at = _frame_end(content, 0)
    while at < size:
        after = _frame_end(content, at)
        spans.append((at + FRAME_PREFIX, after - 1))
        at = after
    return spans


def properties_span(content: bytes) -> tuple[int, int]:
    """Where the properties lie: from their flags to the end of the header frame's payload."""
    after = _frame_end(content, 0)
    if content[0] != FRAME_HEADER or after < FRAME_PREFIX + _HEADER_FIXED + 1:
        raise FrameError("content does not begin with a header frame")
    return FRAME_PREFIX + _HEADER_FIXED, after - 1


def _frame_end(content: bytes, at: i64) -> i64:
    """Where the frame that begins at `at` ends, its end octet included."""
    size: i64 = len(content)
    if size - at < FRAME_OVERHEAD:
        raise FrameError("content ends within a frame")
    payload: i64 = i64(read_i32_be(content, at + 3)) & 0xFFFFFFFF
    if payload > size - at - FRAME_OVERHEAD:
        raise FrameError("content ends within a frame")
    return at + FRAME_OVERHEAD + payload


def _write_body(writer: BytesWriter, channel: i64, body: bytes, frame_max: i64) -> None:
    size: i64 = len(body)
    room: i64 = frame_max - FRAME_OVERHEAD if frame_max > FRAME_OVERHEAD else size
    at: i64 = 0
    while at < size:
        chunk: i64 = size - at
        if chunk > room:
            chunk = room
        begin_frame(writer, FRAME_BODY, channel, chunk)
        writer.write(body if chunk == size else body[at : at + chunk])
        writer.append(FRAME_END)
        at += chunk
