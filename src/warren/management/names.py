"""Names that are put together for the API: of channels, and of bindings within a URL."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import quote_plus

from warren.amqp.tables import encode_table
from warren.broker.exchanges.base import Binding
from warren.broker.session.channel import Channel


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def properties_key(binding: Binding) -> str:
    """What tells a binding from others between the same two: its key, and a digest of its arguments if any."""
    # The tilde parts the two, and alone stands for no key.
    key = quote_plus(binding.routing_key, safe="", errors="surrogateescape").replace("~", "%7E")
    if not binding.arguments:
        return key or "~"
    digest = hashlib.sha256(encode_table(binding.arguments)).digest()[:5]
    return f"{key}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
