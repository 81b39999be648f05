"""A backing: the ready messages of one queue, in order. This one has them in memory; the store has one on disk."""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64, mypyc_attr

from warren.broker.message import Message
from warren.broker.queue.browse import take_waiting, waiting_after
from warren.broker.queue.entry import Entry
from warren.broker.queue.entry_rows import ROW, EntryRows


@mypyc_attr(allow_interpreted_subclasses=True)
class Backing:
    """The ready messages of one queue, in order of their sequence."""

    def __init__(self) -> None:
        self.length: i64 = 0
        self.body_bytes: i64 = 0
        # The highest sequence that the store has seen in this queue; a recovered queue counts on from it.
        self.last_sequence: i64 = 0
        # Something that was recovered expires at some time.
        self.has_expiring = False
        self._entries: deque[Entry] = deque()
        # Behind the last of those, where all is in memory.
        self._behind = EntryRows()
        # What came back. Always older than the newest entry, seldom more than a few.
        self._returned = EntryRows()
        # How many of `length` are not in memory: all of them behind the last of those that never left.
        self.paged: i64 = 0
        # What the store has kept by `remember`, the oldest first, until the queue asks for it.
        self.recalled: dict[bytes, int] = {}

    def parts(self) -> list[Backing]:
        """What it is made of, as the store opened it."""
        return [self]

    def load(self) -> None:
        """Bring some of what is paged out back to memory, or find that it is lost."""

    def publish(self, entry: Entry) -> None:
        if self._behind.count > 0 or len(self._entries) >= ROW:
            self._behind.append(entry)
        else:
            self._entries.append(entry)
        self.length += 1
        self.body_bytes += entry.message.body_size

    def publish_delivered(self, entry: Entry) -> None:
        """It went straight to a consumer who owes an ack: remember it for a crash, not for fetch."""

    def discard(self, message: Message) -> None:
        """It went straight through, or nowhere: there is nothing to remember."""

    def begin_together(self) -> None:
        """What is published from now on survives a crash only with all that is remembered until the turn ends."""

    def remember(self, key: bytes, number: i64) -> None:
        """Keep a number under a key, for as long as the queue is there and says so (Queue.notes)."""

    def peek(self) -> Entry | None:
        if not self._entries:
            self._refill()
        entries = self._entries
        returned = self._returned
        if returned.count > 0 and (not entries or returned.first().sequence < entries[0].sequence):
            return returned.first()
        if entries:
            return entries[0]
        self._nothing_left()
        return None

    def _refill(self) -> None:
        if self._behind.count > 0:
            self._entries.extend(self._behind.take_row())
        elif self.paged > 0:
            self.load()

    def _nothing_left(self) -> None:
        self.length = 0
        self.body_bytes = 0

    def fetch(self) -> Entry | None:
        """Take the head. None when nothing is there, also if `length` said otherwise: it may have been lost."""
        if not self._entries:
            self._refill()
        returned = self._returned
        if returned.count > 0 and (not self._entries or returned.first().sequence < self._entries[0].sequence):
            entry = returned.pop_first()
        elif self._entries:
            entry = self._entries.popleft()
        else:
            self._nothing_left()
            return None
        self.length -= 1
        self.body_bytes -= entry.message.body_size
        return entry

    def requeue(self, entry: Entry) -> None:
        """Back to its original position."""
        self._returned.insert(entry)
        self.length += 1
        self.body_bytes += entry.message.body_size

    def came_back(self, entry: Entry) -> None:
        """One more time: remember for a crash how often that makes. Before it is put back, or waits for that."""

    def settle(self, entry: Entry) -> None:
        """Acked, dropped or dead-lettered: it never comes back."""

    def settle_to(self, sequence: i64, limit: i64) -> i64:
        """Settle what is ready up to this sequence. Looks at `limit` at most, at fewer only when no more are left."""
        count: i64 = 0
        while count < limit:
            head = self.peek()
            if head is None or head.sequence > sequence:
                break
            self.fetch()
            self.settle(head)
            count += 1
        return count

    def drop(self, limit: i64) -> i64:
        """The queue is gone: give back the memory of so many."""
        count = self._behind.drop(limit)
        count += self._returned.drop(limit - count)
        while self._entries and count < limit:
            self._entries.pop()
            count += 1
        return count

    def snapshot(self, limit: i64) -> list[Entry]:
        """The first `limit` entries in the order of delivery, without taking them."""
        return self.browse(0, limit)

    def browse(self, after: i64, limit: i64) -> list[Entry]:
        """Entries behind the sequence `after`, in order and at most `limit`, without taking them."""
        return waiting_after(self._entries, [self._returned, self._behind], after, limit)

    def take(self, sequence: i64) -> Entry | None:
        """One out of the middle, for good: whoever takes it settles it before the turn ends."""
        entry = take_waiting(self._entries, sequence)
        if entry is None:
            entry = self._behind.take(sequence)
        if entry is None:
            entry = self._returned.take(sequence)
        if entry is not None:
            self.length -= 1
            self.body_bytes -= entry.message.body_size
        return entry

    def expiries(self, after: i64, limit: i64) -> list[tuple[int, int]]:
        """Of those behind the sequence `after`, in order and at most `limit`: when each expires, and its sequence."""
        waiting = waiting_after(self._entries, [self._returned, self._behind], after, limit)
        return [(entry.expires_at, entry.sequence) for entry in waiting]
