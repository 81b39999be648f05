"""Memory and disk: what counts as the limit, and that changes are told once."""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path

import pytest

from warren.server.alarms import AlarmWatch, GivingBack, disk_free, give_back_memory, memory_total, memory_used

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cgroups(folder: Path, own: str, **limits: str) -> tuple[Path, Path]:
    (folder / "own").write_text(own)
    for name, limit in limits.items():
        path = folder / name.replace("__", "/").replace("_max", ".max").replace("_limit", ".limit_in_bytes")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit)
    return folder, folder / "own"


def test_without_control_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert memory_total(tmp_path, tmp_path / "missing") == PHYSICAL


def test_the_limit_of_the_own_control_group_counts(tmp_path: Path) -> None:
    assert memory_total(*cgroups(tmp_path, "0::/box\n", box__memory_max="1000000\n")) == 1_000_000


def test_a_container_sees_its_limit_at_the_root(tmp_path: Path) -> None:
    assert memory_total(*cgroups(tmp_path, "0::/\n", memory_max="2000000\n")) == 2_000_000


def test_control_groups_of_the_first_version_count(tmp_path: Path) -> None:
    root, own = cgroups(tmp_path, "9:cpu:/\n4:memory:/box\n", memory__box__memory_limit="3000000\n")
    assert memory_total(root, own) == 3_000_000


def test_max_is_no_limit(tmp_path: Path) -> None:
    assert memory_total(*cgroups(tmp_path, "0::/\n", memory_max="max\n")) == PHYSICAL


def test_a_python_process_uses_some_megabytes() -> None:
    assert 1_000_000 < memory_used() < PHYSICAL


def test_memory_that_was_freed_is_given_back() -> None:
    """In holes between what is still used: without a word glibc would keep all of them."""
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("only glibc keeps what was freed")
    blocks = [b"x" * 100_000 for _ in range(1000)]
    kept = blocks[::50]
    blocks.clear()
    give_back_memory()
    least = memory_used()
    del kept
    blocks = [b"x" * 100_000 for _ in range(1000)]
    kept = blocks[::50]
    full = memory_used()
    blocks.clear()
    give_back_memory()
    assert full - memory_used() > 80_000_000
    assert memory_used() < least + 20_000_000
    assert len(kept) == 20


def test_to_give_memory_back_takes_a_fiftieth_of_the_time_at_most() -> None:
    now = 1000.0
    given: list[float] = []

    def give_back() -> None:
        nonlocal now
        given.append(now)
        # As long as a gigabyte takes, then as long as nothing does.
        now += 0.5 if len(given) == 1 else 0.0

    giving = GivingBack(give_back, lambda: now)
    for _ in range(40):
        giving.try_now()
        now += 1
    assert given[:2] == [1000.0, 1000.0 + 0.5 + 25]
    assert given[2:] == [given[1] + second for second in range(1, len(given) - 1)]


def test_the_closer_the_limit_of_memory_the_sooner_the_next_look() -> None:
    told: list[tuple[str, bool]] = []
    used = memory_used()
    assert watch(told, used + (1 << 40), 0, None).check() == 1.0
    assert watch(told, used + 100_000_000, 0, None).check() < 0.3
    assert told == []


def watch(told: list[tuple[str, bool]], memory_limit: int, disk_limit: int, folder: Path | None) -> AlarmWatch:
    loop = asyncio.new_event_loop()
    loop.close()
    return AlarmWatch(loop, lambda name, is_on: told.append((name, is_on)), memory_limit, disk_limit, folder)


def test_an_alarm_is_told_when_it_changes_and_not_again(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    alarms = watch(told, 1, disk_free(tmp_path) * 2, tmp_path)
    alarms.check()
    alarms.check()
    assert told == [("memory", True), ("disk", True)]
    alarms.memory_limit = PHYSICAL * 2
    alarms.disk_limit = 1
    alarms.check()
    alarms.check()
    assert told[2:] == [("memory", False), ("disk", False)]


def test_limits_of_zero_watch_nothing(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    watch(told, 0, 0, tmp_path).check()
    assert told == []


def test_without_a_data_folder_no_disk_is_watched() -> None:
    told: list[tuple[str, bool]] = []
    watch(told, 0, 2**62, None).check()
    assert told == []
