"""Looking at what waits in memory without taking it, and taking one message out of the middle.

Sequences only grow within a queue, so they are the positions that a reader can come back to.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify
from itertools import islice

from mypy_extensions import i64

from warren.broker.queue.entry import Entry


def first_after(entries: deque[Entry], sequence: i64) -> i64:
    """The index of the first entry behind `sequence`."""
    low: i64 = 0
    high: i64 = len(entries)
    while low < high:
        middle = (low + high) // 2
        if entries[middle].sequence <= sequence:
            low = middle + 1
        else:
            high = middle
    return low


def waiting_after(entries: deque[Entry], returned: list[tuple[int, Entry]], after: i64, limit: i64) -> list[Entry]:
    """Up to `limit` of them in order, those that came back in their own places."""
    first = first_after(entries, after)
    last = min(first + limit, i64(len(entries)))
    # From one end, not by index: each would be looked for from an end.
    found = list(islice(entries, first, last))
    if not returned:
        return found
    found += [entry for sequence, entry in returned if sequence > after]
    found.sort(key=by_sequence)
    return found[:limit]


def take_waiting(entries: deque[Entry], sequence: i64) -> Entry | None:
    index = first_after(entries, sequence - 1)
    if index >= len(entries) or entries[index].sequence != sequence:
        return None
    entry = entries[index]
    del entries[index]
    return entry


def take_returned(returned: list[tuple[int, Entry]], sequence: i64) -> Entry | None:
    for index in range(len(returned)):
        if returned[index][0] == sequence:
            entry = returned[index][1]
            del returned[index]
            heapify(returned)
            return entry
    return None


def by_sequence(entry: Entry) -> int:
    return entry.sequence
