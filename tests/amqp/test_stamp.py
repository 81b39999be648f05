"""A header put into content as it stands: every property and every byte of the body stay."""

from __future__ import annotations

import pytest

from warren.amqp.fields import Field, table_of
from warren.amqp.frames import body_of, content_frames, properties_span
from warren.amqp.properties import Properties, decode_properties, encode_properties
from warren.amqp.stamp import stamped

EVERYTHING = Properties(
    "text/plain", "gzip", table_of({"a": 1, "z": "last"}), 2, 5, "c", "r", "1000", "m", 1700000000, "t", "u", "a", "x"
)


@pytest.mark.parametrize(
    "properties",
    [
        Properties(),
        Properties(delivery_mode=2),
        Properties(content_type="text/plain"),
        Properties(content_encoding="gzip", priority=1),
        Properties(headers={}),
        Properties(headers=table_of({"other": [1, {"deep": True}]}), cluster_id="x"),
        EVERYTHING,
    ],
)
@pytest.mark.parametrize("size", [0, 5, 10_000])
def test_the_header_joins_and_nothing_else_changes(properties: Properties, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    content = content_frames(7, encode_properties(properties), body[:size], 4096)
    found = stamped(content, 3, b"x-stream-offset", 1 << 40)
    start, end = properties_span(found)
    wanted = decode_properties(content, *properties_span(content))
    wanted.headers = (wanted.headers or {}) | {"x-stream-offset": Field("l", 1 << 40)}
    assert decode_properties(found, start, end) == wanted
    assert body_of(found) == body[:size]


def test_a_header_of_that_name_is_replaced() -> None:
    headers = table_of({"x-stream-offset": "mine", "other": 1})
    content = content_frames(1, encode_properties(Properties(headers=headers)), b"hello", 4096)
    found = stamped(content, 1, b"x-stream-offset", 5)
    decoded = decode_properties(found, *properties_span(found)).headers
    assert decoded == {"x-stream-offset": Field("l", 5), "other": Field("I", 1)}
    assert body_of(found) == b"hello"


def test_all_frames_are_for_the_channel_that_was_named() -> None:
    content = content_frames(9, encode_properties(Properties()), bytes(10_000), 4096)
    found = stamped(content, 2, b"x", 0)
    at = 0
    channels = []
    while at < len(found):
        channels.append(int.from_bytes(found[at + 1 : at + 3], "big"))
        at += 8 + int.from_bytes(found[at + 3 : at + 7], "big")
    assert channels == [2, 2, 2, 2]
