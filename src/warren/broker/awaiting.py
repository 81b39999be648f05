"""An answer that waits for the store to reach a position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from warren.broker.channel import Channel


class Awaiting:
    """The answer to a publish or a commit, by its number on the channel."""

    def __init__(self, position: i64, channel: Channel, seqno: i64) -> None:
        self.position: i64 = position
        self.channel = channel
        self.seqno: i64 = seqno

    def reached(self) -> None:
        self.channel.sync_reached(self.seqno)
