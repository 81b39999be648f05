"""The files of one stream's archive: their names say which offsets are in them, and nothing else is kept about them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from warren.store.disk import sync_folder

# A leading dot hides a file from Spark, and from us.
UNFINISHED: Final = ".unfinished-"
_NAME: Final = re.compile(r"(\d{20})-(\d{20})\.parquet")


class ArchiveFile(NamedTuple):
    path: str
    first: int
    # Of its last message.
    last: int


def file_name(first: int, last: int) -> str:
    return f"{first:020d}-{last:020d}.parquet"


def files_in(folder: str) -> list[ArchiveFile]:
    """By their first offset. Files whose names say otherwise are somebody else's."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [(name, match) for name in names if (match := _NAME.fullmatch(name))]
    files = [ArchiveFile(os.path.join(folder, name), int(match[1]), int(match[2])) for name, match in found]
    return sorted(files, key=lambda file: (file.first, file.last))


def covering(files: list[ArchiveFile], offset: int) -> ArchiveFile | None:
    """The one that has this offset; of several, the one that goes furthest."""
    fitting = [file for file in files if file.first <= offset <= file.last]
    return max(fitting, key=lambda file: file.last, default=None)


def first_before(files: list[ArchiveFile], offset: int) -> int:
    """Where what goes on without a gap up to this offset begins; the offset itself when nothing does."""
    for file in sorted(files, key=lambda file: file.last, reverse=True):
        if file.first < offset <= file.last + 1:
            offset = file.first
    return offset


def make_durable(root: Path, folder: Path) -> None:
    """The names in the folder, and those of the folders that lead to it."""
    while True:
        sync_folder(folder)
        if folder == root.parent or folder == folder.parent:
            return
        folder = folder.parent
