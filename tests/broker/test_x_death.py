"""A first death is spliced into the bytes of a message: the same bytes come out as by decoding all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field, Table
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.stamp import find_headers
from warren.broker.message import Message, Obituary, Origin
from warren.broker.publish.x_death import record_death, spliced_death

NOW = 1_790_000_000
FRAME_MAX = 131072
short_texts = st.none() | st.text(max_size=20)
octets = st.none() | st.integers(0, 255)
plain_fields = (
    st.builds(Field, st.just("S"), st.text(max_size=20))
    | st.builds(Field, st.just("x"), st.binary(max_size=20))
    | st.builds(Field, st.just("l"), st.integers(-(2**63), 2**63 - 1))
    | st.builds(Field, st.just("V"), st.none())
)
any_properties = st.builds(
    Properties,
    content_type=short_texts,
    content_encoding=short_texts,
    headers=st.none() | st.dictionaries(st.text(max_size=12), plain_fields, max_size=5),
    delivery_mode=octets,
    priority=octets,
    correlation_id=short_texts,
    reply_to=short_texts,
    expiration=st.none() | st.integers(0, 10**9).map(str),
    message_id=short_texts,
    timestamp=st.none() | st.integers(0, 2**63 - 1),
    type=short_texts,
    user_id=short_texts,
    app_id=short_texts,
    cluster_id=short_texts,
)


def message_of(properties: Properties, origin: Origin, body: bytes = b"body") -> Message:
    return Message(origin, content_frames(3, encode_properties(properties), body, FRAME_MAX), 3, len(body))


def spliced(message: Message, queue: str) -> bytes | None:
    place = find_headers(message.content)
    assert place is not None
    expiration = message.content[place.expiration : place.expiration_end]
    obituary = Obituary(queue, "expired", expiration, None, message.origin)
    first = spliced_death(message, place, obituary, NOW)
    # In the words of the first, as for all that die alike.
    assert spliced_death(message, place, obituary, NOW) == first
    return first


def decoded(message: Message, queue: str) -> bytes:
    properties = message.properties()
    headers: Table = {} if properties.headers is None else properties.headers
    record_death(headers, queue, "expired", message.origin, properties, NOW)
    properties.headers = headers
    properties.expiration = None
    return message.changed(message.origin, properties, FRAME_MAX).content


@given(
    properties=any_properties,
    queue=st.text(max_size=30),
    exchange=st.text(max_size=30),
    keys=st.lists(st.text(max_size=30), min_size=1, max_size=3),
    body=st.binary(max_size=30),
)
def test_what_is_spliced_in_is_what_decoding_would_have_made(
    properties: Properties, queue: str, exchange: str, keys: list[str], body: bytes
) -> None:
    message = message_of(properties, Origin(exchange, keys, len(keys) - 1), body)
    assert spliced(message, queue) == decoded(message, queue)


def test_a_queue_may_be_called_like_a_field_of_its_death() -> None:
    message = message_of(Properties(), Origin("\x04timeT", ["\x04timeT"]))
    assert spliced(message, "\x04timeT\x00") == decoded(message, "\x04timeT\x00")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-death": Field("A", [])},
        {"x-first-death-queue": Field("S", "q")},
        {"CC": Field("S", "no list")},
        {"true": Field("t", True)},
        {"table": Field("F", {})},
        {"array": Field("A", [])},
    ],
)
def test_headers_that_a_death_changes_or_decoding_would_are_decoded(headers: Table) -> None:
    assert spliced(message_of(Properties(headers=headers), Origin("", ["q"])), "q") is None


def test_headers_that_repeat_a_name_are_decoded() -> None:
    once, twice = Field("S", "once"), Field("S", "twice")
    content = message_of(Properties(headers={"a": once, "b": twice}), Origin("", ["q"])).content
    repeated = Message(Origin("", ["q"]), content.replace(b"\x01b", b"\x01a"), 3, 4)
    assert spliced(repeated, "q") is None
