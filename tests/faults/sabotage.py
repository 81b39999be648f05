"""Negative controls: ways to make a store break its promises, so that the tests can show that they would notice.

Nothing in the product knows of them: they wrap the disk, or what is told to the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.store.simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from tests.faults.crash_workload import Workload

NO_FSYNC = "nofsync"
NO_DIRSYNC = "no-dirsync"
NO_CRC = "no-crc"
ACK_BEFORE_WRITE = "ack-before-write"
KINDS = (NO_FSYNC, NO_DIRSYNC, NO_CRC, ACK_BEFORE_WRITE)


class DiskWithoutFsync(SimulatedDisk):
    """Says that bytes are durable when they are not."""

    def sync(self, handle: int) -> None:
        self._change("sync")


class DiskWithoutDirectorySync(SimulatedDisk):
    """Says that names are durable when they are not."""

    def sync_directory(self) -> None:
        self._change("sync directory")


def new_disk(broken: str, files: dict[str, bytes] | None = None) -> SimulatedDisk:
    if broken == NO_FSYNC:
        return DiskWithoutFsync(files)
    if broken == NO_DIRSYNC:
        return DiskWithoutDirectorySync(files)
    return SimulatedDisk(files)


def after_step(broken: str, workload: Workload) -> None:
    if broken == ACK_BEFORE_WRITE:
        store = workload.world.store
        store.synced = store.position


@contextmanager
def reading(broken: str) -> Iterator[None]:
    """no-crc: what is read is believed if only its length fits."""
    yield
