"""A Disk in memory that forgets as a real one may: whatever was not synced can be lost, torn or reordered by a crash.

Bytes become durable by `sync` of their file, names (create, rename, unlink) by `sync_directory`, and not a moment
sooner. `crash` gives the disk that the next process finds. `before` is told of every call that changes something,
and `fail` makes one of them fail.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import TypeVar

T = TypeVar("T")
PAGES = (512, 4096)
# Zeros behind what was written, however many a file asks for: more of them tell nothing, and every crash copies them.
ROOM_MAX = 4096


class Fault(Enum):
    EIO = "EIO"
    ENOSPC = "ENOSPC"
    SHORT = "a short write, then ENOSPC"


class Inode:
    def __init__(self, content: bytes = b"", room: int = 0) -> None:
        # What was written, and up to where zeros follow.
        self.content = bytearray(content)
        self.room = room
        self.durable = bytes(content)
        self.durable_room = 0
        # Since the last sync: where bytes were written, or (with None) where the file was cut.
        self.pending: list[tuple[int, bytes | None]] = []
        # The kernel drops what a failed sync could not write, and says so only once.
        self.is_poisoned = False

    def write(self, data: bytes) -> None:
        self.put(len(self.content), data)

    def put(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))
        _put(self.content, offset, data)

    def cut(self, size: int) -> None:
        self.pending.append((size, None))
        del self.content[size:]
        self.room = 0

    def sync(self) -> None:
        """As if nothing was written between the two ends of `begin_sync`."""
        if self.is_poisoned:
            return
        self.durable_room = self.room
        if self.pending:
            self.durable = bytes(self.content)
            self.pending = []

    def begin_sync(self) -> Callable[[], None]:
        """What ends it: only what was written when it began is durable then."""
        durable, room, begun = bytes(self.content), self.room, list(self.pending)

        def end() -> None:
            self.durable_room = room
            left = _without(self.pending, begun)
            # Else another sync, which began later, was over sooner.
            if len(left) < len(self.pending):
                self.durable = durable
                self.pending = left

        return end

    def seen(self) -> bytes:
        return _padded(self.content, self.room)

    def size(self) -> int:
        return max(len(self.content), self.room)

    def read(self, size: int, offset: int) -> bytes:
        found = bytes(self.content[offset : offset + size])
        return found if len(found) == size else _padded(found, min(self.room - offset, size))

    def after_crash(self, random: Random) -> bytes:
        return _padded(self._after_crash(random), random.choice((self.room, self.durable_room)))

    def _after_crash(self, random: Random) -> bytes:
        if not self.pending:
            return self.durable
        way = random.choice(("none", "all", "some", "pages", "pages"))
        if way == "none":
            return self.durable
        if way == "all":
            return bytes(self.content)
        image = bytearray(self.durable)
        keep = random.randint(0, len(self.pending)) if way == "some" else len(self.pending)
        for offset, data in self.pending[:keep]:
            if data is None:
                del image[offset:]
            elif way == "some":
                _put(image, offset, data)
            else:
                self._put_pages(image, offset, data, random)
        if way == "pages" and random.random() < 0.5:
            # The size is written apart from the bytes.
            del image[random.randint(len(self.durable), max(len(image), len(self.durable))) :]
        return bytes(image)

    def _put_pages(self, image: bytearray, offset: int, data: bytes, random: Random) -> None:
        """Each page for itself reaches the disk or does not; one that does not is zero, or whatever was there."""
        page = random.choice(PAGES)
        at = offset
        end = offset + len(data)
        odds = random.choice((0.3, 0.6, 0.9))
        while at < end:
            until = min(end, (at // page + 1) * page)
            if random.random() < odds:
                _put(image, at, data[at - offset : until - offset])
            elif random.random() < 0.2:
                _put(image, at, random.randbytes(until - at))
            at = until
        if len(image) < end:
            image.extend(bytes(end - len(image)))


def _without(pending: list[T], begun: list[T]) -> list[T]:
    done = {id(each) for each in begun}
    return [each for each in pending if id(each) not in done]


def _padded(content: bytes | bytearray, room: int) -> bytes:
    return bytes(content).ljust(room, b"\0")


def _put(image: bytearray, offset: int, data: bytes) -> None:
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


class SimulatedDisk:
    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.entries: dict[str, Inode] = {name: Inode(data) for name, data in (files or {}).items()}
        self.durable_entries = dict(self.entries)
        # Changes of names since the directory was synced; the parts of one happen together.
        self.pending_names: list[list[tuple[str, Inode | None]]] = []
        self.handles: dict[int, Inode] = {}
        self.next_handle = 3
        self.calls = 0
        self.before: Callable[[str], None] | None = None
        self.faults: dict[int, Fault] = {}
        self.bytes_written = 0

    # -- what tests do to it ---------------------------------------------------------------------------------------

    def files(self) -> dict[str, bytes]:
        """What a process that reads now would see."""
        return {name: inode.seen() for name, inode in self.entries.items()}

    def crash(self, random: Random) -> SimulatedDisk:
        """The disk after a loss of power."""
        entries = dict(self.durable_entries)
        for change in self._surviving_names(random):
            for name, inode in change:
                if inode is None:
                    entries.pop(name, None)
                else:
                    entries[name] = inode
        return SimulatedDisk({name: inode.after_crash(random) for name, inode in entries.items()})

    def kill(self) -> SimulatedDisk:
        """The disk after the process was killed: the operating system lives and forgets nothing."""
        return SimulatedDisk(self.files())

    def lose_all(self) -> SimulatedDisk:
        """The disk after a loss of power that took everything it could."""
        return SimulatedDisk(
            {name: _padded(inode.durable, inode.durable_room) for name, inode in self.durable_entries.items()}
        )

    def _surviving_names(self, random: Random) -> list[list[tuple[str, Inode | None]]]:
        way = random.choice(("none", "all", "first", "any"))
        if way == "none":
            return []
        if way == "all":
            return self.pending_names
        if way == "first":
            return self.pending_names[: random.randint(0, len(self.pending_names))]
        return [change for change in self.pending_names if random.random() < 0.5]

    def fail(self, call: int, fault: Fault) -> None:
        """The call-th change from now on fails; the first is 1."""
        self.faults[self.calls + call] = fault

    def _change(self, what: str) -> Fault | None:
        if self.before is not None:
            self.before(what)
        self.calls += 1
        fault = self.faults.get(self.calls)
        if fault is Fault.EIO:
            raise OSError(errno.EIO, "Input/output error")
        if fault is Fault.ENOSPC:
            raise OSError(errno.ENOSPC, "No space left on device")
        return fault

    def change_names(self, change: list[tuple[str, Inode | None]]) -> None:
        self.pending_names.append(change)
        for name, inode in change:
            if inode is None:
                del self.entries[name]
            else:
                self.entries[name] = inode

    # -- Disk ------------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(self.entries)

    def create(self, name: str, room: int) -> int:
        self._change(f"create {name}")
        if name in self.entries:
            raise FileExistsError(errno.EEXIST, "File exists", name)
        inode = Inode(room=min(room, ROOM_MAX))
        self.change_names([(name, inode)])
        return self._open(inode)

    def open(self, name: str) -> int:
        if name not in self.entries:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        return self._open(self.entries[name])

    def reopen(self, name: str, size: int) -> int:
        self._change(f"reopen {name} at {size}")
        self.entries[name].cut(size)
        return self.open(name)

    def _open(self, inode: Inode) -> int:
        self.next_handle += 1
        self.handles[self.next_handle] = inode
        return self.next_handle

    def close(self, handle: int) -> None:
        del self.handles[handle]

    def append(self, handle: int, data: bytes) -> None:
        fault = self._change(f"append {len(data)}")
        inode = self.handles[handle]
        if fault is Fault.SHORT:
            inode.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        inode.write(bytes(data))
        self.bytes_written += len(data)

    def read(self, handle: int, size: int, offset: int) -> bytes:
        return self.handles[handle].read(size, offset)

    def size(self, name: str) -> int:
        return self.entries[name].size()

    def truncate(self, handle: int, size: int) -> None:
        self._change(f"truncate to {size}")
        self.handles[handle].cut(size)

    def sync(self, handle: int) -> None:
        inode = self.handles[handle]
        try:
            self._change("sync")
        except OSError:
            inode.is_poisoned = True
            raise
        inode.sync()

    def sync_directory(self) -> None:
        self._change("sync directory")
        if self.pending_names:
            self.durable_entries = dict(self.entries)
            self.pending_names = []

    def begin_directory_sync(self) -> Callable[[], None]:
        """What ends it: only the names that were there when it began are durable then."""
        entries, begun = dict(self.entries), list(self.pending_names)

        def end() -> None:
            left = _without(self.pending_names, begun)
            if len(left) < len(self.pending_names):
                self.durable_entries = entries
                self.pending_names = left

        return end

    def replace(self, name: str, data: bytes) -> None:
        """In the steps that a real disk takes, so that a crash can come between any two."""
        unfinished = name + ".new"
        if unfinished in self.entries:
            self.remove(unfinished)
        handle = self.create(unfinished, 0)
        self.append(handle, data)
        self.sync(handle)
        self.close(handle)
        self._change(f"rename {unfinished}")
        self.change_names([(name, self.entries[unfinished]), (unfinished, None)])
        self.sync_directory()

    def remove(self, name: str) -> None:
        self._change(f"remove {name}")
        self.change_names([(name, None)])
