"""Opening the definitions: what their files say, whatever a crash or bad luck has done to them.

As with messages: behind the last point that is known to have been synced, the first damaged record ends the log; before
it, damage is bad luck, is told, and costs only what is damaged.
"""

from __future__ import annotations

import json

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.store.definitions import (
    BASE_ENDING,
    LOG_ENDING,
    DefinitionsLog,
    Folded,
    Row,
    base_name,
    encode_key,
    is_whole_base,
    log_name,
    write_change,
)
from warren.store.disk import Disk
from warren.store.format import FILE_HEADER_SIZE, read_file_header
from warren.store.log import LogStore
from warren.store.walk import TO_THE_END, RecordWalk, Stop
from warren.store.whole_files import numbers_of, read_whole


class FoundDefinitions:
    """What is in the files. Nothing is changed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        names = disk.names()
        self.bases = numbers_of(names, BASE_ENDING)
        self.logs = numbers_of(names, LOG_ENDING)
        self.folded = Folded()
        self.damage: list[str] = []
        self.notes: list[str] = []
        self._mark: tuple[int, int] = (0, 0)
        if self.bases or self.logs:
            self._read()

    def is_empty(self) -> bool:
        return not self.bases and not self.logs

    def last_number(self) -> int:
        return max([0, *self.bases, *self.logs])

    def _read(self) -> None:
        first = self._read_base()
        files: list[tuple[int, bytes]] = []
        for number in self.logs:
            if number >= first:
                files.append((number, read_whole(self._disk, log_name(number))))
        walks: list[RecordWalk] = []
        for number, data in files:
            walk = RecordWalk(data, FILE_HEADER_SIZE, number)
            walk.survey()
            walks.append(walk)
            self._mark = max(self._mark, walk.mark)
        for index in range(len(files)):
            number, data = files[index]
            end = self._end_of(number, data, walks[index])
            self.folded.take_file(data, number, end)
            if end < TO_THE_END:
                # What came later was not durable either.
                return

    def _read_base(self) -> int:
        """Gives the number of the log that goes on from it."""
        for number in reversed(self.bases):
            data = read_whole(self._disk, base_name(number))
            if is_whole_base(data, number):
                self.folded.take_file(data, number, TO_THE_END)
                return number
            self.damage.append(f"{base_name(number)} is damaged: what is not in an older one may be missing")
        if not self.bases:
            self.damage.append(f"there is no {base_name(self.logs[0])}: what was defined before is missing")
            return 0
        # Better a part of what was defined than nothing.
        number = self.bases[-1]
        self.folded.take_file(read_whole(self._disk, base_name(number)), number, TO_THE_END)
        return number

    def _end_of(self, number: int, data: bytes, walk: RecordWalk) -> i64:
        """Where what counts of a log ends; TO_THE_END when all of it does."""
        name = log_name(number)
        # Without any record it is a file that was being begun.
        if read_file_header(data, number) < 0 and walk.at > FILE_HEADER_SIZE:
            self.damage.append(f"{name} has a damaged header")
        damage = list(walk.damage)
        if walk.stop is Stop.UNWRITTEN:
            # The room that it was created with.
            damage.pop()
        known: i64 = TO_THE_END if self._mark[0] > number else self._mark[1] if self._mark[0] == number else 0
        for start, end in damage:
            if start >= known:
                self.notes.append(f"{name} was synced up to byte {known}; the rest is dropped")
                return start
            self.damage.append(f"{name} is damaged from byte {start} to {end}: what changed there is lost")
        return TO_THE_END


def recover_definitions(store: LogStore, older: list[Row], found: FoundDefinitions | None = None) -> list[Row]:
    """Open the definitions of a store, and give them; where there are none yet, they begin with these older ones.
    Whoever has looked for them already hands in what was found.

    What was found is written anew before the old files go, so that a second recovery can do it again.
    """
    disk = store.disk
    found = FoundDefinitions(disk) if found is None else found
    store.log_lines += [f"store: {line}" for line in found.damage + found.notes]
    folded = found.folded
    if found.is_empty():
        _take_rows(folded, older)
    store.unclaimed.deleted = folded.deleted
    number = found.last_number() + 1
    # Until the message log says so itself, which it does next.
    base = folded.encode(number, [name for name in store.unclaimed.incarnations() if name in folded.deleted])
    disk.replace(base_name(number), base)
    log = DefinitionsLog(store, number, len(base))
    for handle in log.begin_sync():
        disk.sync(handle)
    disk.sync_directory()
    log.takes_new_names()
    store.definitions = log
    for old in found.logs:
        disk.remove(log_name(old))
    for old in found.bases:
        disk.remove(base_name(old))
    disk.sync_directory()
    return folded.rows()


def _take_rows(folded: Folded, rows: list[Row]) -> None:
    for kind, key, value in rows:
        out = BytesWriter()
        write_change(out, encode_key(kind, key), json.dumps(value).encode())
        folded.take(out.getvalue())
