"""Watches memory, disk and file descriptors, and tells the core when to block publishers."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from warren.server.turn.gate import descriptor_limit

log = logging.getLogger("warren.alarms")

POLL_SECONDS = 1.0
POLL_SECONDS_LEAST = 0.05
# Neither disk nor memory fills faster than this: so far from the limit, so long may the next look wait.
FILL_BYTES_PER_SECOND = 512 * 1024 * 1024
# To give memory back takes 0.2 to 0.5 s for each 600 MB, and nobody is served meanwhile: a thread for it would hold
# malloc's lock. So it may take this part of the time, and publishers that are blocked wait a little longer.
GIVE_BACK_SHARE = 0.02
# Of the open-file limit: beyond it no segment could be begun any more.
FILES_SHARE = 0.95
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_total(cgroup_root: Path = _CGROUP_ROOT, own_cgroups: Path = Path("/proc/self/cgroup")) -> int:
    """What this process may use: the machine's memory, or less where a control group says so."""
    total = os.sysconf("SC_PHYS_PAGES") * _PAGE
    for path in _limit_files(cgroup_root, own_cgroups):
        try:
            total = min(total, int(path.read_text()))
        except (OSError, ValueError):
            # Not there, or "max": no limit from this one.
            continue
    return total


def memory_used() -> int:
    """Resident bytes of this process."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        # Not Linux: the peak is all that there is.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def give_back_memory() -> None:
    """To the system, what is free but kept for later. Only glibc keeps it, and knows this call."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)


class GivingBack:
    """Not more often than it may take time. `clock` tells seconds."""

    def __init__(
        self, give_back: Callable[[], None] = give_back_memory, clock: Callable[[], float] = monotonic
    ) -> None:
        self._give_back = give_back
        self._clock = clock
        self._not_before = 0.0

    def try_now(self) -> None:
        begin = self._clock()
        if begin < self._not_before:
            return
        self._give_back()
        end = self._clock()
        self._not_before = end + (end - begin) / GIVE_BACK_SHARE


def files_used() -> int:
    """Open file descriptors of this process, sockets included."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        # Not Linux.
        return len(os.listdir("/dev/fd"))


def disk_free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _limit_files(root: Path, own: Path) -> list[Path]:
    files = [root / "memory.max", root / "memory" / "memory.limit_in_bytes"]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return files
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inner = path.lstrip("/")
        if controllers == "":
            files.append(root / inner / "memory.max")
        elif "memory" in controllers.split(","):
            files.append(root / "memory" / inner / "memory.limit_in_bytes")
    return files


class AlarmWatch:
    """Polls; an alarm that did not change is not told again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        set_alarm: Callable[[str, bool], None],
        memory_limit: int,
        disk_limit: int,
        folder: Path | None,
    ) -> None:
        self._loop = loop
        self._set_alarm = set_alarm
        # 0 is off.
        self.memory_limit = memory_limit
        self.disk_limit = disk_limit
        self._folder = folder
        self.file_limit = descriptor_limit()
        self._giving_back = GivingBack()
        self._raised: set[str] = set()
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        delay = POLL_SECONDS
        try:
            delay = self.check()
        except OSError as error:
            log.error("memory and disk could not be measured: %s", error)
        self._handle = self._loop.call_later(delay, self.start)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def check(self) -> float:
        """How long until the next look."""
        self._tell("fd", files_used() > self.file_limit * FILES_SHARE)
        return min(self._check_memory(), self._check_disk())

    def _check_memory(self) -> float:
        if self.memory_limit <= 0:
            return POLL_SECONDS
        if memory_used() > self.memory_limit:
            # What was freed counts until it is given back: after a flood publishers would stay blocked for good.
            self._giving_back.try_now()
        room = self.memory_limit - memory_used()
        self._tell("memory", room < 0)
        return POLL_SECONDS if room < 0 else _patience_for(room)

    def _check_disk(self) -> float:
        if self._folder is None or self.disk_limit <= 0:
            return POLL_SECONDS
        room = disk_free(self._folder) - self.disk_limit
        self._tell("disk", room < 0)
        return _patience_for(abs(room))

    def _tell(self, name: str, is_on: bool) -> None:
        if is_on == (name in self._raised):
            return
        self._raised ^= {name}
        log.warning("%s alarm %s", name, "set: publishers are blocked" if is_on else "cleared")
        self._set_alarm(name, is_on)


def _patience_for(room: int) -> float:
    return min(POLL_SECONDS, max(POLL_SECONDS_LEAST, room / FILL_BYTES_PER_SECOND))
