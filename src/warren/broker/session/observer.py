"""A publish on its way, and who watches it: one word for each stage, said once it is over. Nothing is decided here.

publish.py says the words; watcher.py listens for journeys, the firehose and tracers, and Spark's message path for what
each queue did. A publish that nobody watches has no observer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from warren.broker.exchanges.base import Envelope, Exchange
from warren.broker.message import Message, Origin
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue
from warren.broker.queue.recipient import Recipient
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel

# The header by which a message asks for its own journey.
TRACE_HEADER: Final = b"x-warren-trace"


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    def intercepted(self, name: str, arguments: bytes, body_size: i64) -> None:
        """An extension has seen it, and let it go on like this."""

    def entering(self, arguments: bytes, content: bytes) -> bytes:
        """The checks begin. The content that goes on: a tracer may put its context into the headers."""
        return content

    def weighed(self, body_size: i64, limit: i64) -> None:
        """Not too large."""

    def may_write(self, exchange: str) -> None:
        """The user may write to an exchange of this name, which may or may not exist."""

    def found(self, exchange: Exchange) -> None:
        """It exists, and clients may publish to it."""

    def read(self, message: Message, message_id: str | None, seqno: i64) -> None:
        """What the path must know of the properties is known, and nothing is wrong with it."""

    def may_use_keys(self, exchange: Exchange, keys: list[str]) -> None:
        """Topic permission."""

    def may_claim(self, user_id: str) -> None:
        """The property user_id."""

    def routed(self, exchange: Exchange, message: Message, envelope: Envelope, queues: list[Queue]) -> None:
        """The exchanges have been asked."""

    def held(self) -> None:
        """It waits for tx.commit."""

    def committed(self) -> None:
        """It goes on to its queues."""

    def abandoned(self, how: str) -> None:
        """Its transaction came to nothing."""

    def queued(self, queue: Queue, outcome: i64) -> None:
        """One of its queues has spoken: see outcome.py."""

    def returned(self) -> None:
        """It goes back to its publisher."""

    def dropped(self) -> None:
        """No queue, and not mandatory."""

    def answered(self, seqno: i64, is_kept: bool) -> None:
        """All queues have spoken, and the publisher hears what they said; `is_kept`: once the disk has it."""

    def refused(self, error: AmqpError) -> None:
        """A check did not hold. Nothing comes after this."""


class Watching:
    """Who knows whether somebody wants to observe a publish. Here nobody does."""

    def changed(self) -> None:
        """Somebody began or ceased to watch."""

    def delivered(self, channel: Recipient, queue: Queue, entry: Entry) -> None:
        """A message goes to a consumer, and somebody wants to know."""

    def observer_of(self, channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> Observer | None:
        return None

    def observer_asked_by(
        self, extension: str, channel: Channel, arguments: bytes, content: bytes, body_size: i64
    ) -> Observer | None:
        """An interceptor has put the header that asks for the journey into the message."""
        return None


class Delivery:
    """A message on its way to queues: checked and routed, and nothing has happened yet."""

    def __init__(
        self,
        message: Message,
        exchange: Exchange,
        queues: list[Queue],
        mandatory: bool,
        seqno: i64,
        observer: Observer | None,
    ) -> None:
        self.message = message
        self.exchange = exchange
        self.queues = queues
        self.mandatory = mandatory
        # The publisher's sequence number on its channel; 0 = no confirm wanted.
        self.seqno: i64 = seqno
        self.observer = observer


class Target:
    """What one publish frame asks for, with its checks done."""

    def __init__(self, exchange: Exchange, origin: Origin, mandatory: bool) -> None:
        self.exchange = exchange
        self.origin = origin
        self.mandatory = mandatory
        # Where it leads when only the key decides; None when every message must be routed for itself.
        self.queues: list[Queue] | None = None
