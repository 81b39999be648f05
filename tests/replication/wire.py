"""Messages between nodes as bytes, where tests have no socket between them."""

from __future__ import annotations

from collections.abc import Iterable

from warren.replication.messages import PeerMessage, Splitter


def heard(pieces: Iterable[bytes]) -> PeerMessage:
    """The message that was sent in these pieces."""
    (message,) = Splitter().feed(b"".join(pieces))
    return message
