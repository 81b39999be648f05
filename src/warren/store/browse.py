"""Looking into the part of a lane that is only in the log: a few rows at a time, without bringing it back to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import NEVER, Entry
from warren.store.format import has_place, read_message, record_at
from warren.store.segment import ROW_SIZE, Row, Run, Segment

if TYPE_CHECKING:
    from warren.store.lane import Cursor, Lane

# Rows that are read from an index at once.
CHUNK_ROWS: Final[i64] = 128


class RunReader:
    """Walks what is left of one run, from the first row behind a sequence."""

    def __init__(self, lane: Lane, cursor: Cursor, after: i64) -> None:
        self.lane = lane
        self.segment = cursor.segment
        self.run = cursor.run
        self.next_row: i64 = first_row_after(lane, cursor, after)
        self._data = b""
        self._at: i64 = 0

    def next_live(self) -> Row | None:
        """The next row that is not settled; None at the end."""
        while True:
            if self._at >= len(self._data):
                self._data = self.lane.store.read_rows(self.segment, self.run, self.next_row, CHUNK_ROWS)
                self._at = 0
                if not self._data:
                    return None
                self.next_row += len(self._data) // ROW_SIZE
            row = Row(self._data, self._at)
            self._at += ROW_SIZE
            if not self.segment.is_settled(row.ordinal) and row.sequence not in self.lane.taken:
                return row


def first_row_after(lane: Lane, cursor: Cursor, after: i64) -> i64:
    """Rows ascend, so that halving finds it."""
    if cursor.next_sequence > after:
        return cursor.next_row
    low, high = cursor.next_row, cursor.run.count
    while low < high:
        middle = (low + high) // 2
        data = lane.store.read_rows(cursor.segment, cursor.run, middle, 1)
        if not data or Row(data, 0).sequence > after:
            high = middle
        else:
            low = middle + 1
    return low


class Place:
    def __init__(self, segment: Segment, run: Run, row: Row) -> None:
        self.segment = segment
        self.run = run
        self.row = row


def paged_after(lane: Lane, after: i64, limit: i64) -> list[Entry]:
    """Up to `limit` of the messages that are only in the log, in order."""
    places: list[Place] = []
    for cursor in lane.cursors:
        if len(places) >= limit and places[limit - 1].row.sequence < cursor.next_sequence:
            break
        if cursor.segment.live == 0:
            continue
        places += _places(RunReader(lane, cursor, after), limit)
        # Runs follow one another; only what compaction moved may lie between.
        places.sort(key=_by_sequence)
    entries: list[Entry] = []
    for place in places[:limit]:
        entry = _read(lane, place)
        if entry is not None:
            entries.append(entry)
    return entries


def _places(reader: RunReader, limit: i64) -> list[Place]:
    found: list[Place] = []
    while len(found) < limit:
        row = reader.next_live()
        if row is None:
            break
        found.append(Place(reader.segment, reader.run, row))
    return found


def _by_sequence(place: Place) -> int:
    return place.row.sequence


def _read(lane: Lane, place: Place) -> Entry | None:
    """None when its record cannot be read or is damaged, which is found out and told when its turn comes."""
    row = place.row
    data = lane.store.read(place.segment, row.offset, row.size)
    if data is None:
        return None
    end = record_at(data, 0, place.segment.number, row.offset) if len(data) == row.size else -1
    if end != row.size or not has_place(data, 0, lane.number, row.sequence):
        return None
    entry = Entry(read_message(data, 0, end), lane.queue, row.sequence, row.expires_at)
    entry.address = place.segment.number << 32 | row.ordinal
    entry.redelivered = row.sequence <= lane.recovered_watermark
    return entry


def find_paged(lane: Lane, sequence: i64) -> Entry | None:
    for cursor in lane.cursors:
        if cursor.next_sequence > sequence:
            break
        if cursor.segment.live == 0:
            continue
        row = RunReader(lane, cursor, sequence - 1).next_live()
        if row is not None and row.sequence == sequence:
            return _read(lane, Place(cursor.segment, cursor.run, row))
    return None


def paged_expiries(lane: Lane) -> list[tuple[int, int]]:
    """When what is only in the log expires, and its sequence."""
    found: list[tuple[int, int]] = []
    for cursor in lane.cursors:
        if cursor.segment.live == 0:
            continue
        rows = lane.store.read_rows(cursor.segment, cursor.run, cursor.next_row, cursor.run.count)
        for at in range(0, len(rows), ROW_SIZE):
            row = Row(rows, at)
            if row.expires_at != NEVER and not cursor.segment.is_settled(row.ordinal):
                found.append((row.expires_at, row.sequence))
    return found
