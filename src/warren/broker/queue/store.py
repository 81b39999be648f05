"""The store interface, and the store that forgets: what queues ask of whoever keeps their messages.

A queue owns one Backing, a stream one StreamLog. The broker asks the Store one more thing: has everything so far
reached the disk? `position` grows with every change; once `synced` has caught up with it, the change is durable.
The classes here keep messages in memory, so everything is as durable as it will ever be at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from warren.broker.queue.backing import Backing
from warren.broker.queue.errands import Errand
from warren.broker.queue.settling import Dropping
from warren.broker.queue.stream_log import MemoryStreamLog, StreamLog

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Store:
    def __init__(self) -> None:
        self.position: i64 = 0
        self.synced: i64 = 0
        # Where it is copied to other nodes: the position at which what was delivered would be known there to have been.
        self.delivered_at: i64 = 0
        # Whether there are files that an archive can be made of.
        self.can_archive = False

    def open(self, queue: Queue, level: i64) -> Backing:
        """The backing of a new or recovered queue; a queue with priorities has one per level."""
        return Backing()

    def open_stream(self, queue: Queue) -> StreamLog:
        """The log of a new or recovered stream."""
        return MemoryStreamLog()

    def take_committed(self) -> list[Queue]:
        """The streams of which more may be read since this was last asked."""
        return []

    def take_errands(self) -> list[Errand]:
        """What it has to do itself since this was last asked."""
        return []

    def release(self, queue: Queue) -> None:
        """The queue failed: what is in memory of it is not to be trusted, and it will be opened anew."""

    def delete(self, queue: Queue) -> Errand:
        """The queue is gone, with all it held. What is left to do about it is an errand."""
        return Dropping(queue.backing)

    def write(self) -> None:
        """Hand everything so far to the operating system: called before anything goes out on a socket."""

    def is_swamped(self) -> bool:
        """True while it is so far behind that nothing more should come at all."""
        return False

    def is_behind(self) -> bool:
        """True while the disk cannot follow: queues then stop granting credit."""
        return False
