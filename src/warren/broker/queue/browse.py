"""Looking at what waits in memory without taking it, and taking one message out of the middle.

Sequences only grow within a queue, so they are the positions that a reader can come back to.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from mypy_extensions import i64

from warren.broker.queue.entry import Entry
from warren.broker.queue.entry_rows import EntryRows, first_after


def waiting_after(entries: deque[Entry], others: list[EntryRows], after: i64, limit: i64) -> list[Entry]:
    """Up to `limit` of all of them, in order."""
    first = first_after(entries, after)
    last = min(first + limit, i64(len(entries)))
    # From one end, not by index: each would be looked for from an end.
    found = list(islice(entries, first, last))
    is_mixed = False
    for rows in others:
        if rows.count > 0:
            found += rows.after(after, limit)
            is_mixed = True
    if is_mixed:
        found.sort(key=by_sequence)
    return found[:limit]


def take_waiting(entries: deque[Entry], sequence: i64) -> Entry | None:
    index = first_after(entries, sequence - 1)
    if index >= len(entries) or entries[index].sequence != sequence:
        return None
    entry = entries[index]
    del entries[index]
    return entry


def by_sequence(entry: Entry) -> int:
    return entry.sequence
