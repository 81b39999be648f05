"""Entries in the order of their sequence, of which any can be reached, taken out or put in at about the same price.

In rows of a bounded length: to take one out of the middle of a deque of three million takes 6 ms, and to look at some
there 40 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry

ROW: Final[i64] = 512


class EntryRows:
    def __init__(self) -> None:
        self.count: i64 = 0
        # None of them is empty.
        self._rows: list[list[Entry]] = []

    def first(self) -> Entry:
        return self._rows[0][0]

    def append(self, entry: Entry) -> None:
        """Behind all others."""
        self.count += 1
        rows = self._rows
        if rows and len(rows[-1]) < ROW:
            rows[-1].append(entry)
        else:
            rows.append([entry])

    def insert(self, entry: Entry) -> None:
        """Where its sequence belongs."""
        if self.count == 0 or self._rows[-1][-1].sequence < entry.sequence:
            self.append(entry)
            return
        self.count += 1
        at = self._row_of(entry.sequence)
        row = self._rows[at]
        row.insert(first_after(row, entry.sequence), entry)
        if len(row) > ROW:
            half = len(row) // 2
            self._rows.insert(at + 1, row[half:])
            del row[half:]

    def pop_first(self) -> Entry:
        self.count -= 1
        row = self._rows[0]
        entry = row.pop(0)
        if not row:
            del self._rows[0]
        return entry

    def take(self, sequence: i64) -> Entry | None:
        if self.count == 0:
            return None
        at = self._row_of(sequence)
        row = self._rows[at]
        index = first_after(row, sequence) - 1
        if index < 0 or row[index].sequence != sequence:
            return None
        self.count -= 1
        entry = row.pop(index)
        if not row:
            del self._rows[at]
        return entry

    def take_row(self) -> list[Entry]:
        """The first of them, up to ROW."""
        row = self._rows.pop(0)
        self.count -= len(row)
        return row

    def after(self, sequence: i64, limit: i64) -> list[Entry]:
        """Those behind a sequence, at most so many."""
        found: list[Entry] = []
        if self.count == 0:
            return found
        at = self._row_of(sequence)
        start = first_after(self._rows[at], sequence)
        while len(found) < limit and at < len(self._rows):
            found += self._rows[at][start : start + limit - len(found)]
            at += 1
            start = 0
        return found

    def drop(self, limit: i64) -> i64:
        """The last of them, at most so many."""
        count: i64 = 0
        while self._rows and count < limit:
            row = self._rows[-1]
            cut = min(i64(len(row)), limit - count)
            del row[len(row) - cut :]
            count += cut
            if not row:
                self._rows.pop()
        self.count -= count
        return count

    def _row_of(self, sequence: i64) -> i64:
        """The last row that does not begin behind the sequence, or else the first."""
        low: i64 = 0
        high: i64 = len(self._rows)
        while high - low > 1:
            middle = (low + high) // 2
            if self._rows[middle][0].sequence <= sequence:
                low = middle
            else:
                high = middle
        return low


def first_after(entries: Sequence[Entry], sequence: i64) -> i64:
    """The index of the first entry behind a sequence."""
    low: i64 = 0
    high: i64 = len(entries)
    while low < high:
        middle = (low + high) // 2
        if entries[middle].sequence <= sequence:
            low = middle + 1
        else:
            high = middle
    return low
