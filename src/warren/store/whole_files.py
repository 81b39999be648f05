"""What recovery does with one file at a time, whatever is in it."""

from __future__ import annotations

from errno import EIO

from mypy_extensions import i64

from warren.store.disk import Disk


def numbers_of(names: list[str], ending: str) -> list[int]:
    """Of the files that are named by a number and this ending, ascending."""
    return sorted(
        [int(name[: -len(ending)]) for name in names if name.endswith(ending) and name[: -len(ending)].isdigit()]
    )


def read_whole(disk: Disk, name: str) -> bytes:
    return read_start(disk, name, disk.size(name))


def read_or_nothing(disk: Disk, name: str) -> bytes:
    return start_or_nothing(disk, name, disk.size(name))


def start_or_nothing(disk: Disk, name: str, size: i64) -> bytes:
    """Of a file that can be done without: what the disk cannot read is as good as damaged."""
    try:
        return read_start(disk, name, size)
    except OSError as error:
        if error.errno != EIO:
            raise
        return b""


def read_start(disk: Disk, name: str, size: i64) -> bytes:
    return read_range(disk, name, 0, size)


def read_range(disk: Disk, name: str, start: i64, size: i64) -> bytes:
    handle = disk.open(name)
    try:
        return disk.read(handle, size, start)
    finally:
        disk.close(handle)


def cut_and_sync(disk: Disk, name: str, size: i64) -> None:
    """What was only in the operating system's memory before the crash becomes durable; what does not count goes."""
    handle = disk.open(name)
    try:
        if disk.size(name) > size:
            disk.truncate(handle, size)
        disk.sync(handle)
    finally:
        disk.close(handle)
