"""A write or sync that fails is final: nothing is confirmed after it, and a restart finds all that was confirmed.

The N-th change of the disk fails, for every N of a run.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.crash_states import observe
from tests.faults.crash_workload import Workload
from tests.faults.ledger import Violation
from tests.store.simulated_disk import Fault, SimulatedDisk

STEPS = 40


class DiskThatHidesErrors(SimulatedDisk):
    """The negative control: failures are swallowed, as if they had not happened."""

    def _change(self, what: str) -> Fault | None:
        try:
            return super()._change(what)
        except OSError:
            self.has_hidden = True
            return None

    def append(self, handle: int, data: bytes) -> None:
        self.has_hidden = False
        super().append(handle, b"")
        if not self.has_hidden:
            self.handles[handle].write(data)


def fails_at(disk: SimulatedDisk, call: int, fault: Fault, seed: int) -> bool:
    """Work until the failure, then crash in several ways. False when nothing failed."""
    workload = Workload.begin(disk, seed)
    disk.fail(call, fault)
    failed = False
    for _ in range(STEPS):
        try:
            workload.random_step()
        except OSError:
            failed = True
            break
    world = workload.world
    if failed:
        check_nothing_more_is_confirmed(workload)
    random = Random(seed + call)
    for image in (disk.kill(), disk.lose_all(), disk.crash(random), disk.crash(random)):
        observed = observe(SimulatedDisk(image.files()), world.definitions)
        workload.ledger.check(observed, world.definitions, world.store.synced, False)
    return failed


def check_nothing_more_is_confirmed(workload: Workload) -> None:
    """Somebody went on although an error was raised: what it failed on must not be confirmed later."""
    store = workload.world.store
    synced = store.synced
    try:
        store.write()
        job = store.begin_sync()
        if job is not None:
            job.run(workload.world.disk)
    except OSError:
        pass
    assert store.synced == synced


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_failure_at_any_call_is_final_and_a_restart_finds_what_was_confirmed(fault: Fault, seed: int) -> None:
    workload = Workload.begin(disk := SimulatedDisk(), seed)
    before = disk.calls
    for _ in range(STEPS):
        workload.random_step()
    calls = disk.calls - before
    failed = [fails_at(SimulatedDisk(), call, fault, seed) for call in range(1, calls + 2)]
    assert sum(failed) >= 8
    assert not failed[-1]


def test_a_disk_that_hides_its_errors_is_found_out() -> None:
    with pytest.raises(Violation):
        for call in range(1, 200):
            fails_at(DiskThatHidesErrors(), call, Fault.EIO, 0)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_nothing_is_written_after_a_failed_write(fault: Fault) -> None:
    workload = Workload.begin(SimulatedDisk(), 1)
    store = workload.world.store
    workload.world.publish("m", "one")
    workload.world.disk.fail(1, fault)
    with pytest.raises(OSError, match="space" if fault is not Fault.EIO else "Input/output"):
        store.write()
    before = workload.world.disk.files()
    with pytest.raises(OSError, match="space" if fault is not Fault.EIO else "Input/output"):
        store.write()
    assert store.begin_sync() is None
    store.close()
    assert workload.world.disk.files() == before
