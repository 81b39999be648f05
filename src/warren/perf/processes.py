"""What the system knows about processes, the broker's above all: CPU time and resident memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from warren.errors import WarrenError

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
# Places in /proc/PID/stat after the command, which may hold spaces and ends with a parenthesis.
_USER_TIME: Final = 11
_SYSTEM_TIME: Final = 12


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of all their threads, together."""
    ticks = 0
    for pid in pids:
        fields = _read(pid, "stat").rpartition(")")[2].split()
        ticks += int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
    return ticks / _TICKS


def busy_seconds() -> float:
    """Of all processors, whatever they did, without idling and waiting for disks."""
    user, nice, system, _, _, interrupts, soft_interrupts, *_ = (
        Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return sum(map(int, (user, nice, system, interrupts, soft_interrupts))) / _TICKS


def resident_bytes(pids: Sequence[int]) -> int:
    return sum(int(_read(pid, "statm").split()[1]) * _PAGE for pid in pids)


def _read(pid: int, name: str) -> str:
    try:
        return Path("/proc", str(pid), name).read_text()
    except OSError as error:
        raise WarrenError(f"there is no process {pid}") from error
