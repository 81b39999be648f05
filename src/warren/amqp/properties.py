"""The fourteen basic properties: whole, for those who change them, and peeked at, for the path of a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from warren.amqp.fields import Table, plain_table
from warren.amqp.numbers import text_at
from warren.amqp.reader import ArgumentReader
from warren.amqp.tables import check_table
from warren.amqp.writer import ArgumentWriter
from warren.errors import SyntaxRefused

CONTENT_TYPE: Final = 1 << 15
CONTENT_ENCODING: Final = 1 << 14
HEADERS: Final = 1 << 13
DELIVERY_MODE: Final = 1 << 12
PRIORITY: Final = 1 << 11
CORRELATION_ID: Final = 1 << 10
REPLY_TO: Final = 1 << 9
EXPIRATION: Final = 1 << 8
MESSAGE_ID: Final = 1 << 7
TIMESTAMP: Final = 1 << 6
TYPE: Final = 1 << 5
USER_ID: Final = 1 << 4
APP_ID: Final = 1 << 3
CLUSTER_ID: Final = 1 << 2
_CONTINUED: Final = 1

# By their kind, each in the order of the wire. The fourteenth is headers.
NUMBER_PROPERTIES: Final = ("delivery_mode", "priority", "timestamp")
TEXT_PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


@dataclass
class Properties:
    """In the order of the wire; None is absent."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


def plain_properties(properties: Properties) -> dict[str, object]:
    """Those that are there, as JSON has them."""
    shown: dict[str, object] = {}
    for name in (*NUMBER_PROPERTIES, *TEXT_PROPERTIES):
        value = getattr(properties, name)
        if value is not None:
            shown[name] = value
    if properties.headers is not None:
        shown["headers"] = plain_table(properties.headers)
    return shown


def decode_properties(data: bytes, start: i64, end: i64) -> Properties:
    """`start` points at the flags."""
    reader = ArgumentReader(data, start, end)
    flags = _read_flags(reader)
    properties = Properties(
        reader.any_shortstr() if flags & CONTENT_TYPE else None,
        reader.any_shortstr() if flags & CONTENT_ENCODING else None,
        reader.table() if flags & HEADERS else None,
        reader.octet() if flags & DELIVERY_MODE else None,
        reader.octet() if flags & PRIORITY else None,
        reader.any_shortstr() if flags & CORRELATION_ID else None,
        reader.any_shortstr() if flags & REPLY_TO else None,
        reader.any_shortstr() if flags & EXPIRATION else None,
        reader.any_shortstr() if flags & MESSAGE_ID else None,
        reader.longlong() if flags & TIMESTAMP else None,
        reader.any_shortstr() if flags & TYPE else None,
        reader.any_shortstr() if flags & USER_ID else None,
        reader.any_shortstr() if flags & APP_ID else None,
        reader.any_shortstr() if flags & CLUSTER_ID else None,
    )
    reader.finish()
    return properties


def _read_flags(reader: ArgumentReader) -> int:
    first = reader.short()
    word = first
    while word & _CONTINUED:
        word = reader.short()
        # Nobody knows what a fifteenth property would look like, so it cannot be stepped over.
        if word & ~_CONTINUED:
            raise SyntaxRefused("unknown property flags")
    return first


def encode_properties(properties: Properties) -> bytes:
    """Flags and values."""
    flags = 0
    values = ArgumentWriter()
    flags |= _put_text(values, CONTENT_TYPE, properties.content_type)
    flags |= _put_text(values, CONTENT_ENCODING, properties.content_encoding)
    if properties.headers is not None:
        flags |= HEADERS
        values.table(properties.headers)
    if properties.delivery_mode is not None:
        flags |= DELIVERY_MODE
        values.octet(properties.delivery_mode)
    if properties.priority is not None:
        flags |= PRIORITY
        values.octet(properties.priority)
    flags |= _put_text(values, CORRELATION_ID, properties.correlation_id)
    flags |= _put_text(values, REPLY_TO, properties.reply_to)
    flags |= _put_text(values, EXPIRATION, properties.expiration)
    flags |= _put_text(values, MESSAGE_ID, properties.message_id)
    if properties.timestamp is not None:
        flags |= TIMESTAMP
        values.longlong(properties.timestamp)
    flags |= _put_text(values, TYPE, properties.type)
    flags |= _put_text(values, USER_ID, properties.user_id)
    flags |= _put_text(values, APP_ID, properties.app_id)
    flags |= _put_text(values, CLUSTER_ID, properties.cluster_id)
    return bytes([flags >> 8, flags & 0xFF]) + values.getvalue()


