"""Brokers that break one promise, to see that the tests notice. Nothing of this is in the product.

Each switch puts a disk under the store that does less than it says.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from librt.strings import BytesWriter

from warren.store.disk import RealDisk
from warren.store.format import DELIVERED, FILE_MAGIC, RECORD_HEADER_SIZE, SETTLED, record_at, write_record


class _Wrapped:
    """A Disk that passes everything on. Not a subclass: the real one may be compiled."""

    def __init__(self, directory: Path) -> None:
        self._disk = RealDisk(directory)

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)


class NoFsync(_Wrapped):
    def sync(self, handle: int) -> None:
        pass


class NoDirsync(_Wrapped):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._directory = directory

    def sync_directory(self) -> None:
        pass

    def replace(self, name: str, data: bytes) -> None:
        (self._directory / f"{name}.new").write_bytes(data)
        (self._directory / f"{name}.new").replace(self._directory / name)


class LateWrite(_Wrapped):
    """Says that it has written and synced what it will write with the next batch, or never."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._late: dict[int, bytes] = {}

    def append(self, handle: int, data: bytes) -> None:
        self._disk.append(handle, self._late.get(handle, b""))
        self._late[handle] = data

    def read(self, handle: int, size: int, offset: int) -> bytes:
        self.append(handle, b"")
        return self._disk.read(handle, size, offset)

    def sync(self, handle: int) -> None:
        pass

    def close(self, handle: int) -> None:
        self.append(handle, b"")
        self._disk.close(handle)


class _Without(_Wrapped):
    """Puts records of an unknown kind in the place of those of one kind."""

    kind = 0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        # By handle: which segment it is and how much of it is written.
        self._written: dict[int, tuple[int, int]] = {}

    def append(self, handle: int, data: bytes) -> None:
        if data.startswith(FILE_MAGIC):
            segment, size = int.from_bytes(data[10:18], "big"), 0
        else:
            segment, size = self._written[handle]
            data = self._filtered(data, segment, size)
        self._written[handle] = (segment, size + len(data))
        self._disk.append(handle, data)

    def _filtered(self, data: bytes, segment: int, offset: int) -> bytes:
        out, at = BytesWriter(), 0
        while at < len(data):
            end = record_at(data, at, segment, offset + at)
            if data[at + 2] == self.kind:
                write_record(out, 99, bytes(end - at - RECORD_HEADER_SIZE), segment, offset + at)
            else:
                out.write(data[at:end])
            at = end
        return out.getvalue()


class WithoutAcks(_Without):
    kind = SETTLED


class WithoutWatermarks(_Without):
    kind = DELIVERED


class KeepAll(_Wrapped):
    """Keeps in memory what it writes, about as an object for every message would."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._kept: list[bytes] = []

    def append(self, handle: int, data: bytes) -> None:
        self._kept.append(data * 6)
        self._disk.append(handle, data)


class LateDefinitions(_Wrapped):
    """Says of the definitions that they are written and synced, and writes them with the next change: a queue that was
    answered as deleted is there until then."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._late: dict[int, bytes] = {}
        # The header, and the users without whom nobody could log in to see what is missing.
        self._in_time: dict[int, int] = {}

    def create(self, name: str, room: int) -> int:
        handle = self._disk.create(name, room)
        if name.endswith(".definitions"):
            self._late[handle], self._in_time[handle] = b"", 2
        return handle

    def append(self, handle: int, data: bytes) -> None:
        if handle not in self._late:
            self._disk.append(handle, data)
        elif self._in_time[handle] > 0:
            self._in_time[handle] -= 1
            self._disk.append(handle, data)
        else:
            self._disk.append(handle, self._late[handle])
            self._late[handle] = data


DISKS: Final[dict[str, type[_Wrapped]]] = {
    "nofsync": NoFsync,
    "no-dirsync": NoDirsync,
    "ack-before-write": LateWrite,
    "no-acks": WithoutAcks,
    "no-watermarks": WithoutWatermarks,
    "keep-all": KeepAll,
    "late-definitions": LateDefinitions,
}


def apply(name: str) -> None:
    import warren.server.life as life

    if name:
        vars(life)["RealDisk"] = DISKS[name]


if __name__ == "__main__":
    from warren.cli.main import main

    apply(sys.argv.pop(1))
    main()
