"""Optional deduplication: a message whose id was seen within the window is answered but not queued again.

Arguments of the queue: x-message-deduplication (true), x-cache-size, x-cache-ttl (ms), and x-deduplication-header,
the name of the header that carries the id (the same name by default).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.broker.message import Message
from warren.broker.rules.queue_settings import integer

_DEFAULT_SIZE: Final = 1000
# More than a batch of a pipeline has, because that is what may come again.
_RESULTS_SIZE: Final = 200_000
_DEFAULT_HEADER: Final = "x-deduplication-header"


class Deduplication:
    def __init__(self, size: i64, ttl: i64, header: str) -> None:
        self.size: i64 = size
        # -1: an id is forgotten only when newer ones push it out.
        self.ttl: i64 = ttl
        self.header = header
        # Oldest first, because a dict keeps the order of insertion.
        self._seen: dict[object, int] = {}
        # Those that the disk does not answer for yet, with the position of the store at which it does.
        self._unsynced: deque[tuple[int, object]] = deque()

    @staticmethod
    def of(arguments: Table) -> Deduplication | None:
        switch = arguments.get("x-message-deduplication")
        if switch is None or not switch.value:
            return None
        size = arguments.get("x-cache-size")
        ttl = arguments.get("x-cache-ttl")
        header = arguments.get("x-deduplication-header")
        return Deduplication(
            _DEFAULT_SIZE if size is None else integer(size),
            -1 if ttl is None else integer(ttl),
            _DEFAULT_HEADER if header is None else str(header.value),
        )

    @staticmethod
    def of_results() -> Deduplication:
        """For what a pipeline publishes."""
        return Deduplication(_RESULTS_SIZE, -1, _DEFAULT_HEADER)

    def identity_of(self, message: Message) -> object:
        """What the message is known by; None when it does not say."""
        headers = message.properties().headers
        field = None if headers is None else headers.get(self.header)
        if field is None or not isinstance(field.value, (str, bytes, int)):
            return None
        return field.value

    def has_seen(self, identity: object, now: i64) -> bool:
        self._forget_old(now)
        return identity in self._seen

    def note(self, identity: object, now: i64, position: i64, synced: i64) -> None:
        """The queue has taken the message in, which makes the store durable up to `position` answer for it."""
        self._seen[identity] = now
        if len(self._seen) > self.size:
            del self._seen[next(iter(self._seen))]
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= synced:
            unsynced.popleft()
        if position > synced:
            unsynced.append((position, identity))

    def forget_unsynced(self, synced: i64) -> None:
        """The queue failed, so what was not durable was nacked and will come again: it must not be taken for a
        duplicate of what is lost."""
        while self._unsynced:
            position, identity = self._unsynced.popleft()
            if position > synced:
                self._seen.pop(identity, None)

    def remembered(self) -> list[tuple[object, int]]:
        """The ids and when each was seen, oldest first: what `remember` takes back."""
        return list(self._seen.items())

    def remember(self, seen: list[tuple[object, int]]) -> None:
        for identity, at in seen:
            self._seen[identity] = at

    def _forget_old(self, now: i64) -> None:
        if self.ttl < 0:
            return
        while self._seen:
            oldest = next(iter(self._seen))
            if self._seen[oldest] + self.ttl > now:
                return
            del self._seen[oldest]
