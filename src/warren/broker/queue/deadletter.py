"""Dead letters: what leaves a queue unwanted, and waits here until the operation that killed it is over.

They are never republished within that operation, so that a chain of full queues is a loop and not a recursion.
burial.py sends them on.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from warren.broker.world import Host

if TYPE_CHECKING:
    from warren.broker.queue.entry import Entry
    from warren.broker.queue.queue import Queue

REASON_REJECTED: Final = "rejected"
REASON_EXPIRED: Final = "expired"
REASON_MAXLEN: Final = "maxlen"
REASON_DELIVERY_LIMIT: Final = "delivery_limit"


class DeadLetter:
    def __init__(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        self.queue = queue
        self.entry = entry
        self.reason = reason
        # False for a message that was refused at the door and never was in the queue.
        self.stored = stored


@mypyc_attr(allow_interpreted_subclasses=True)
class DeathListener:
    """Hears of every dead letter before it is republished: the message path on Spark keeps the books of them."""

    def died(self, letter: DeadLetter) -> None:
        pass


class DeadLetters:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.waiting: deque[DeadLetter] = deque()
        self.listener: DeathListener | None = None
        # Those that were republished, by type of queue and reason.
        self.counted: dict[tuple[str, str], int] = {}

    def add(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        letter = DeadLetter(queue, entry, reason, stored)
        self.waiting.append(letter)
        if self.listener is not None:
            self.listener.died(letter)
        self._host.wake()
