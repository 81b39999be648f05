"""A lane: the messages of one queue (or of one priority level of it) in the log, with the head of them in memory.

What is persistent in a durable queue is in the log from the start. Once the head is long enough, everything that
follows is only in the log, persistent or not, and comes back in batches as the head is consumed: a backlog costs disk
and not memory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import Message, short
from warren.broker.queue.backing import Backing
from warren.broker.queue.browse import by_sequence
from warren.broker.queue.entry import Entry
from warren.store.browse import READ_GAP, find_paged, paged_after, paged_rows
from warren.store.format import has_place, read_message, record_at
from warren.store.segment import ROW_SIZE, LaneRun, Row, Segment

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.store.log import LogStore

# A queue keeps this much in memory (LogStore.head_entries of messages); less when all queues together keep a lot.
HEAD_BYTES: Final[i64] = 8 * 1024 * 1024
CROWDED_ENTRIES: Final[i64] = 256
CROWDED_BYTES: Final[i64] = 65536
# One batch read back (at most LogStore.load_rows of messages).
LOAD_BYTES: Final[i64] = 1024 * 1024
# Deliveries are noted ahead of time by this many, so that one record serves many.
WATERMARK_STEP: Final[i64] = 1024
_ERROR: Final = 40


class Cursor:
    """How far a run has been brought back to memory. Its rows ascend, but runs may interleave after compaction."""

    def __init__(self, segment: Segment, run: LaneRun, next_row: i64, next_sequence: i64) -> None:
        self.segment = segment
        self.run = run
        self.next_row: i64 = next_row
        # Of the row at next_row.
        self.next_sequence: i64 = next_sequence


def by_next_sequence(cursor: Cursor) -> int:
    return cursor.next_sequence


def _by_sequence(expiry: tuple[int, int]) -> int:
    return expiry[1]


class Lane(Backing):
    def __init__(self, store: LogStore, number: i64, queue: Queue, level: i64) -> None:
        super().__init__()
        self.store = store
        self.number: i64 = number
        self.queue = queue
        self.level: i64 = level
        self.durable = queue.durable
        # Sorted by what they would read next. Everything from the first one's next sequence on is not in memory.
        self.cursors: list[Cursor] = []
        # The segment in which the log last said what this lane is.
        self.announced_in: i64 = 0
        self.has_entries = False
        # Everything up to here may have been delivered once: after a crash it is marked as redelivered.
        self.watermark: i64 = 0
        self.recovered_watermark: i64 = 0
        # How often those came back that did and are not settled, by sequence.
        self.returned: dict[int, int] = {}
        self._head_bytes: i64 = 0
        # Taken out of the paged part by their sequence, and not settled yet.
        self.taken: dict[int, bool] = {}

    def payload(self) -> bytes:
        """What the log says of it: see RecoveredLane."""
        queue = self.queue
        facts = struct.pack(">IBBQ", self.number, self.level, 1 if self.durable else 0, self.watermark)
        return facts + short(queue.vhost) + short(queue.name) + short(queue.incarnation)

    # -- in --------------------------------------------------------------------------------------------------------

    def publish(self, entry: Entry) -> None:
        message = entry.message
        self.length += 1
        self.body_bytes += message.body_size
        if self.paged > 0 or self._is_head_full():
            self.store.add(self, entry)
            self._page(entry)
            return
        if self.durable and message.persistent:
            self.store.add(self, entry)
        self._entries.append(entry)
        self._head_grew(len(message.content))

    def publish_delivered(self, entry: Entry) -> None:
        if self.durable and entry.message.persistent:
            self.store.add(self, entry)
            self._note_delivery(entry)

    def begin_together(self) -> None:
        if self.durable:
            self.store.pending.begin_together()

    def remember(self, key: bytes, number: i64) -> None:
        if self.durable:
            self.store.remember(self, key, number)

    def _is_head_full(self) -> bool:
        if self.store.is_crowded():
            return len(self._entries) >= CROWDED_ENTRIES or self._head_bytes >= CROWDED_BYTES
        return len(self._entries) >= self.store.head_entries or self._head_bytes >= HEAD_BYTES

    def _head_grew(self, size: i64) -> None:
        self._head_bytes += size
        self.store.head_bytes += size

    def _page(self, entry: Entry) -> None:
        """The entry lives on in the log only. Its row is the next of the run that is being written."""
        self.paged += 1
        segment = self.store.active
        run = segment.open_run(self.number)
        if not self.cursors or self.cursors[-1].run is not run:
            self.cursors.append(Cursor(segment, run, run.count, entry.sequence))

    # -- out -------------------------------------------------------------------------------------------------------

    def fetch(self) -> Entry | None:
        waiting = self._returned.count
        entry = super().fetch()
        if entry is None:
            return None
        if self._returned.count == waiting:
            self._head_grew(-len(entry.message.content))
        if entry.address != 0:
            self._note_delivery(entry)
        return entry

    def _note_delivery(self, entry: Entry) -> None:
        if entry.sequence > self.watermark:
            self.watermark = entry.sequence + WATERMARK_STEP
            self.store.note_watermark(self)

    def came_back(self, entry: Entry) -> None:
        if entry.address != 0 and self.durable and entry.message.persistent:
            self.returned[entry.sequence] = entry.returns
            self.store.note_return(self.number, entry.sequence, entry.returns)

    def settle(self, entry: Entry) -> None:
        if entry.address != 0:
            self.store.settle(entry.address)
            if self.taken:
                self.taken.pop(entry.sequence, None)
            if self.returned:
                self.returned.pop(entry.sequence, None)

    def browse(self, after: i64, limit: i64) -> list[Entry]:
        found = super().browse(after, limit)
        if self.paged == 0 or (len(found) >= limit and found[-1].sequence < self.first_paged()):
            return found
        found += paged_after(self, after, limit)
        if self.paged == 0:
            # The last of them were found lost.
            self.cursors.clear()
        found.sort(key=by_sequence)
        return found[:limit]

    def take(self, sequence: i64) -> Entry | None:
        waiting = self._returned.count
        entry = super().take(sequence)
        if entry is not None:
            if self._returned.count == waiting:
                self._head_grew(-len(entry.message.content))
            return entry
        if self.paged == 0:
            return None
        entry = find_paged(self, sequence)
        if entry is not None:
            self.taken[sequence] = True
            self.paged -= 1
            self.length -= 1
            self.body_bytes -= entry.message.body_size
        return entry

    def expiries(self, after: i64, limit: i64) -> list[tuple[int, int]]:
        found = super().expiries(after, limit)
        if self.paged == 0 or (len(found) >= limit and found[-1][1] < self.first_paged()):
            return found
        found += [(place.row.expires_at, place.row.sequence) for place in paged_rows(self, after, limit)]
        found.sort(key=_by_sequence)
        return found[:limit]

    def load(self) -> None:
        while self.paged > 0 and not self._entries:
            if not self.cursors:
                # Counted but nowhere to be found: damage that was reported when the log was read.
                self.paged = 0
                self.length = self._returned.count
                left = self._returned.after(0, self.length)
                self.body_bytes = sum([entry.message.body_size for entry in left])
                return
            self._load_from(self.cursors[0])
        if self.paged == 0:
            self.cursors.clear()

    def _load_from(self, cursor: Cursor) -> None:
        """A batch of the first cursor's rows, but none that another cursor's come before."""
        if cursor.segment.live == 0:
            # All that was left of the run is settled, and its file may be gone already.
            del self.cursors[0]
            return
        rows = self.store.read_rows(cursor.segment, cursor.run, cursor.next_row, self.store.load_rows)
        if not rows:
            del self.cursors[0]
            return
        limit: i64 = self.cursors[1].next_sequence if len(self.cursors) > 1 else 1 << 62
        self._load_rows(cursor, rows, limit)
        rest = self.store.read_rows(cursor.segment, cursor.run, cursor.next_row, 1)
        if not rest:
            self.cursors.remove(cursor)
            return
        cursor.next_sequence = Row(rest, 0).sequence
        if cursor.next_sequence > limit:
            self.cursors.sort(key=by_next_sequence)

    def _load_rows(self, cursor: Cursor, data: bytes, limit: i64) -> None:
        segment = cursor.segment
        window: list[Row] = []
        loaded: i64 = 0
        at: i64 = 0
        limit_bytes = CROWDED_BYTES if self.store.is_crowded() else LOAD_BYTES
        while at < len(data) and loaded < limit_bytes:
            row = Row(data, at)
            if row.sequence > limit:
                break
            at += ROW_SIZE
            cursor.next_row += 1
            if segment.is_settled(row.ordinal) or row.sequence in self.taken:
                continue
            if window and row.offset - (window[-1].offset + window[-1].size) > READ_GAP:
                self._load_window(segment, window)
                window = []
            window.append(row)
            loaded += row.size
        if window:
            self._load_window(segment, window)

    def _load_window(self, segment: Segment, rows: list[Row]) -> None:
        unreadable: list[Row] = []
        for entry in self.read_window(segment, rows, unreadable):
            self.paged -= 1
            self._entries.append(entry)
            self._head_grew(len(entry.message.content))
        for row in unreadable:
            self._leave_out(row)
            # That says nothing of the bytes: they stay for the next start.
            segment.unreadable = True
            self._log(
                f"cannot read message {row.sequence}: I/O error in segment {segment.number} at byte {row.offset}; "
                "it stays there and is tried again at restart"
            )

    def read_window(self, segment: Segment, rows: list[Row], unreadable: list[Row]) -> list[Entry]:
        """Rows whose records lie close together: one read for all. Damaged ones are lost, unreadable ones are told."""
        start = rows[0].offset
        size = rows[-1].offset + rows[-1].size - start
        data = self.store.read(segment, start, size)
        entries: list[Entry] = []
        if (data is None or len(data) < size) and len(rows) > 1:
            # Something on the way cannot be read: each for itself, so that the others are not lost with it.
            for row in rows:
                entries += self.read_window(segment, [row], unreadable)
            return entries
        if data is None:
            unreadable.append(rows[0])
            return entries
        message: Message | None = None
        for row in rows:
            at = row.offset - start
            end = record_at(data, at, segment.number, row.offset)
            if end != at + row.size or not has_place(data, at, self.number, row.sequence):
                self.lose(segment, row)
                continue
            message = read_message(data, at, end, message)
            entries.append(self._entry(segment, row, message))
        return entries

    def lose(self, segment: Segment, row: Row) -> None:
        """Its record is damaged. Nothing is lost as long as it is in memory."""
        if row.sequence >= self.first_paged():
            self._leave_out(row)
        self._log(f"lost message {row.sequence}: damaged record in segment {segment.number} at byte {row.offset}")
        self.returned.pop(row.sequence, None)
        self.store.settle(segment.number << 32 | row.ordinal)

    def _log(self, text: str) -> None:
        queue = self.queue
        queue.node.host.log(_ERROR, f"store: queue '{queue.name}' in vhost '{queue.vhost}' {text}")

    def _leave_out(self, row: Row) -> None:
        self.paged -= 1
        self.length -= 1
        self.body_bytes -= row.body_size

    def _entry(self, segment: Segment, row: Row, message: Message) -> Entry:
        entry = Entry(message, self.queue, row.sequence, row.expires_at)
        entry.address = segment.number << 32 | row.ordinal
        entry.redelivered = row.sequence <= self.recovered_watermark
        if self.returned:
            entry.returns = self.returned.get(row.sequence, 0)
        return entry

    def settle_to(self, sequence: i64, limit: i64) -> i64:
        """What is only in the log is settled without being read."""
        count: i64 = 0
        while self.length > self.paged and count < limit:
            head = self.peek()
            if head is None or head.sequence > sequence:
                return count
            self.fetch()
            self.settle(head)
            count += 1
        for cursor in list(self.cursors):
            count += self._settle_rows(cursor, sequence, limit - count)
        if self.paged == 0:
            self.cursors.clear()
        self.cursors.sort(key=by_next_sequence)
        return count

    def _settle_rows(self, cursor: Cursor, sequence: i64, limit: i64) -> i64:
        """How many it looked at: those that are settled already cost their time as well."""
        segment, run = cursor.segment, cursor.run
        base = segment.number << 32
        count: i64 = 0
        while segment.live > 0:
            data = self.store.read_rows(segment, run, cursor.next_row, self.store.load_rows)
            if not data:
                break
            for at in range(0, len(data), ROW_SIZE):
                row = Row(data, at)
                if row.sequence > sequence or count == limit:
                    cursor.next_sequence = row.sequence
                    return count
                cursor.next_row += 1
                count += 1
                if not segment.is_settled(row.ordinal) and row.sequence not in self.taken:
                    self.store.settle(base | row.ordinal)
                    self.returned.pop(row.sequence, None)
                    self.paged -= 1
                    self.length -= 1
                    self.body_bytes -= row.body_size
        self.cursors.remove(cursor)
        return count

    def release_head(self) -> None:
        self._head_grew(-self._head_bytes)

    def first_paged(self) -> i64:
        """The sequence from which on nothing is in memory; huge when everything is."""
        return self.cursors[0].next_sequence if self.paged > 0 and self.cursors else 1 << 62
