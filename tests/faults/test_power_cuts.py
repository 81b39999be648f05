"""What a loss of power may leave of a real broker's files; `make faults` takes a thousand moments."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults import power_cuts
from tests.faults.recorded_disk import Call, RecordedDisk, way_of
from tests.faults.syscalls import reason_to_skip
from tests.store.simulated_disk import SimulatedDisk

needs_gcc = pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip()))
ROOT = Path("/root")


@needs_gcc
@pytest.mark.timeout(180)
def test_whatever_a_loss_of_power_takes_nothing_promised_is_lost() -> None:
    report = power_cuts.run(images=25, seed=1)
    assert report.is_good(), report.complaints()
    assert report.points == 25
    assert report.verdict.confirmed > 500
    # Of everything that it is about: bytes, sizes, names and folders.
    assert min(report.calls[kind] for kind in "wtrumobe") > 0


@needs_gcc
@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("sabotage", ["nofsync", "no-dirsync", "late-definitions"])
def test_a_broker_that_promises_too_early_is_found_out(sabotage: str) -> None:
    report = power_cuts.run(images=3, seed=2, sabotage=sabotage)
    assert report.verdict.violations()


def disk_after(*calls: tuple[str, str, int, bytes]) -> RecordedDisk:
    disk = RecordedDisk(ROOT)
    for kind, path, number, data in calls:
        disk.happen(Call(0.0, kind, str(ROOT / path) if path else str(ROOT), number, data))
    return disk


def test_what_is_synced_with_its_names_is_there_after_every_loss() -> None:
    disk = disk_after(
        ("m", "data", 0, b""),
        ("o", "data/log.new", 0, b""),
        ("w", "data/log.new", 0, b"kept"),
        ("b", "data/log.new", 7, b""),
        ("e", "data/log.new", 7, b""),
        ("r", "data/log", 0, b"/root/data/log.new"),
        ("b", "data", 8, b""),
        ("e", "data", 8, b""),
        ("b", "", 9, b""),
        ("e", "", 9, b""),
    )
    for seed in range(50):
        assert disk.after(way_of(Random(seed))) == {"data": None, "data/log": b"kept"}


def test_what_is_written_during_a_sync_is_not_covered_by_it() -> None:
    disk = disk_after(
        ("o", "log", 0, b""),
        ("b", "", 9, b""),
        ("w", "log", 0, b"old"),
        ("b", "log", 7, b""),
        ("w", "log", 3, b"new"),
        ("o", "late", 0, b""),
        ("e", "", 9, b""),
        ("e", "log", 7, b""),
    )
    assert disk.after(SimulatedDisk.lose_all) == {"log": b"old"}
    assert disk.after(SimulatedDisk.kill) == {"log": b"oldnew", "late": b""}


def test_a_sync_that_did_not_come_to_its_end_promises_nothing() -> None:
    disk = disk_after(
        ("o", "log", 0, b""), ("b", "", 9, b""), ("e", "", 9, b""), ("w", "log", 0, b"old"), ("b", "log", 7, b"")
    )
    assert disk.after(SimulatedDisk.lose_all) == {"log": b""}


def test_a_folder_whose_name_is_lost_takes_along_what_is_in_it() -> None:
    disk = disk_after(("m", "data", 0, b""), ("o", "data/log", 0, b""), ("b", "data", 8, b""), ("e", "data", 8, b""))
    assert disk.after(SimulatedDisk.lose_all) == {}


def test_the_room_of_a_file_and_a_cut_happen_again() -> None:
    disk = disk_after(
        ("o", "log", 0, b""), ("t", "log", 6, b""), ("w", "log", 0, b"abcd"), ("t", "log", 2, b""), ("t", "log", 3, b"")
    )
    assert disk.after(SimulatedDisk.kill) == {"log": b"ab\0"}


def test_a_removal_that_was_not_synced_may_be_undone_and_one_that_was_may_not() -> None:
    disk = disk_after(("o", "log", 0, b""), ("b", "", 9, b""), ("e", "", 9, b""), ("u", "log", 0, b""))
    found = {tuple(disk.after(way_of(Random(seed)))) for seed in range(50)}
    assert found == {(), ("log",)}
    for kind in "be":
        disk.happen(Call(0.0, kind, str(ROOT), 9, b""))
    assert disk.after(way_of(Random(1))) == {}
