"""Optional deduplication: a message whose id was seen within the window is answered but not queued again.

What was kept on disk is remembered over a restart as its message is (Backing.remember): both are there or neither is.
Arguments of the queue: x-message-deduplication (true), x-cache-size, x-cache-ttl (ms), and x-deduplication-header,
the name of the header that carries the id (the same name by default).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from warren.amqp.constants import DEDUPLICATION_HEADER
from warren.amqp.fields import Table
from warren.broker.message import Message
from warren.broker.rules.setting_kinds import integer

_DEFAULT_SIZE: Final = 1000
# More than a batch of a pipeline has, because that is what may come again.
_RESULTS_SIZE: Final = 200_000


class Deduplication:
    def __init__(self, size: i64, ttl: i64, header: str) -> None:
        self.size: i64 = size
        # -1: an id is forgotten only when newer ones push it out.
        self.ttl: i64 = ttl
        self.header = header
        # Oldest first, because a dict keeps the order of insertion.
        self._seen: dict[bytes, int] = {}
        # Those whose messages no disk has: a restart takes both.
        self._transient: dict[bytes, bool] = {}
        # Those that the disk does not answer for yet, with the position of the store at which it does.
        self._unsynced: deque[tuple[int, bytes]] = deque()

    @staticmethod
    def of(arguments: Table) -> Deduplication | None:
        switch = arguments.get("x-message-deduplication")
        if switch is None or not switch.value:
            return None
        size = arguments.get("x-cache-size")
        ttl = arguments.get("x-cache-ttl")
        header = arguments.get(DEDUPLICATION_HEADER)
        return Deduplication(
            _DEFAULT_SIZE if size is None else integer(size),
            -1 if ttl is None else integer(ttl),
            DEDUPLICATION_HEADER if header is None else str(header.value),
        )

    @staticmethod
    def of_results() -> Deduplication:
        """For what a pipeline publishes."""
        return Deduplication(_RESULTS_SIZE, -1, DEDUPLICATION_HEADER)

    def identity_of(self, message: Message) -> bytes | None:
        """What the message is known by; None when it does not say."""
        headers = message.properties().headers
        field = None if headers is None else headers.get(self.header)
        if field is None or not isinstance(field.value, (str, bytes, int)):
            return None
        return key_of(field.value)

    def has_seen(self, identity: bytes, now: i64) -> bool:
        self._forget_old(now)
        return identity in self._seen

    def note(self, identity: bytes, now: i64, position: i64, synced: i64) -> None:
        """The queue has taken the message in, which makes the store durable up to `position` answer for it."""
        self._add(identity, now)
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
                self._forget(identity)

    def note_transient(self, identity: bytes) -> None:
        self._transient[identity] = True

    def remembered(self) -> list[tuple[bytes, int]]:
        """The ids and when each was seen, oldest first: what `remember` takes back."""
        return list(self._seen.items())

    def remember(self, seen: list[tuple[bytes, int]]) -> None:
        for identity, at in seen:
            self._add(identity, at)

    def recall(self, recalled: dict[bytes, int]) -> None:
        """What the store has kept is taken out of what it has. A window that is full lets some of it go."""
        self.remember(list(recalled.items()))
        recalled.clear()

    def notes(self) -> list[tuple[bytes, int]]:
        """What `recall` takes back after a restart."""
        if not self._transient:
            return self.remembered()
        return [(identity, at) for identity, at in self._seen.items() if identity not in self._transient]

    def _add(self, identity: bytes, at: i64) -> None:
        self._seen[identity] = at
        if len(self._seen) > self.size:
            self._forget(next(iter(self._seen)))

    def _forget(self, identity: bytes) -> None:
        self._seen.pop(identity, None)
        if self._transient:
            self._transient.pop(identity, None)

    def _forget_old(self, now: i64) -> None:
        if self.ttl < 0:
            return
        while self._seen:
            oldest = next(iter(self._seen))
            if self._seen[oldest] + self.ttl > now:
                return
            self._forget(oldest)


def key_of(identity: object) -> bytes:
    """As windows and the store have it. The same text of another type is another id; `p` is taken (publishers.py)."""
    if isinstance(identity, bytes):
        return b"b" + identity
    if isinstance(identity, int):
        return b"i" + str(int(identity)).encode()
    return b"s" + str(identity).encode("utf-8", "surrogateescape")
