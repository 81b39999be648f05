"""What a channel has handed out and not heard back about: a ring of entries indexed by delivery tag.

Tags count up by one per delivery, so a ring with a mask needs no dict and no boxed numbers on the message path.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.broker.queue.entry import Entry

# Most channels never have more than one, or only publish; twice as much with each step is soon enough.
_FIRST_SIZE: Final = 1


class Unacked:
    def __init__(self) -> None:
        self._ring: list[Entry | None] = [None] * _FIRST_SIZE
        self._mask: i64 = _FIRST_SIZE - 1
        # Every tag below `low` is settled; `next` is the tag of the next delivery.
        self.low: i64 = 1
        self.next: i64 = 1
        self.count: i64 = 0
        # Without those of basic.get, which no prefetch limits.
        self.consumed: i64 = 0

    def add(self, entry: Entry) -> i64:
        tag = self.next
        if tag - self.low > self._mask:
            self._grow()
        self._ring[tag & self._mask] = entry
        self.next = tag + 1
        self.count += 1
        if entry.consumer is not None:
            self.consumed += 1
        return tag

    def skip(self) -> i64:
        """A delivery that needs no ack uses up a tag all the same."""
        tag = self.next
        if self.low == tag:
            self.low = tag + 1
        elif tag - self.low > self._mask:
            self._grow()
        self.next = tag + 1
        return tag

    def take(self, tag: i64) -> Entry | None:
        """Remove and give what `tag` stands for; None if nothing (any more)."""
        if tag < self.low or tag >= self.next:
            return None
        place = tag & self._mask
        entry = self._ring[place]
        if entry is None:
            return None
        self._ring[place] = None
        self.count -= 1
        if entry.consumer is not None:
            self.consumed -= 1
        if tag == self.low:
            self._raise_low()
        return entry

    def put_back(self, tag: i64, entry: Entry) -> None:
        """Undo a take: a transaction was rolled back."""
        if tag < self.low:
            while self.next - tag > self._mask:
                self._grow()
            self.low = tag
        self._ring[tag & self._mask] = entry
        self.count += 1
        if entry.consumer is not None:
            self.consumed += 1

    def entries(self) -> list[Entry]:
        """All that is outstanding, oldest first."""
        found: list[Entry] = []
        tag = self.low
        while tag < self.next:
            entry = self._ring[tag & self._mask]
            if entry is not None:
                found.append(entry)
            tag += 1
        return found

    def has(self, tag: i64) -> bool:
        return self.low <= tag < self.next and self._ring[tag & self._mask] is not None

    def holds(self, tag: i64, entry: Entry) -> bool:
        return self.low <= tag < self.next and self._ring[tag & self._mask] is entry

    def _raise_low(self) -> None:
        low = self.low + 1
        while low < self.next and self._ring[low & self._mask] is None:
            low += 1
        self.low = low

    def _grow(self) -> None:
        size = (self._mask + 1) * 2
        ring: list[Entry | None] = [None] * size
        tag = self.low
        while tag < self.next:
            ring[tag & (size - 1)] = self._ring[tag & self._mask]
            tag += 1
        self._ring = ring
        self._mask = size - 1
