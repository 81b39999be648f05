"""A folder of Parquet files that batches are put into, each as a whole, however often its writing was interrupted.

Files carry the number of their batch. A batch that is written again replaces its own files, so nothing is there twice.
Small files of old batches are put together; a journal makes that safe to interrupt. What begins with _ is not data to
any reader.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from posixpath import dirname
from typing import Final

from warren.errors import WarrenError
from warren.spark.folders import Folder

STAGING: Final = "_staging"
JOURNAL: Final = "_journal.json"
# The columns of all files together, as Spark writes them: a file holds those of its own time.
SCHEMA: Final = "_schema.json"
SMALL_BYTES: Final = 32 * 1024 * 1024
TARGET_BYTES: Final = 128 * 1024 * 1024
# Fewer are no burden to a reader.
FEW_FILES: Final = 8
_DATA: Final = re.compile(r"(?P<writer>[0-9a-f]{8})-(?P<first>\d{9})(?:-(?P<last>\d{9}))?\.(?P<number>\d{5})\.parquet")


@dataclass(frozen=True)
class DataFile:
    # From the table's folder on.
    name: str
    writer: str
    first: int
    last: int
    size: int

    @property
    def place(self) -> str:
        return dirname(self.name)


class ParquetTable:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """To be called before anything is written: ends what an interrupted compaction began."""
        self.folder.make()
        self._finish_compaction()
        self.folder.remove(STAGING)

    def staging(self, writer: str, batch: int) -> str:
        """Where the files of a batch are written."""
        return f"{STAGING}/{writer[:8]}-{batch:09d}"

    def commit(self, writer: str, batch: int, rows: int) -> int:
        """Take the files that were staged for a batch into the table, if they hold as many rows as were written. How
        many files there are."""
        staged = self.staging(writer, batch)
        if self.holds(writer, batch):
            # It was put together with others, so it was complete long ago.
            self.folder.remove(staged)
            return 0
        names = sorted(name for name, _ in self.folder.files(staged))
        found = self.folder.rows(names)
        if found != rows:
            raise WarrenError(
                f"{rows} rows were written to {self.folder.place} and {found} are there: driver and executors must "
                "share the folder; name one that all of them reach, such as s3a://bucket/table"
            )
        for old in self.files():
            if (old.writer, old.first, old.last) == (writer[:8], batch, batch):
                self.folder.remove(old.name)
        for count, name in enumerate(names):
            place = dirname(name).removeprefix(staged).lstrip("/")
            self.folder.move(name, _joined(place, f"{writer[:8]}-{batch:09d}.{count:05d}.parquet"))
        self.folder.remove(staged)
        return len(names)

    def holds(self, writer: str, batch: int) -> bool:
        """Whether a compacted file holds the batch."""
        return any(
            each.writer == writer[:8] and each.first <= batch <= each.last and each.first != each.last
            for each in self.files()
        )

    def files(self) -> list[DataFile]:
        found: list[DataFile] = []
        for name, size in self.folder.files():
            match = _DATA.fullmatch(name.rpartition("/")[2])
            if match is None or name.startswith(f"{STAGING}/"):
                continue
            last = match["last"] or match["first"]
            found.append(DataFile(name, match["writer"], int(match["first"]), int(last), size))
        return sorted(found, key=lambda each: (each.place, each.writer, each.first, each.name))

    def compact(self, writer: str, before: int) -> int:
        """Put the small files of batches before this one together. How many files went."""
        groups: dict[str, list[DataFile]] = {}
        for each in self.files():
            if each.writer == writer[:8] and each.last < before and each.size < SMALL_BYTES:
                groups.setdefault(each.place, []).append(each)
        went = 0
        for place, files in groups.items():
            if len(files) > FEW_FILES:
                went += self._merge(place, files)
        return went

    def _merge(self, place: str, files: list[DataFile]) -> int:
        chosen: list[DataFile] = []
        size = 0
        for each in files:
            if size + each.size > TARGET_BYTES:
                break
            chosen.append(each)
            size += each.size
        # All files of one batch stay together, or `holds` would take half a batch for a whole one.
        left = {each.first for each in files[len(chosen) :]}
        chosen = [each for each in chosen if each.first not in left]
        if len(chosen) < 2:
            return 0
        first, last = chosen[0].first, max(each.last for each in chosen)
        number = sum(1 for each in self.files() if each.first == first and each.last == last)
        if first == last:
            return 0
        name = f"{chosen[0].writer}-{first:09d}-{last:09d}.{number:05d}.parquet"
        draft = f"{STAGING}/{name}"
        replaces = [each.name for each in chosen]
        if not self.folder.merge(replaces, draft):
            return 0
        entry = {"draft": draft, "file": _joined(place, name), "replaces": replaces}
        self.folder.write(JOURNAL, json.dumps(entry))
        self._finish_compaction()
        return len(chosen)

    def _finish_compaction(self) -> None:
        """From the journal on there is no way back: every step may be done twice."""
        journal = self.folder.read(JOURNAL)
        if journal is None:
            return
        entry = json.loads(journal)
        # The old go first: a reader in between may miss rows for a moment, but never counts them twice.
        for name in entry["replaces"]:
            self.folder.remove(name)
        self.folder.move(entry["draft"], entry["file"])
        self.folder.remove(JOURNAL)


def _joined(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name
