"""Damage to a store at rest: twenty queues on a simulated disk, one wound at a time, and a close look at what is left.

    python -m tests.faults.damage --corruptions 100000 --seed 7

Every message says in its body where it belongs, and the store is read record by record beforehand, so that for every
wound it is known which messages it may cost.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from random import Random

from tests.faults import sabotage
from tests.faults.crash_states import say
from tests.faults.ledger import Violation
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.store.format import FILE_HEADER_SIZE, MESSAGE, SETTLED, read_places
from warren.store.walk import RecordWalk

QUEUES = [f"q{number}" for number in range(20)]
KINDS = ("flip a bit", "cut the end", "zero the end", "delete the file", "an old copy", "double the end", "zero a page")


@dataclass
class Wound:
    kind: str
    file: str
    # Which bytes of the file are not what they were.
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.kind} of {self.file} [{self.start}, {self.end})"


class Patient:
    """A store as a broker left it, with an older copy of every file."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        world = StoredWorld(SimulatedDisk(), None, 4096)
        self._fill(world, random, "old", 60)
        self.older = world.disk.files()
        self._fill(world, random, "new", 80)
        world.sync()
        world.store.close()
        self.files = world.disk.files()
        self.definitions = world.definitions
        self.checks = 0
        self.lost = 0
        self.lanes = {lane.number: lane.queue.name for lane in world.store.lanes.values()}
        self.expected = {name: world.restarted(SimulatedDisk(self.files)).drain(name) for name in QUEUES}

    def _fill(self, world: StoredWorld, random: Random, age: str, count: int) -> None:
        for name in QUEUES:
            if name not in world.vhost.queues:
                world.declare(name)
        for number in range(count):
            names = random.sample(QUEUES, random.choice((1, 1, 1, 2, 5)))
            body = f"{age}-{number}-{'+'.join(names)}:" + "z" * random.choice((5, 50, 300, 1500))
            world.publish(body, *names)
            for _ in range(random.choice((1, 2, 4))):
                world.ack_next(random.choice(QUEUES[:15]))
            world.sync()
            world.chore()
            world.chore()

    # -- wounding --------------------------------------------------------------------------------------------------

    def wound(self, random: Random) -> tuple[Wound, dict[str, bytes]]:
        files = dict(self.files)
        if random.random() < 0.5:
            # As after a crash before they were written: everything is read from the logs.
            files = {name: data for name, data in files.items() if not name.endswith(".index")}
        kind = random.choice(KINDS)
        name = random.choice(sorted(name for name in files if kind != "an old copy" or name in self.older))
        data = files[name]
        start, end = 0, len(data)
        if kind == "flip a bit":
            start = random.randrange(len(data))
            end = start + 1
            files[name] = data[:start] + bytes([data[start] ^ 1 << random.randrange(8)]) + data[end:]
        elif kind == "cut the end":
            start = max(0, len(data) - random.randint(1, 64))
            files[name] = data[:start]
        elif kind == "zero the end":
            start = max(0, len(data) - random.randint(1, 600))
            files[name] = data[:start] + bytes(len(data) - start)
        elif kind == "delete the file":
            del files[name]
        elif kind == "an old copy":
            start = len(self.older[name]) if data.startswith(self.older[name]) else 0
            files[name] = self.older[name]
        elif kind == "double the end":
            start = len(data)
            files[name] = data + data[-random.randint(1, min(600, len(data))) :]
        else:
            start = random.randrange(len(data)) // 512 * 512
            end = min(start + 512, len(data))
            files[name] = data[:start] + bytes(end - start) + data[end:]
        return Wound(kind, name, start, end), files

    # -- looking ---------------------------------------------------------------------------------------------------

    def check(self, wound: Wound, files: dict[str, bytes], broken: str = "") -> None:
        disk = SimulatedDisk(sabotage.as_read(broken, files))
        world = StoredWorld(disk, self.definitions, 4096)
        lost: list[tuple[str, str]] = []
        extra: list[tuple[str, str]] = []
        for name in QUEUES:
            found = world.drain(name)
            _check_bodies(name, found)
            lost += [(name, body) for body in self.expected[name] if body not in found]
            extra += [(name, body) for body in found if body not in self.expected[name]]
            kept = [body for body in found if body in self.expected[name]]
            if kept != [body for body in self.expected[name] if body in kept]:
                raise Violation(f"{wound}: {name} is out of order or has a message twice")
        self._check_lost(wound, lost, world.lines, files)
        if extra and not self._may_resurrect(wound):
            raise Violation(f"{wound}: {extra[0][1][:30]} came back to {extra[0][0]}")
        is_missed = wound.kind == "delete the file" and wound.file.endswith(".settled")
        if is_missed and not any(f"{wound.file} is missing" in line for line in world.lines):
            raise Violation(f"{wound}: nobody was told that acknowledged messages may come back: {world.lines}")
        self.lost += len(lost)
        if self.checks % 4 == 0:
            self._check_that_it_works(wound, world)
        self.checks += 1

    def _check_lost(self, wound: Wound, lost: list[tuple[str, str]], lines: list[str], files: dict[str, bytes]) -> None:
        allowed = self._at_stake(wound)
        for name, body in lost:
            if (name, body) not in allowed:
                raise Violation(f"{wound}: {name} lost {body[:30]}, which was not damaged; {lines}")
        if wound.file.replace(".log", ".index") in files:
            for name, body in lost:
                if not any(f"'{name}'" in line for line in lines):
                    raise Violation(f"{wound}: nobody was told that {name} lost {body[:30]}: {lines}")
        if lost and not lines and self._is_knowable(wound, files):
            raise Violation(f"{wound}: {lost[0][0]} lost {len(lost)} messages, and nobody was told")

    def _is_knowable(self, wound: Wound, files: dict[str, bytes]) -> bool:
        """A log without its index that ends where a record ends, or is not there, only the next one misses."""
        if wound.kind not in ("delete the file", "an old copy") or wound.file.replace(".log", ".index") in files:
            return True
        return wound.kind == "an old copy" and f"{int(wound.file[:-4]) + 1:012d}.log" in files

    def _at_stake(self, wound: Wound) -> set[tuple[str, str]]:
        """What stood in the damaged bytes of a log. Index and settled files cost nothing."""
        if not wound.file.endswith(".log"):
            return set()
        data = self.files[wound.file]
        at_stake: set[tuple[str, str]] = set()
        for kind, start, end in _records(data, int(wound.file[:-4])):
            if kind == MESSAGE and start < wound.end and end > wound.start:
                body = _body(data[start:end])
                at_stake |= {(self.lanes.get(place.lane, ""), body) for place in read_places(data, start)}
        return at_stake

    def _may_resurrect(self, wound: Wound) -> bool:
        """Acks that were in the damaged bytes, or in an older settled file, are forgotten."""
        if wound.file.endswith(".settled"):
            return True
        if not wound.file.endswith(".log"):
            return False
        records = _records(self.files[wound.file], int(wound.file[:-4]))
        # A moved message ends its old place as well.
        return any(
            kind in (SETTLED, MESSAGE) and start < wound.end and end > wound.start for kind, start, end in records
        )

    def _check_that_it_works(self, wound: Wound, world: StoredWorld) -> None:
        world.publish("after:", QUEUES[0], QUEUES[19])
        world.sync()
        for _ in range(3):
            world.chore()
        again = world.restarted(world.disk.lose_all())
        for name in (QUEUES[0], QUEUES[19]):
            if again.drain(name)[-1:] != ["after:"]:
                raise Violation(f"{wound}: {name} does not keep what is published now")


