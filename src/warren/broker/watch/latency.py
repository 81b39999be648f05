"""How long messages wait: now and then one is followed from the read that brought it to the write that delivers it.

Somebody who looks at the broker asks for a sample. The next publishes then take the watched way, until one of them has
come to a queue with consumers, and its delivery is looked for. All others pay nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from warren.broker.queue.entry import Entry
    from warren.broker.queue.queue import Queue
    from warren.broker.session.house import House

# Publishes that are looked at for one sample: those to queues without consumers show nothing.
_TRIES: Final[i64] = 20
# Followed at the same time, and for how long: an expired or purged message is never delivered.
_MOST: Final = 8
_NANOSECONDS_MAX: Final[i64] = 60_000_000_000


class _Followed:
    def __init__(self, queue: Queue, start: i64) -> None:
        self.queue = queue
        self.sequence: i64 = queue.newest() + 1
        self.start: i64 = start


class Latency:
    def __init__(self, node: House) -> None:
        self._node = node
        # Publishes that may still become the sample that was asked for.
        self.wanted: i64 = 0
        self.followed: list[_Followed] = []
        # How many samples there were, and the latest.
        self.samples: i64 = 0
        self.latest: i64 = 0

    def ask(self) -> None:
        now = self._node.host.stopwatch()
        self.followed = [
            each for each in self.followed if now - each.start < _NANOSECONDS_MAX and each.queue.consumers.count > 0
        ]
        if len(self.followed) < _MOST:
            self.wanted = _TRIES
        self._node.watching_changed()

    def follow(self, queues: list[Queue], start: i64) -> None:
        """Before it goes into these queues."""
        self.wanted -= 1
        for queue in queues:
            if queue.consumers.count > 0 and not queue.keeps_all and not queue.deleted:
                self.followed.append(_Followed(queue, start))
                self.wanted = 0
                break
        self._node.watching_changed()

    def delivered(self, queue: Queue, entry: Entry) -> None:
        for each in self.followed:
            if each.queue is queue and each.sequence == entry.sequence:
                self.samples += 1
                self.latest = self._node.host.stopwatch() - each.start
                self.followed.remove(each)
                self._node.watching_changed()
                return

    def waiting(self) -> i64:
        """How long the one that waits longest has been waiting; -1 when none is followed."""
        if not self.followed:
            return -1
        now = self._node.host.stopwatch()
        longest: i64 = 0
        for each in self.followed:
            longest = max(longest, now - each.start)
        return longest
