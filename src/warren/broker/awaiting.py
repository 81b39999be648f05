"""Something that waits for the store to reach a position: nothing is promised, or given up, before it is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from warren.broker.channel import Channel


class Awaiting:
    def __init__(self, position: i64) -> None:
        self.position: i64 = position

    def reached(self) -> None:
        raise NotImplementedError


class AwaitingAnswer(Awaiting):
    """The answer to a publish or a commit, by its number on the channel."""

    def __init__(self, position: i64, channel: Channel, seqno: i64) -> None:
        super().__init__(position)
        self.channel = channel
        self.seqno: i64 = seqno

    def reached(self) -> None:
        self.channel.sync_reached(self.seqno)
