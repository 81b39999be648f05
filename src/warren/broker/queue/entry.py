"""A message's place in one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.fields import Field, Table
from warren.broker.message import Message, content_with

if TYPE_CHECKING:
    from warren.broker.queue.consumer import Consumer
    from warren.broker.queue.queue import Queue


class Entry:
    def __init__(self, message: Message, queue: Queue, sequence: i64, expires_at: i64) -> None:
        self.message = message
        self.queue = queue
        # Position in the queue: grows with every publish, and a requeued message goes back to its own.
        self.sequence: i64 = sequence
        # Milliseconds of Node.now; NEVER = does not expire.
        self.expires_at: i64 = expires_at
        self.redelivered = False
        # How often it was handed out and came back (x-delivery-count of quorum queues).
        self.returns: i64 = 0
        # It came back because its consumer said so, not because its consumer went away.
        self.failed = False
        # Where the store keeps it; 0 = nowhere.
        self.address: i64 = 0
        # Who holds it unacked; None while it waits, and after basic.get.
        self.consumer: Consumer | None = None
        # It is with a browser; the queue has the message itself.
        self.is_copy = False
        # Its queue failed while a client held it, and began anew without it.
        self.lost = False

    def is_gone(self) -> bool:
        """Whatever its holder says about it, nobody is left to hear it."""
        return self.lost or self.queue.deleted

    def is_counted(self) -> bool:
        """Whether whoever gets it now is told how often it came back."""
        return self.returns > 0 and self.queue.type == "quorum"

    def counted_content(self, channel: i64, frame_max: i64) -> bytes:
        """The content with x-delivery-count, framed for one channel."""
        properties = self.message.properties()
        headers: Table = {} if properties.headers is None else properties.headers
        headers["x-delivery-count"] = Field("l", self.returns)
        properties.headers = headers
        return content_with(self.message.content, channel, properties, frame_max)
