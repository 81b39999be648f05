"""Extension points in Python: what a plug-in may change, add or hear.

Each is a class named in the configuration as "package.module:Class" and made once per node. Nothing is required of
it but the methods it overrides. Exchange decorators are in exchanges/base.py, beside what they decorate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from warren.amqp.constants import BASIC_PUBLISH
from warren.amqp.frames import body_of, content_frames, properties_span
from warren.amqp.methods import Method, decode_method, encode_method
from warren.broker.queue_settings import Kind

if TYPE_CHECKING:
    from warren.broker.channel import Channel
    from warren.broker.queue import Queue

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


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueDecorator:
    """Hears about the queues for which it is active. It must not publish from within."""

    def policy_keys(self) -> dict[str, Kind]:
        """Keys of its own that policies may hold, and what values they take. Asked once."""
        return {}

    def active_for(self, queue: Queue) -> bool:
        """Asked when the queue is made and when its `effective_policy` may have changed."""
        return True

    def startup(self, queue: Queue) -> None:
        """From now on it is active for this queue, which is new or has another policy."""

    def shutdown(self, queue: Queue) -> None:
        """No longer: the queue is gone or has another policy."""

    def policy_changed(self, queue: Queue) -> None:
        """The effective policy may have changed, and it stays active."""

    def consumer_state_changed(self, queue: Queue) -> None:
        """A consumer came or went, or an attempt to deliver has changed whether any of them can take more."""
