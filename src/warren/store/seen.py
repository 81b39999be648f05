"""By what messages will be known again: the ids that queues have seen, and how far each of their publishers has come.

They are noted in the log, or in the stream's file, between a TOGETHER and a SEEN record and so in one piece with their
messages. Files of messages go before windows do: whenever one that has such notes is full, all notes that queues still
want are written to one file beside the log, with the number of the file of messages up to which it tells them. Only
younger ones are asked for more.

    note    lane, or 0(4) number(8) length(4) key
    file    "WARRENSN" version(2), for each queue: incarnation(short string) up to file(8) length(4) notes; crc(4)

Why so: docs/decisions/0025-once-by-number.md.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.broker.message import short
from warren.checksum import crc32
from warren.store.chores import Chore
from warren.store.disk import Disk
from warren.store.whole_files import read_or_nothing

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.store.log import LogStore

SEEN_NAME: Final = "ids.seen"
_HEAD: Final = b"WARRENSN" + struct.pack(">H", 1)
_NOTE_SIZE: Final[i64] = 16


def write_note(out: BytesWriter, lane: i64, key: bytes, number: i64) -> None:
    write_i32_be(out, i32(lane))
    write_i64_be(out, number)
    write_i32_be(out, i32(len(key)))
    out.write(key)


def notes_in(payload: bytes) -> list[tuple[int, bytes, int]]:
    """Lane, key and number of each."""
    notes: list[tuple[int, bytes, int]] = []
    at: i64 = 0
    while at < len(payload):
        key = at + _NOTE_SIZE
        end = key + i64(read_i32_be(payload, at + 12))
        notes.append((int(read_i32_be(payload, at)), payload[key:end], read_i64_be(payload, at + 4)))
        at = end
    return notes


class Recollection:
    """What is known of a queue, until it asks for it."""

    def __init__(self) -> None:
        self.notes: dict[bytes, int] = {}
        # The file of messages up to which it is told here.
        self.up_to: i64 = 0

    def take(self, key: bytes, number: int) -> None:
        # Said again, it is the youngest again.
        self.notes.pop(key, None)
        self.notes[key] = number


class SeenChore(Chore):
    """Everything in it is durable in the log by then, and so are the messages that it tells of."""

    def __init__(self, after: i64, told: list[tuple[str, int, list[tuple[bytes, int]]]]) -> None:
        super().__init__(after)
        self._told = told

    def run(self, disk: Disk) -> None:
        out = BytesWriter()
        out.write(_HEAD)
        for incarnation, up_to, notes in self._told:
            section = BytesWriter()
            for key, number in notes:
                write_note(section, 0, key, number)
            out.write(short(incarnation))
            write_i64_be(out, up_to)
            write_i32_be(out, i32(len(section)))
            out.write(section.getvalue())
        body = out.getvalue()
        disk.replace(SEEN_NAME, body + struct.pack(">I", crc32(body)))


class SeenFile:
    def __init__(self, store: LogStore) -> None:
        self._store = store
        # Those that have noted anything.
        self.queues: dict[Queue, bool] = {}
        # By incarnation.
        self.recovered: dict[str, Recollection] = {}

    # -- after a restart -------------------------------------------------------------------------------------------

    def read(self, names: list[str]) -> None:
        """First, before the files of messages tell what has come since."""
        if SEEN_NAME not in names:
            return
        data = read_or_nothing(self._store.disk, SEEN_NAME)
        if data[: len(_HEAD)] != _HEAD or data[-4:] != struct.pack(">I", crc32(data[:-4])):
            self._store.log_lines.append(
                f"store: {SEEN_NAME} is damaged: messages that were published before may be taken for new ones"
            )
            return
        at: i64 = len(_HEAD)
        while at < len(data) - 4:
            name = at + 1 + i64(data[at])
            incarnation = data[at + 1 : name].decode("utf-8", "surrogateescape")
            end = name + 12 + i64(read_i32_be(data, name + 8))
            found = self._found(incarnation)
            found.up_to = read_i64_be(data, name)
            for _, key, number in notes_in(data[name + 12 : end]):
                found.take(key, number)
            at = end

    def _found(self, incarnation: str) -> Recollection:
        found = self.recovered.get(incarnation)
        if found is None:
            found = Recollection()
            self.recovered[incarnation] = found
        return found

    def take(self, incarnation: str, file: i64, notes: list[tuple[bytes, int]]) -> None:
        """What a file of messages says. They come in the order of their numbers."""
        found = self._found(incarnation)
        if file <= found.up_to:
            return
        found.up_to = file
        for key, number in notes:
            found.take(key, number)

    def recall(self, queue: Queue) -> dict[bytes, int]:
        found = self.recovered.pop(queue.incarnation, None)
        if found is None:
            return {}
        self.queues[queue] = True
        return found.notes

    def forget_all_but(self, incarnations: list[str]) -> None:
        """Nobody has asked for the others, and nothing else is left of them."""
        for incarnation in [each for each in self.recovered if each not in incarnations]:
            del self.recovered[incarnation]

    # -- files that go ---------------------------------------------------------------------------------------------

    def write_soon(self) -> None:
        """A file of messages that has notes is full: before it gets an index, or goes."""
        store = self._store
        told: list[tuple[str, int, list[tuple[bytes, int]]]] = []
        for incarnation, found in self.recovered.items():
            told.append((incarnation, found.up_to, list(found.notes.items())))
        for queue in self.queues:
            log = store.streams.logs.get(queue)
            up_to: int = store.active.number - 1 if log is None else log.last_sealed()
            told.append((queue.incarnation, up_to, queue.notes()))
        store.upkeep.chores.append(SeenChore(store.position, told))
