"""Negative controls: ways to make a store break its promises, so that the tests can show that they would notice.

Nothing in the product knows of them: they wrap the disk, or what is told to the store.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from tests.store.simulated_disk import SimulatedDisk
from warren.store.format import FILE_HEADER_SIZE, RECORD_HEADER_SIZE, RETURNED, TOGETHER, seed
from warren.store.seen import SEEN_NAME
from warren.store.stream_format import FILE_ENDING, file_seed, parse_name
from warren.store.walk import RecordWalk

if TYPE_CHECKING:
    from tests.faults.crash_workload import Workload

NO_FSYNC = "nofsync"
NO_DIRSYNC = "no-dirsync"
NO_CRC = "no-crc"
NO_TRUNCATE = "no-truncate"
ACK_BEFORE_WRITE = "ack-before-write"
NO_IDS = "no-ids"
NO_GROUPS = "no-groups"
NO_COUNTS = "no-counts"
KINDS = (NO_FSYNC, NO_DIRSYNC, NO_CRC, NO_TRUNCATE, ACK_BEFORE_WRITE, NO_IDS, NO_GROUPS, NO_COUNTS)


class DiskWithoutFsync(SimulatedDisk):
    """Says that bytes are durable when they are not."""

    def sync(self, handle: int) -> None:
        self._change("sync")


class DiskWithoutDirectorySync(SimulatedDisk):
    """Says that names are durable when they are not."""

    def sync_directory(self) -> None:
        self._change("sync directory")


class DiskWithoutTruncate(SimulatedDisk):
    """Leaves the torn end of a log where it is, for the next recovery to find."""

    def truncate(self, handle: int, size: int) -> None:
        self._change("truncate")


class DiskWithoutIds(SimulatedDisk):
    """Never writes the file of what was seen."""

    def replace(self, name: str, data: bytes) -> None:
        if name != SEEN_NAME:
            super().replace(name, data)


def new_disk(broken: str, files: dict[str, bytes] | None = None) -> SimulatedDisk:
    if broken == NO_FSYNC:
        return DiskWithoutFsync(files)
    if broken == NO_DIRSYNC:
        return DiskWithoutDirectorySync(files)
    if broken == NO_TRUNCATE:
        return DiskWithoutTruncate(files)
    if broken == NO_IDS:
        return DiskWithoutIds(files)
    return SimulatedDisk(files)


def after_step(broken: str, workload: Workload) -> None:
    if broken == ACK_BEFORE_WRITE:
        store = workload.world.store
        store.synced = store.position


def as_read(broken: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """no-crc: every checksum fits, whatever became of the bytes it was made for; no-groups: nothing says that messages
    and their ids belong together; no-counts: nothing says how often any came back."""
    if broken not in (NO_CRC, NO_GROUPS, NO_COUNTS):
        return files
    change = {NO_CRC: _believed, NO_GROUPS: _ungrouped, NO_COUNTS: _uncounted}[broken]
    believed = dict(files)
    for name, data in files.items():
        stream = parse_name(name, FILE_ENDING)
        if name.endswith(".log"):
            believed[name] = change(data, int(name[:-4]), FILE_HEADER_SIZE)
        elif stream is not None and len(data) > 12:
            believed[name] = change(data, file_seed(*stream), int.from_bytes(data[10:12], "big"))
    return believed


def _ungrouped(data: bytes, segment: int, header_size: int) -> bytes:
    return _without(TOGETHER, data, segment, header_size)


def _uncounted(data: bytes, segment: int, header_size: int) -> bytes:
    return _without(RETURNED, data, segment, header_size)


def _without(kind: int, data: bytes, segment: int, header_size: int) -> bytes:
    walk = RecordWalk(data, header_size, segment)
    changed = bytearray(data)
    while walk.next():
        if walk.kind() == kind:
            # Another kind, which means nothing to anybody.
            at, payload = walk.at, walk.payload()
            changed[at + 2] = 0xFE
            changed[at + 8 : at + 12] = struct.pack(">I", zlib.crc32(payload, seed(segment, at, 0xFE, len(payload))))
    return bytes(changed)


def _believed(data: bytes, segment: int, header_size: int) -> bytes:
    fixed = bytearray(data)
    if len(data) >= header_size:
        fixed[header_size - 4 : header_size] = struct.pack(">I", zlib.crc32(data[: header_size - 4]))
    at = header_size
    while data[at : at + 2] == b"WR":
        length = int.from_bytes(data[at + 4 : at + 8], "big")
        payload = data[at + RECORD_HEADER_SIZE : at + RECORD_HEADER_SIZE + length]
        crc = zlib.crc32(payload, seed(segment, at, data[at + 2], length))
        fixed[at + 8 : at + 12] = struct.pack(">I", crc)
        at += RECORD_HEADER_SIZE + length
    return bytes(fixed)
