"""Crash states: end the process before every operation on the disk, lose what may be lost, recover, check the ledger.

    python -m tests.faults.crash_states --states 500000 --seed 7

All workloads of up to three steps, then random ones of fifty. A part of the states goes on: a crash at every
operation of the recovery, a second recovery, more work and a second crash. A violation is printed with the workload
that shows it, and ends the run with 1. `--break` sabotages the disk or the workload: then it must.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from random import Random

from tests.faults import sabotage
from tests.faults.crash_workload import STEPS, Workload
from tests.faults.ledger import Ledger, Observed, Violation
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import Definitions, StoredWorld

LONG_STEPS = 50


class Found(Exception):
    """A violation, with everything that is needed to see it again."""


class Explorer:
    def __init__(self, seed: int, ways: int, deeper: float, broken: str = "") -> None:
        self.seed = seed
        # How many crashes are tried at each operation, besides a killed process and a total loss.
        self.ways = ways
        # The part of the states that is followed by a second crash.
        self.deeper = deeper
        self.broken = broken
        self.states = 0
        self._random = Random(seed)
        self._trail: list[str] = []

    # -- workloads -------------------------------------------------------------------------------------------------

    def short(self, steps: tuple[str, ...]) -> None:
        """Crash in the last step only: shorter workloads crash in the earlier ones."""
        disk = sabotage.new_disk(self.broken)
        workload = Workload.begin(disk, self.seed)
        self._trail = [f"seed {self.seed}", *steps]
        for step in steps[:-1]:
            self._work(workload, step)
        self._watch(workload, 1.0)
        self._work(workload, steps[-1])
        self._crash(workload, "the end")

    def long(self, number: int, share: float) -> None:
        """Fifty random steps, in which the given share of the operations sees a crash."""
        disk = sabotage.new_disk(self.broken)
        seed = self.seed * 1_000_003 + number
        workload = Workload.begin(disk, seed, Random(seed).choice((512, 1024, 4096)))
        self._trail = [f"seed {self.seed}", f"long workload {number}"]
        self._watch(workload, share)
        for _ in range(LONG_STEPS):
            self._work(workload, "")
        self._crash(workload, "the end")

    def _work(self, workload: Workload, step: str) -> None:
        try:
            if step:
                workload.step(step)
            else:
                workload.random_step()
            sabotage.after_step(self.broken, workload)
        except (Violation, Found):
            raise
        except Exception as error:
            raise Found(f"{self._story(workload)}: {error!r}") from error

    def _watch(self, workload: Workload, share: float) -> None:
        def before(what: str) -> None:
            if share >= 1.0 or self._random.random() < share:
                self._crash(workload, what)
            workload.loop_step()

        workload.world.disk.before = before

    def _story(self, workload: Workload) -> str:
        return " / ".join([*self._trail, "did: " + ", ".join(workload.done)])

    # -- crashes ---------------------------------------------------------------------------------------------------

    def _crash(self, workload: Workload, what: str) -> None:
        disk = workload.world.disk
        synced = workload.world.store.synced
        definitions = workload.world.definitions
        for way in range(self.ways + 2):
            image = disk.kill() if way == 0 else disk.lose_all() if way == 1 else disk.crash(self._random)
            files = sabotage.as_read(self.broken, image.files())
            try:
                self._recover(files, workload.ledger, definitions, synced, way == 0)
                if self._random.random() < self.deeper:
                    self._crash_in_recovery(files, workload.ledger, definitions, synced)
                    self._crash_again(files, workload.ledger, definitions, synced)
            except Exception as error:
                found = Found(f"{self._story(workload)} / crash before {what}, way {way}: {error!r}")
                found.add_note(repr({name: len(data) for name, data in files.items()}))
                raise found from error

    def _recover(
        self, files: dict[str, bytes], ledger: Ledger, definitions: Definitions, synced: int, was_killed: bool
    ) -> Observed:
        self.states += 1
        observed = observe(SimulatedDisk(files), definitions)
        ledger.check(observed, definitions, synced, was_killed)
        return observed

    def _crash_in_recovery(
        self, files: dict[str, bytes], ledger: Ledger, definitions: Definitions, synced: int
    ) -> None:
        disk = sabotage.new_disk(self.broken, files)

        def before(what: str) -> None:
            image = sabotage.as_read(self.broken, disk.crash(self._random).files())
            self._recover(image, ledger, definitions, synced, False)

        disk.before = before
        StoredWorld(disk, definitions, 1024)
        disk.before = None

    def _crash_again(self, files: dict[str, bytes], ledger: Ledger, definitions: Definitions, synced: int) -> None:
        """Recover, see what is there, work on it, and crash once more: nothing may be lost or come back."""
        disk = sabotage.new_disk(self.broken, files)
        world = StoredWorld(disk, definitions, 1024)
        observed = self._recover(disk.lose_all().files(), ledger, definitions, synced, False)
        workload = Workload(world, ledger.after(observed, definitions), self._random.getrandbits(32), "n")
        for _ in range(self._random.randint(0, 12)):
            workload.random_step()
            sabotage.after_step(self.broken, workload)
            image = sabotage.as_read(self.broken, disk.crash(self._random).files())
            self._recover(image, workload.ledger, world.definitions, world.store.synced, False)


def observe(disk: SimulatedDisk, definitions: Definitions) -> Observed:
    """What the queues hold after a restart on this disk."""
    world = StoredWorld(disk, definitions, 1024)
    return Observed(world, list(definitions))


def short_workloads(length: int) -> Iterator[tuple[str, ...]]:
    for count in range(1, length + 1):
        yield from itertools.product(STEPS, repeat=count)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run(states: int, seed: int, broken: str, progress: bool) -> int:
    """Gives the number of states; raises Found at the first violation."""
    explorer = Explorer(seed, 2, 0.05, broken)
    began = time.monotonic()
    shown = 0
    for steps in short_workloads(3):
        explorer.short(steps)
        if explorer.states >= states:
            break
    number = 0
    while explorer.states < states:
        explorer.long(number, 1.0)
        number += 1
        if progress and explorer.states - shown >= 10_000:
            shown = explorer.states
            say(f"{shown} states, {number} long workloads, {time.monotonic() - began:.0f} s")
    return explorer.states


def main() -> None:
    parser = argparse.ArgumentParser(description="Crash the store at every disk operation and check what is left.")
    parser.add_argument("--states", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=Random().getrandbits(31))
    parser.add_argument("--break", dest="broken", default="", choices=["", *sabotage.KINDS])
    options = parser.parse_args()
    say(f"seed {options.seed}")
    try:
        states = run(options.states, options.seed, options.broken, True)
    except Found as found:
        say(f"VIOLATION: {found}")
        sys.exit(1)
    say(f"{states} states, 0 violations, seed {options.seed}")


if __name__ == "__main__":
    main()
