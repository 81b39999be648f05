"""What waits in queues, with a bound on memory: past it, the tail of a long queue goes to a temporary file.

Heads stay in memory, so that limits and TTL find them at once. The file only grows and goes with its task.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from typing import IO, Any, Final, Protocol

from warren.broker.message import Message, Origin
from warren.broker.queue.backing import Backing
from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Errand
from warren.broker.queue.queue import Queue
from warren.broker.queue.store import Store

# Entries in memory, in all queues of a task together; about half a kilobyte each.
IN_MEMORY: Final = 200_000
# A queue shorter than this is not worth a file, and entries come back in pieces of at most this size.
CHUNK: Final = 1_000

Row = tuple[Any, ...]


class EntryListener(Protocol):
    """Hears what happens to the entries of a queue."""

    def entered(self, queue: Queue, entry: Entry) -> None: ...

    def discarded(self, queue: Queue, message: Message) -> None: ...

    def settled(self, queue: Queue, entry: Entry) -> None: ...

    def deleted(self, queue: Queue) -> None: ...


class SpillingStore(Store):
    def __init__(self, listener: EntryListener, in_memory: int) -> None:
        super().__init__()
        self.listener = listener
        self.in_memory = in_memory
        self.chunk = min(CHUNK, max(1, in_memory // 4))
        self.held = 0
        self.spilled = 0
        self._file: IO[bytes] | None = None
        self._origins: dict[tuple[str, tuple[str, ...], int], Origin] = {}

    def open(self, queue: Queue, level: int) -> Backing:
        return SpillingBacking(self, queue)

    def delete(self, queue: Queue) -> Errand:
        self.listener.deleted(queue)
        return super().delete(queue)

    def write_chunk(self, rows: list[Row]) -> tuple[int, int]:
        """Where it is and how long."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="warren-path-")  # noqa: SIM115 - lives as long as the store
        data = pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)
        at = self._file.seek(0, 2)
        self._file.write(data)
        self.spilled += len(rows)
        return at, len(data)

    def read_chunk(self, at: int, size: int) -> list[Row]:
        assert self._file is not None
        self._file.seek(at)
        rows: list[Row] = pickle.loads(self._file.read(size))  # noqa: S301 - our own file, which has no name
        return rows

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def entry_of(self, queue: Queue, row: Row) -> Entry:
        """The entry that `row_of` took apart."""
        exchange, keys, hidden, content, channel, body_size, persistent, priority, ttl = row[:9]
        origin = self._origins.get((exchange, keys, hidden))
        if origin is None:
            if len(self._origins) >= 100_000:
                self._origins.clear()
            origin = Origin(exchange, list(keys), hidden)
            self._origins[(exchange, keys, hidden)] = origin
        message = Message(origin, content, channel, body_size)
        message.persistent, message.priority, message.ttl = persistent, priority, ttl
        sequence, expires_at, redelivered, returns = row[9:]
        entry = Entry(message, queue, sequence, expires_at)
        entry.redelivered, entry.returns = redelivered, returns
        return entry


def row_of(entry: Entry) -> Row:
    message = entry.message
    origin = message.origin
    return (
        origin.exchange, tuple(origin.keys), origin.hidden, message.content, message.channel, message.body_size,
        message.persistent, message.priority, message.ttl,
        entry.sequence, entry.expires_at, entry.redelivered, entry.returns,
    )  # fmt: skip


class SpillingBacking(Backing):
    def __init__(self, store: SpillingStore, queue: Queue) -> None:
        super().__init__()
        self._store = store
        self._queue = queue
        # Behind what is in memory: chunks in the file, then what will be the next of them.
        self._chunks: deque[tuple[int, int]] = deque()
        self._tail: list[Row] = []

    def publish(self, entry: Entry) -> None:
        store = self._store
        store.listener.entered(self._queue, entry)
        # Whoever wants to take one out of the middle needs all of them.
        has_room = store.held < store.in_memory or len(self._entries) < store.chunk
        if (has_room and self.paged == 0) or self._queue.options.exact_ttl:
            store.held += 1
            # Not super(), which takes longer than what it leads to.
            Backing.publish(self, entry)
            return
        self._tail.append(row_of(entry))
        self.paged += 1
        self.length += 1
        self.body_bytes += entry.message.body_size
        if len(self._tail) >= self._store.chunk:
            self._chunks.append(self._store.write_chunk(self._tail))
            self._tail = []

    def publish_delivered(self, entry: Entry) -> None:
        self._store.listener.entered(self._queue, entry)

    def discard(self, message: Message) -> None:
        self._store.listener.discarded(self._queue, message)

    def load(self) -> None:
        if self._chunks:
            rows = self._store.read_chunk(*self._chunks.popleft())
        else:
            rows, self._tail = self._tail, []
        self.paged -= len(rows)
        self._store.held += len(rows)
        self._entries.extend(self._store.entry_of(self._queue, row) for row in rows)

    def fetch(self) -> Entry | None:
        entry = Backing.fetch(self)
        if entry is not None:
            self._store.held -= 1
        return entry

    def take(self, sequence: int) -> Entry | None:
        entry = super().take(sequence)
        if entry is not None:
            self._store.held -= 1
        return entry

    def requeue(self, entry: Entry) -> None:
        self._store.held += 1
        super().requeue(entry)

    def settle(self, entry: Entry) -> None:
        self._store.listener.settled(self._queue, entry)
