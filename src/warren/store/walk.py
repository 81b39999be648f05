"""Going through the records of a file, of the log or of a stream, one after another and over what is damaged.

Everything that reads a file from end to end does it by a RecordWalk: recovery, compaction, inspection, archives.
Whoever has the place of one record from an index asks format.record_at.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.store.format import RECORD_HEADER_SIZE, SEEN, SYNCED, TOGETHER, record_at

_MARKER: Final = b"WR"
# How often a damaged file may be read from end to end in search of the next record.
_PATIENCE: Final[i64] = 64
_ZEROS: Final = bytes(1 << 16)
TO_THE_END: Final[i64] = 1 << 62


class Stop(Enum):
    """Why a walk has come to its end."""

    END = "all of it was read"
    UNWRITTEN = "nothing but zeros follows"
    DAMAGED = "no record follows the damage"
    CUT = "the next record is not whole in this part of the file"


class RecordWalk:
    def __init__(self, data: bytes, start: i64, seed: i64, until: i64 = TO_THE_END) -> None:
        """Over the records of a whole file that begin between start and until. The seed is the file's own: a segment's
        number, or a stream file's file_seed."""
        self.data = data
        self._seed: i64 = seed
        # Where the data stands in its file, and whether more of the file follows. If so the walk ends at the first
        # record that is not whole: only what follows can tell whether that is damage.
        self.base: i64 = 0
        self.is_part = False
        self._until: i64 = min(until, len(data))
        # The record that was reached last is at [at, end); the next one is looked for where it ends.
        self.at: i64 = start
        self.end: i64 = start
        # From where to where no record is whole. Zeros up to the end count as well.
        self.damage: list[tuple[int, int]] = []
        # The furthest point that records say was synced: number of a file, and position in it. Only survey() asks.
        self.mark: tuple[int, int] = (0, 0)
        # From where to where records count together or not at all. Likewise.
        self.groups: list[tuple[int, int]] = []
        self.stop = Stop.END

    def next(self) -> bool:
        """Go to the next whole record; False when there is none, and then `stop` says why."""
        while self.end < self._until:
            end = record_at(self.data, self.end, self._seed, self.base + self.end)
            if end >= 0:
                self.at = self.end
                self.end = end
                return True
            if self.is_part:
                self.stop = Stop.CUT
                return False
            self._pass_damage()
        return False

    def _pass_damage(self) -> None:
        start = self.end
        following: i64 = -1
        if is_unwritten(self.data, start):
            self.stop = Stop.UNWRITTEN
        else:
            following = next_record(self.data, start + 1, self._seed, self.base)
            if following < 0:
                self.stop = Stop.DAMAGED
        if following < 0:
            following = len(self.data)
        self.damage.append((start, following))
        self.end = following

    def survey(self) -> None:
        """Go through all that is left, for damage, mark and groups."""
        begun: i64 = -1
        while self.next():
            kind = self.kind()
            if kind == SYNCED:
                start = self.at + RECORD_HEADER_SIZE
                self.mark = max(self.mark, (read_i64_be(self.data, start), read_i64_be(self.data, start + 8)))
            elif kind == TOGETHER:
                if begun >= 0:
                    # What ended the one before is damaged.
                    self.groups.append((begun, self.at))
                begun = self.at
            elif kind == SEEN and begun >= 0:
                self.groups.append((begun, self.end))
                begun = -1
        if begun >= 0:
            self.groups.append((begun, TO_THE_END))

    def kind(self) -> int:
        return self.data[self.at + 2]

    def payload(self) -> bytes:
        return self.data[self.at + RECORD_HEADER_SIZE : self.end]


def counted_until(
    number: int,
    size: int,
    expected: int,
    damage: list[tuple[int, int]],
    groups: list[tuple[int, int]],
    durable: tuple[int, int],
) -> tuple[int, list[tuple[int, int]], bool]:
    """Where the part of a file ends that counts, what is lost in it, and whether all ends there. The file after it says
    how long it should be; -1 where none does. What was durable is damaged and no reason to give up the rest."""
    lost: list[tuple[int, int]] = []
    is_last = False
    for start, end in [*damage, (size, expected)] if expected > size else damage:
        if (number, start) >= durable:
            size, is_last = start, True
            break
        lost.append((start, end))
    if not is_last and expected >= 0:
        size = min(size, expected)
    for start, end in groups:
        # Every group is there as a whole or not at all.
        if start < size < end and (number, start) >= durable:
            return start, lost, True
    return size, lost, is_last


def next_record(data: bytes, at: i64, seed: i64, base: i64 = 0) -> i64:
    """The next place at or after `at` where a record begins, in bytes that stand at `base` of their file; or -1."""
    # Bodies are strangers' bytes: one that is full of record headers must not make this take for ever.
    patience = _PATIENCE * max(len(data), 1 << 20)
    found: i64 = data.find(_MARKER, at)
    while found >= 0 and patience > 0:
        if record_at(data, found, seed, base + found) >= 0:
            return found
        if len(data) - found >= RECORD_HEADER_SIZE:
            length = i64(read_i32_be(data, found + 4))
            patience -= length if 0 < length <= len(data) - found else 0
        found = data.find(_MARKER, found + 1)
    return -1


def is_unwritten(data: bytes, at: i64) -> bool:
    """Nothing but zeros from there on: the room that a segment is created with, or what is left of it."""
    while at < len(data):
        piece = data[at : at + len(_ZEROS)]
        if piece != _ZEROS[: len(piece)]:
            return False
        at += len(piece)
    return True
