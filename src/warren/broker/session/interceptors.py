"""Extension point: what a plug-in may change or refuse before a channel handles it.

It is a class named in the configuration as "package.module:Class" and made once per node. Nothing is required of it
but the methods it overrides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from warren.amqp.constants import BASIC_PUBLISH
from warren.amqp.frames import body_of, content_frames, properties_span
from warren.amqp.methods import Method, decode_method, encode_method

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel

PUBLISH: Final = "basic.publish"


@mypyc_attr(allow_interpreted_subclasses=True)
class Interceptor:
    """Sees a client's method before the channel handles it."""

    def applies_to(self) -> list[str]:
        """Names of the methods it wants, such as "queue.declare". One method has at most one interceptor."""
        return []

    def intercept(self, channel: Channel, method: Method) -> Method:
        """Return the method, changed in place or replaced by one of its own kind; raise an AmqpError to refuse it."""
        return method

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        """basic.publish only: the encoded properties (flags and values) and the body that go on."""
        return properties, body


def intercept_publish(channel: Channel, arguments: bytes, content: bytes) -> tuple[bytes, bytes, i64]:
    """Takes a publish apart for its interceptor and puts together what comes back."""
    interceptor = channel.connection.node.interceptors[PUBLISH]
    method = interceptor.intercept(channel, decode_method(BASIC_PUBLISH, arguments, 0, len(arguments)))
    start, end = properties_span(content)
    properties, body = interceptor.intercept_content(channel, content[start:end], body_of(content))
    frame_max = channel.connection.frame_max
    return encode_method(method), content_frames(channel.number, properties, body, frame_max), len(body)
