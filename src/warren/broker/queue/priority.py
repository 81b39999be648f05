"""A backing for x-max-priority: one ordinary backing per level, the highest non-empty level first."""

from __future__ import annotations

from mypy_extensions import i64

from warren.broker.message import Message
from warren.broker.queue.backing import Backing
from warren.broker.queue.browse import by_sequence
from warren.broker.queue.entry import Entry


class PriorityBacking(Backing):
    def __init__(self, levels: list[Backing]) -> None:
        super().__init__()
        # levels[p] holds priority p.
        self.levels = levels
        for level in levels:
            self.length += level.length
            self.body_bytes += level.body_bytes
            self.last_sequence = max(self.last_sequence, level.last_sequence)
            self.has_expiring = self.has_expiring or level.has_expiring
        self.recalled = levels[0].recalled

    def parts(self) -> list[Backing]:
        return self.levels

    def _level(self, message: Message) -> Backing:
        top: i64 = len(self.levels) - 1
        return self.levels[min(message.priority, top)]

    def _highest(self) -> Backing | None:
        for level in reversed(self.levels):
            if level.length > 0:
                return level
        return None

    def publish(self, entry: Entry) -> None:
        self._level(entry.message).publish(entry)
        self.length += 1
        self.body_bytes += entry.message.body_size

    def publish_delivered(self, entry: Entry) -> None:
        self._level(entry.message).publish_delivered(entry)

    def begin_together(self) -> None:
        self.levels[0].begin_together()

    def remember(self, key: bytes, number: i64) -> None:
        """By the lowest level for all, wherever messages of the queue are."""
        self.levels[0].remember(key, number)

    def peek(self) -> Entry | None:
        level = self._front()
        return None if level is None else level.peek()

    def fetch(self) -> Entry | None:
        level = self._front()
        entry = None if level is None else level.fetch()
        if entry is not None:
            self.length -= 1
            self.body_bytes -= entry.message.body_size
        return entry

    def _front(self) -> Backing | None:
        """The level whose turn it is. One that finds all it had lost leaves the turn to the next."""
        level = self._highest()
        while level is not None:
            length, body_bytes = level.length, level.body_bytes
            entry = level.peek()
            self._follow(level, length, body_bytes)
            if entry is not None:
                return level
            level = self._highest()
        return None

    def _follow(self, level: Backing, length: i64, body_bytes: i64) -> None:
        """What a level took or found lost leaves the sums as well."""
        self.length += level.length - length
        self.body_bytes += level.body_bytes - body_bytes

    def requeue(self, entry: Entry) -> None:
        self._level(entry.message).requeue(entry)
        self.length += 1
        self.body_bytes += entry.message.body_size

    def came_back(self, entry: Entry) -> None:
        self._level(entry.message).came_back(entry)

    def settle(self, entry: Entry) -> None:
        self._level(entry.message).settle(entry)

    def settle_to(self, sequence: i64, limit: i64) -> i64:
        count: i64 = 0
        for level in self.levels:
            length, body_bytes = level.length, level.body_bytes
            count += level.settle_to(sequence, limit - count)
            self._follow(level, length, body_bytes)
        return count

    def drop(self, limit: i64) -> i64:
        count: i64 = 0
        for level in self.levels:
            count += level.drop(limit - count)
        return count

    def snapshot(self, limit: i64) -> list[Entry]:
        entries: list[Entry] = []
        for level in reversed(self.levels):
            entries += level.snapshot(limit)
        return entries[:limit]

    def browse(self, after: i64, limit: i64) -> list[Entry]:
        """In order of publishing, not of delivery: a reader must be able to come back to where it was."""
        entries: list[Entry] = []
        for level in self.levels:
            entries += level.browse(after, limit)
        entries.sort(key=by_sequence)
        return entries[:limit]

    def take(self, sequence: i64) -> Entry | None:
        for level in self.levels:
            length, body_bytes = level.length, level.body_bytes
            entry = level.take(sequence)
            self._follow(level, length, body_bytes)
            if entry is not None:
                return entry
        return None
