"""The leader's disk: every change that it makes is also an op for its followers. No kind of file can be forgotten."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from warren.replication.files import UNFINISHED, KnownDigests
from warren.replication.ops import APPEND, CREATE, REMOVE, REPLACE, TRUNCATE, Window
from warren.store.disk import Disk


class ReplicatedDisk:
    """A Disk. The loop and the thread that syncs both use it: `lock` keeps the numbers in order.

    What the thread does is done before it is numbered. Who looks in between sees the change and hears of it again,
    which does no harm: ops may be repeated.
    """

    def __init__(self, disk: Disk, window: Window, lock: AbstractContextManager[object] | None = None) -> None:
        self._disk = disk
        self.window = window
        self._lock = nullcontext() if lock is None else lock
        self.digests = KnownDigests()
        self._names: dict[int, str] = {}
        # Written of the files that were created here: they have room behind it.
        self._sizes: dict[str, int] = {}
        # All files before the first op, and their sizes.
        _, self.first_files = self.manifest()

    def _tell(self, kind: int, name: str, at: int = 0, data: bytes = b"") -> None:
        if kind != APPEND:
            self.digests.forget(name)
        with self._lock:
            self.window.add(kind, name, at, data)

    def manifest(self) -> tuple[int, dict[str, int]]:
        """All files and their sizes, and the op whose state that is. Asked between two turns of the loop."""
        with self._lock:
            op = self.window.last
        files: dict[str, int] = {}
        for name in self._disk.names():
            if name.endswith(UNFINISHED):
                continue
            try:
                files[name] = self._sizes[name] if name in self._sizes else self._disk.size(name)
            except FileNotFoundError:
                # The thread has just removed it.
                continue
        return op, files

    def names(self) -> list[str]:
        return self._disk.names()

    def create(self, name: str, room: int) -> int:
        handle = self._disk.create(name, room)
        self._names[handle] = name
        self._sizes[name] = 0
        self._tell(CREATE, name, room)
        return handle

    def open(self, name: str) -> int:
        handle = self._disk.open(name)
        self._names[handle] = name
        return handle

    def reopen(self, name: str, size: int) -> int:
        raise NotImplementedError("a leader only goes on with files that it began")

    def close(self, handle: int) -> None:
        # First: the number may be another file's at once.
        self._names.pop(handle, None)
        self._disk.close(handle)

    def append(self, handle: int, data: bytes) -> None:
        name = self._names[handle]
        self._disk.append(handle, data)
        at = self._sizes[name]
        self._sizes[name] = at + len(data)
        self._tell(APPEND, name, at, bytes(data))

    def read(self, handle: int, size: int, offset: int) -> bytes:
        return self._disk.read(handle, size, offset)

    def size(self, name: str) -> int:
        return self._disk.size(name)

    def truncate(self, handle: int, size: int) -> None:
        self._disk.truncate(handle, size)
        name = self._names[handle]
        if name in self._sizes:
            self._sizes[name] = min(self._sizes[name], size)
        self._tell(TRUNCATE, name, size)

    def sync(self, handle: int) -> None:
        self._disk.sync(handle)

    def sync_directory(self) -> None:
        self._disk.sync_directory()

    def replace(self, name: str, data: bytes) -> None:
        self._disk.replace(name, data)
        self._sizes.pop(name, None)
        self._tell(REPLACE, name, 0, data)

    def remove(self, name: str) -> None:
        self._disk.remove(name)
        self._sizes.pop(name, None)
        self._tell(REMOVE, name)
