"""The files of one store directory: the only code that touches them. Everything else asks a Disk.

A simulated Disk takes this one's place in tests that lose, tear and reorder what was not synced. There is no mmap:
a full disk must be an error that can be handled, not a signal.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    def names(self) -> list[str]: ...

    def create(self, name: str, room: int) -> int:
        """A new file of so many zeros, which `append` fills from its beginning; gives its handle.

        Until the room is used up, what is appended does not change the file's size, and a sync has less to write.
        """

    def open(self, name: str) -> int: ...

    def reopen(self, name: str, size: int) -> int:
        """To go on writing after the first `size` bytes of a file; what stood there goes."""

    def close(self, handle: int) -> None: ...

    def append(self, handle: int, data: bytes) -> None: ...

    def read(self, handle: int, size: int, offset: int) -> bytes: ...

    def size(self, name: str) -> int: ...

    def truncate(self, handle: int, size: int) -> None: ...

    def sync(self, handle: int) -> None: ...

    def sync_directory(self) -> None: ...

    def replace(self, name: str, data: bytes) -> None:
        """Write a small file whole: after a crash it is the old one or the new one."""

    def remove(self, name: str) -> None: ...


def sync_folder(folder: Path) -> None:
    """The names in it survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class RealDisk:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory

    def _path(self, name: str) -> str:
        return str(self._directory / name)

    def names(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def create(self, name: str, room: int) -> int:
        handle = os.open(self._path(name), os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        if room > 0:
            # Sparse: it takes no space, and a full disk is found out by writing, as without it.
            os.ftruncate(handle, room)
        return handle

    def open(self, name: str) -> int:
        return os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)

    def reopen(self, name: str, size: int) -> int:
        handle = self.open(name)
        os.ftruncate(handle, size)
        os.lseek(handle, size, os.SEEK_SET)
        return handle

    def close(self, handle: int) -> None:
        os.close(handle)

    def append(self, handle: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # On its own line: mypyc evaluates a call in the bounds of a slice twice.
            written = os.write(handle, rest)
            rest = rest[written:]

    def read(self, handle: int, size: int, offset: int) -> bytes:
        return os.pread(handle, size, offset)

    def size(self, name: str) -> int:
        return os.stat(self._path(name)).st_size

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        os.fdatasync(handle)

    def sync_directory(self) -> None:
        sync_folder(self._directory)

    def replace(self, name: str, data: bytes) -> None:
        unfinished = name + ".new"
        handle = os.open(self._path(unfinished), os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            self.append(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(self._path(unfinished), self._path(name))
        self.sync_directory()

    def remove(self, name: str) -> None:
        os.unlink(self._path(name))