def _check_bodies(name: str, bodies: list[str]) -> None:
    for body in bodies:
        head, _, filler = body.partition(":")
        if name not in head.split("-")[-1].split("+") or filler.strip("z") or len(filler) not in (5, 50, 300, 1500):
            raise Violation(f"{name} serves a wrong body: {body[:60]!r}")


def _records(data: bytes, segment: int) -> list[tuple[int, int, int]]:
    records: list[tuple[int, int, int]] = []
    walk = RecordWalk(data, FILE_HEADER_SIZE, segment)
    while walk.next():
        records.append((walk.kind(), int(walk.at), int(walk.end)))
    assert walk.damage == []
    return records


def _body(record: bytes) -> str:
    """Frames of content: a header frame, then one body frame, whose end mark is the last byte."""
    size = int.from_bytes(record[-1 - _size(record) - 4 : -1 - _size(record)], "big")
    return record[-1 - size : -1].decode()


def _size(record: bytes) -> int:
    for size in range(1, len(record) - 8):
        if record[-1 - size - 7] == 3 and int.from_bytes(record[-1 - size - 4 : -1 - size], "big") == size:
            return size
    raise AssertionError("no body frame")


def run(corruptions: int, seed: int, broken: str = "") -> int:
    """Gives how many messages were lost, all of them rightly."""
    random = Random(seed)
    patient = Patient(seed)
    lost = 0
    for number in range(corruptions):
        if number % 1000 == 999:
            lost += patient.lost
            patient = Patient(seed + number)
        wound, files = patient.wound(random)
        try:
            patient.check(wound, files, broken)
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{wound}: {error!r}") from error
    return lost + patient.lost


def main() -> None:
    parser = argparse.ArgumentParser(description="Damage the files of a store and check what is lost.")
    parser.add_argument("--corruptions", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=Random().getrandbits(31))
    parser.add_argument("--break", dest="broken", default="", choices=["", sabotage.NO_CRC])
    options = parser.parse_args()
    say(f"seed {options.seed}")
    try:
        lost = run(options.corruptions, options.seed, options.broken)
    except Violation as violation:
        say(f"VIOLATION: {violation}")
        sys.exit(1)
    say(f"{options.corruptions} corruptions, {lost} damaged messages lost, 0 violations, seed {options.seed}")


if __name__ == "__main__":
    main()