def _put_text(values: ArgumentWriter, flag: int, text: str | None) -> int:
    """Write what is there and return the flag that says so."""
    if text is None:
        return 0
    values.shortstr(text)
    return flag


class PropertyPeek:
    """What a broker looks at in a message on its way. Headers stay bytes; only where they lie is kept."""

    def __init__(self) -> None:
        # 0 is absent.
        self.delivery_mode: i64 = 0
        # -1 is absent.
        self.priority: i64 = -1
        # The table's contents, without the length before them; 0 and 0 are absent.
        self.headers_start: i64 = 0
        self.headers_end: i64 = 0
        self.reply_to: str | None = None
        # The whole short string; 0 and 0 are absent.
        self.reply_to_start: i64 = 0
        self.reply_to_end: i64 = 0
        self.expiration: str | None = None
        self.message_id: str | None = None
        self.user_id: str | None = None


def peek_properties(data: bytes, start: i64, end: i64) -> PropertyPeek:
    """Validate everything, keep what the broker needs. `start` points at the flags."""
    if start < 0 or end > len(data) or end - start < 2:
        raise SyntaxRefused("properties exceed their frame")
    flags: i64 = i64(read_i16_be(data, start)) & 0xFFFF
    peek = PropertyPeek()
    at: i64 = start + 2
    if flags & _CONTINUED:
        at = _skip_flags(data, at, end)
    if flags & CONTENT_TYPE:
        at = _skip_text(data, at, end)
    if flags & CONTENT_ENCODING:
        at = _skip_text(data, at, end)
    if flags & HEADERS:
        at = _peek_headers(peek, data, at, end)
    if flags & DELIVERY_MODE:
        if at >= end:
            raise SyntaxRefused("properties end too early")
        peek.delivery_mode = i64(data[at])
        at += 1
    if flags & PRIORITY:
        if at >= end:
            raise SyntaxRefused("properties end too early")
        peek.priority = i64(data[at])
        at += 1
    # Most messages carry nothing beyond: eight tests become one.
    if flags & 0x07FC:
        at = _peek_rest(peek, flags, data, at, end)
    if at != end:
        raise SyntaxRefused("bytes left over after the last property")
    return peek


def _peek_headers(peek: PropertyPeek, data: bytes, at: i64, end: i64) -> i64:
    if end - at < 4:
        raise SyntaxRefused("properties end too early")
    size: i64 = i64(read_i32_be(data, at)) & 0xFFFFFFFF
    at += 4
    if size > end - at:
        raise SyntaxRefused("properties end too early")
    check_table(data, at, at + size)
    peek.headers_start = at
    peek.headers_end = at + size
    return at + size


def _peek_rest(peek: PropertyPeek, flags: i64, data: bytes, at: i64, end: i64) -> i64:
    if flags & CORRELATION_ID:
        at = _skip_text(data, at, end)
    if flags & REPLY_TO:
        after = _skip_text(data, at, end)
        peek.reply_to = text_at(data, at + 1, after)
        peek.reply_to_start = at
        peek.reply_to_end = after
        at = after
    if flags & EXPIRATION:
        after = _skip_text(data, at, end)
        peek.expiration = text_at(data, at + 1, after)
        at = after
    if flags & MESSAGE_ID:
        after = _skip_text(data, at, end)
        peek.message_id = text_at(data, at + 1, after)
        at = after
    if flags & TIMESTAMP:
        if end - at < 8:
            raise SyntaxRefused("properties end too early")
        at += 8
    if flags & TYPE:
        at = _skip_text(data, at, end)
    if flags & USER_ID:
        after = _skip_text(data, at, end)
        peek.user_id = text_at(data, at + 1, after)
        at = after
    if flags & APP_ID:
        at = _skip_text(data, at, end)
    if flags & CLUSTER_ID:
        at = _skip_text(data, at, end)
    return at


def _skip_flags(data: bytes, at: i64, end: i64) -> i64:
    reader = ArgumentReader(data, at - 2, end)
    _read_flags(reader)
    return reader.at


def _skip_text(data: bytes, at: i64, end: i64) -> i64:
    """Where the short string at `at` ends."""
    if at >= end:
        raise SyntaxRefused("properties end too early")
    after: i64 = at + 1 + i64(data[at])
    if after > end:
        raise SyntaxRefused("properties end too early")
    return after
