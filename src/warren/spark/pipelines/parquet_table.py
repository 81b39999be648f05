"""A folder of Parquet files that batches are put into, each as a whole, however often its writing was interrupted.

Files carry the number of their batch. A batch that is written again replaces its own files, so nothing is there twice.
Small files of old batches are put together; a journal makes that safe to interrupt. What begins with _ is not data to
any reader.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.dataset as dataset
import pyarrow.parquet as parquet

STAGING: Final = "_staging"
JOURNAL: Final = "_journal.json"
SMALL_BYTES: Final = 32 * 1024 * 1024
TARGET_BYTES: Final = 128 * 1024 * 1024
# Fewer are no burden to a reader.
FEW_FILES: Final = 8
_DATA: Final = re.compile(r"(?P<writer>[0-9a-f]{8})-(?P<first>\d{9})(?:-(?P<last>\d{9}))?\.(?P<number>\d{5})\.parquet")


@dataclass(frozen=True)
class DataFile:
    path: Path
    writer: str
    first: int
    last: int
    size: int


class ParquetTable:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """To be called before anything is written: ends what an interrupted compaction began."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._finish_compaction()
        shutil.rmtree(self.folder / STAGING, ignore_errors=True)

    def staging(self, writer: str, batch: int) -> Path:
        return self.folder / STAGING / f"{writer[:8]}-{batch:09d}"

    def commit(self, writer: str, batch: int) -> int:
        """Take the files that were staged for a batch into the table. How many there are."""
        staged = self.staging(writer, batch)
        if self.holds(writer, batch):
            # It was put together with others, so it was complete long ago.
            shutil.rmtree(staged, ignore_errors=True)
            return 0
        for old in self.files():
            if (old.writer, old.first, old.last) == (writer[:8], batch, batch):
                old.path.unlink()
        count = 0
        for path in sorted(staged.rglob("*.parquet")):
            place = self.folder / path.parent.relative_to(staged)
            place.mkdir(parents=True, exist_ok=True)
            path.rename(place / f"{writer[:8]}-{batch:09d}.{count:05d}.parquet")
            count += 1
        shutil.rmtree(staged, ignore_errors=True)
        return count

    def holds(self, writer: str, batch: int) -> bool:
        """Whether a compacted file holds the batch."""
        return any(
            each.writer == writer[:8] and each.first <= batch <= each.last and each.first != each.last
            for each in self.files()
        )

    def files(self) -> list[DataFile]:
        found: list[DataFile] = []
        for path in self.folder.rglob("*.parquet"):
            match = _DATA.fullmatch(path.name)
            if match is None or STAGING in path.parts:
                continue
            last = match["last"] or match["first"]
            found.append(DataFile(path, match["writer"], int(match["first"]), int(last), path.stat().st_size))
        return sorted(found, key=lambda each: (str(each.path.parent), each.writer, each.first, each.path.name))

    def compact(self, writer: str, before: int) -> int:
        """Put the small files of batches before this one together. How many files went."""
        groups: dict[Path, list[DataFile]] = {}
        for each in self.files():
            if each.writer == writer[:8] and each.last < before and each.size < SMALL_BYTES:
                groups.setdefault(each.path.parent, []).append(each)
        went = 0
        for place, files in groups.items():
            if len(files) > FEW_FILES:
                went += self._merge(place, files)
        return went

    def _merge(self, place: Path, files: list[DataFile]) -> int:
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
        draft = self.folder / STAGING / name
        draft.parent.mkdir(exist_ok=True)
        _write_together([each.path for each in chosen], draft)
        self._write_journal(
            {
                "draft": str(draft.relative_to(self.folder)),
                "file": str((place / name).relative_to(self.folder)),
                "replaces": [str(each.path.relative_to(self.folder)) for each in chosen],
            }
        )
        self._finish_compaction()
        return len(chosen)

    def _write_journal(self, entry: dict[str, object]) -> None:
        draft = self.folder / f"{JOURNAL}.new"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(entry, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / JOURNAL)

    def _finish_compaction(self) -> None:
        """From the journal on there is no way back: every step may be done twice."""
        journal = self.folder / JOURNAL
        if not journal.exists():
            return
        entry = json.loads(journal.read_text(encoding="utf-8"))
        # The old go first: a reader in between may miss rows for a moment, but never counts them twice.
        for name in entry["replaces"]:
            (self.folder / name).unlink(missing_ok=True)
        draft = self.folder / entry["draft"]
        if draft.exists():
            draft.rename(self.folder / entry["file"])
        journal.unlink()


def _write_together(paths: list[Path], target: Path) -> None:
    source = dataset.dataset([str(path) for path in paths], format="parquet")
    with parquet.ParquetWriter(target, source.schema, compression="zstd") as writer:
        for batch in source.to_batches():
            writer.write_batch(batch)
    with target.open("rb") as file:
        os.fsync(file.fileno())
