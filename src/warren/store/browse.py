"""Looking into the part of a lane that is only in the log: a few rows at a time, without bringing it back to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry
from warren.store.segment import ROW_SIZE, Row, Segment

if TYPE_CHECKING:
    from warren.store.lane import Cursor, Lane

# Rows that are read from an index at once.
CHUNK_ROWS: Final[i64] = 128
# Records this near each other are read at once, up to this much.
READ_GAP: Final[i64] = 65536
WINDOW_BYTES: Final[i64] = 1024 * 1024


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
    if last_sequence(lane, cursor) <= after:
        # So it is with most runs of a long queue, all of which are asked.
        return high
    while low < high:
        middle = (low + high) // 2
        data = lane.store.read_rows(cursor.segment, cursor.run, middle, 1)
        if not data or Row(data, 0).sequence > after:
            high = middle
        else:
            low = middle + 1
    return low


def last_sequence(lane: Lane, cursor: Cursor) -> i64:
    run = cursor.run
    if run.last_sequence == 0:
        # An index does not say it.
        data = lane.store.read_rows(cursor.segment, run, run.count - 1, 1)
        if data:
            run.last_sequence = Row(data, 0).sequence
    return run.last_sequence


class PagedRow:
    """A row, and whose it is."""

    def __init__(self, segment: Segment, row: Row) -> None:
        self.segment = segment
        self.row = row


def paged_after(lane: Lane, after: i64, limit: i64) -> list[Entry]:
    """Up to `limit` of the messages that are only in the log, in order."""
    entries: list[Entry] = []
    window: list[PagedRow] = []
    for place in paged_rows(lane, after, limit):
        if window and not _are_near(window[0], window[-1], place):
            entries += _read(lane, window)
            window = []
        window.append(place)
    return entries + _read(lane, window)


def paged_rows(lane: Lane, after: i64, limit: i64) -> list[PagedRow]:
    """What the indexes say of them; none is read."""
    places: list[PagedRow] = []
    for cursor in lane.cursors:
        if len(places) >= limit and places[limit - 1].row.sequence < cursor.next_sequence:
            break
        if cursor.segment.live == 0:
            continue
        places += _places(RunReader(lane, cursor, after), limit)
        # Runs follow one another; only what compaction moved may lie between.
        places.sort(key=_by_sequence)
    return places[:limit]


def _are_near(first: PagedRow, last: PagedRow, place: PagedRow) -> bool:
    """One read may bring all of them."""
    end = last.row.offset + last.row.size
    return (
        place.segment is first.segment
        and 0 <= place.row.offset - end <= READ_GAP
        and place.row.offset + place.row.size - first.row.offset <= WINDOW_BYTES
    )


def _places(reader: RunReader, limit: i64) -> list[PagedRow]:
    found: list[PagedRow] = []
    while len(found) < limit:
        row = reader.next_live()
        if row is None:
            break
        found.append(PagedRow(reader.segment, row))
    return found


def _by_sequence(place: PagedRow) -> int:
    return place.row.sequence


def _read(lane: Lane, places: list[PagedRow]) -> list[Entry]:
    """Without those that are damaged, which the lane loses, and those that the disk fails to read, which it keeps."""
    if not places:
        return []
    return lane.read_window(places[0].segment, [place.row for place in places], [])


def find_paged(lane: Lane, sequence: i64) -> Entry | None:
    for cursor in lane.cursors:
        if cursor.next_sequence > sequence:
            break
        if cursor.segment.live == 0:
            continue
        row = RunReader(lane, cursor, sequence - 1).next_live()
        if row is not None and row.sequence == sequence:
            found = _read(lane, [PagedRow(cursor.segment, row)])
            return found[0] if found else None
    return None
