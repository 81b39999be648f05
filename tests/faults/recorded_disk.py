"""What a disk may hold after a loss of power, made of a recorded trace of calls (recorded_io.c).

Each folder is a SimulatedDisk (tests/store/simulated_disk.py), to which the calls of the trace happen again: so here as
there, bytes become durable by a sync of their file and names by a sync of their folder, and the rest may be lost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.store.simulated_disk import Inode, SimulatedDisk

_HEAD: Final = struct.Struct("<dcIQI")


@dataclass(frozen=True)
class Call:
    # Just before it: whatever a client had heard by then, it heard without this call.
    seconds: float
    kind: str
    path: str
    number: int
    data: bytes


def read_trace(path: Path, folder: Path) -> list[Call]:
    """The calls that are about `folder`, what is in it, and its name."""
    data = path.read_bytes()
    calls: list[Call] = []
    at = 0
    while at < len(data):
        seconds, kind, path_size, number, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + path_size].decode()
        at += path_size
        if name in (str(folder), str(folder.parent)) or name.startswith(f"{folder}/"):
            calls.append(Call(seconds, kind.decode(), name, number, data[at : at + size]))
        at += size
    return calls


class RecordedDisk:
    """A folder and all that is in it, as far as the trace has happened."""

    def __init__(self, folder: Path) -> None:
        self._root = str(folder)
        self._folders: dict[str, SimulatedDisk] = {self._root: SimulatedDisk()}
        # By path and descriptor, what ends a sync that has begun.
        self._syncing: dict[tuple[str, int], Callable[[], None]] = {}

    def happen(self, call: Call) -> None:
        if call.kind in "be":
            self._sync(call)
            return
        parent, _, name = call.path.rpartition("/")
        disk = self._folders[parent]
        inode = disk.entries.get(name)
        if call.kind == "m":
            self._folders[call.path] = SimulatedDisk()
            disk.change_names([(name, Inode())])
        elif call.kind == "r":
            old = call.data.decode().rpartition("/")[2]
            disk.change_names([(name, disk.entries[old]), (old, None)])
        elif call.kind == "u":
            disk.change_names([(name, None)])
        elif call.kind == "o" and inode is None:
            disk.change_names([(name, Inode())])
        elif inode is not None:
            self._change(inode, call)

    def _change(self, inode: Inode, call: Call) -> None:
        if call.kind == "w":
            inode.put(call.number, call.data)
        elif call.kind == "o":
            if call.number:
                inode.cut(0)
        elif call.number < len(inode.content):
            inode.cut(call.number)
        else:
            inode.room = call.number

    def _sync(self, call: Call) -> None:
        key = (call.path, call.number)
        if call.kind == "e":
            end = self._syncing.pop(key, None)
            # None of a file that had no name any more.
            if end is not None:
                end()
            return
        folder = self._folders.get(call.path)
        if folder is not None:
            self._syncing[key] = folder.begin_directory_sync()
            return
        parent, _, name = call.path.rpartition("/")
        inode = self._folders[parent].entries.get(name)
        if inode is not None:
            self._syncing[key] = inode.begin_sync()

    def after(self, way: Callable[[SimulatedDisk], SimulatedDisk]) -> dict[str, bytes | None]:
        """What is there after a crash of that way: files by their path in the folder, and folders with None."""
        return dict(self._after(self._root, way))

    def _after(self, folder: str, way: Callable[[SimulatedDisk], SimulatedDisk]) -> Iterator[tuple[str, bytes | None]]:
        for name, data in way(self._folders[folder]).files().items():
            path = f"{folder}/{name}"
            shown = path.removeprefix(f"{self._root}/")
            if path in self._folders:
                yield shown, None
                yield from self._after(path, way)
            else:
                yield shown, data


def way_of(random: Random) -> Callable[[SimulatedDisk], SimulatedDisk]:
    """One in four loses all that it may; most lose some of it, in whatever order."""
    if random.random() < 0.25:
        return SimulatedDisk.lose_all
    return lambda disk: disk.crash(random)


def write_files(files: dict[str, bytes | None], folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        if data is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(data)
