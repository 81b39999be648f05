"""An interceptor that says when, and by which broker, a message was received.

In warren.toml: interceptors = ["warren.extensions.stamp:Stamp"]
"""

from __future__ import annotations

from warren.amqp.fields import Field
from warren.amqp.properties import decode_properties, encode_properties
from warren.extend import Channel, Interceptor

HEADER = "x-received-by"


class Stamp(Interceptor):
    """Sets `timestamp` where the publisher set none, and always the header, so that it can be believed."""

    def applies_to(self) -> list[str]:
        return ["basic.publish"]

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        node = channel.connection.node
        stamped = decode_properties(properties, 0, len(properties))
        if stamped.timestamp is None:
            stamped.timestamp = node.wall_seconds()
        stamped.headers = {**(stamped.headers or {}), HEADER: Field("S", node.settings.node_name)}
        return encode_properties(stamped), body
