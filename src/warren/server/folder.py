"""The data folder: made when missing, and held by one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from warren.errors import WarrenError
from warren.store.disk import sync_folder

LOCK_NAME = "lock"


def make_durably(path: Path) -> None:
    """Make a folder, and those above it, so that their names survive a loss of power as their content does."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    # Messages and password hashes are nobody else's business.
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


class DataFolder:
    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._lock = -1

    def open(self) -> None:
        try:
            make_durably(self.path)
            self._lock = os.open(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WarrenError(f"cannot use the data folder {self.path}: {error.strerror}") from error
        try:
            # The kernel lets go of it however the process ends, so a crash leaves no stale lock.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._lock, 20).decode(errors="replace").strip()
            self.close()
            raise WarrenError(f"the data folder {self.path} is in use by process {holder or 'unknown'}") from error
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.close()
            raise WarrenError(f"cannot write to the data folder {self.path}: {error.strerror}") from error

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
