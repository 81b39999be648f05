"""A message as the broker keeps it: the publisher's own frames, verbatim, and the few facts the path needs.

Properties and body are not decoded on the way: a content header and its body frames go out as they came in,
with the channel number patched where it differs. What a rule must know (persistent, priority, TTL) is peeked once.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.amqp.frames import body_of, content_frames, properties_span
from warren.amqp.properties import Properties, decode_properties, encode_properties

NEVER: Final[i64] = -1


def short(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return bytes([len(raw)]) + raw


class Origin:
    """Exchange and routing keys of a publish; shared by all messages that were published alike."""

    def __init__(self, exchange: str, keys: list[str], hidden: i64 = 0) -> None:
        self.exchange = exchange
        # The routing key first, then CC, then BCC; the last `hidden` ones are BCC and shown to nobody.
        self.keys = keys
        self.hidden: i64 = hidden
        # What follows the redelivered bit in basic.deliver, up to and with the frame end.
        self.suffix = short(exchange) + short(keys[0]) + b"\xce"
        # As a record of the store has it; made when the first such message is stored.
        self.stored = b""
        # How such a message died last: others that die alike are told of in the same words.
        self.obituary: Obituary | None = None


class Obituary:
    """The headers of a first death, and where it leads. Valid for messages that died alike: see x_death.py."""

    def __init__(self, queue: str, reason: str, expiration: bytes, key: str | None, target: Origin) -> None:
        self.queue = queue
        self.reason = reason
        # As it lies in the properties; empty is none.
        self.expiration = expiration
        # The routing key that the queue puts in the place of the message's own.
        self.key = key
        self.target = target
        # Fields before and behind the time of death.
        self.before = b""
        self.behind = b""


class Message:
    def __init__(self, origin: Origin, content: bytes, channel: i64, body_size: i64) -> None:
        self.origin = origin
        self.content = content
        # The channel number that stands in the frames of `content`.
        self.channel: i64 = channel
        self.body_size: i64 = body_size
        self.persistent = False
        self.priority: i64 = 0
        # From the expiration property, in milliseconds.
        self.ttl: i64 = NEVER

    def properties(self) -> Properties:
        start, end = properties_span(self.content)
        return decode_properties(self.content, start, end)

    def rewrite(self, properties: Properties, frame_max: i64) -> None:
        """Put other properties over the same body."""
        self.content = content_with(self.content, self.channel, properties, frame_max)

    def changed(self, origin: Origin, properties: Properties, frame_max: i64) -> Message:
        """The same body under other properties, exchange or keys. What the path knows of it goes along."""
        return self.carrying(origin, content_with(self.content, self.channel, properties, frame_max))

    def carrying(self, origin: Origin, content: bytes) -> Message:
        """The same body in a content that differs in its properties."""
        message = Message(origin, content, self.channel, self.body_size)
        message.persistent = self.persistent
        message.priority = self.priority
        message.ttl = self.ttl
        return message


def content_with(content: bytes, channel: i64, properties: Properties, frame_max: i64) -> bytes:
    """A content with other properties, framed for a channel."""
    return content_frames(channel, encode_properties(properties), body_of(content), frame_max)
