"""Damage to a stream's files at rest costs what is damaged, is told, and never keeps the store from opening."""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.stream_states import Records, records_of
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import Definitions, StoredWorld
from warren.broker.stream.stream import Stream
from warren.store.stream_format import (
    FILE_ENDING,
    INDEX_ENDING,
    STREAM_MESSAGE,
    file_seed,
    offset_of,
    parse_name,
    read_file_header,
)
from warren.store.walk import RecordWalk

COUNT = 60


class Patient:
    """A stream of several files as a broker left it."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        world = StoredWorld(SimulatedDisk())
        world.declare("s", queue_type="stream", stream_max_segment_size_bytes=1500)
        for number in range(COUNT):
            world.publish(f"{number}:" + "x" * random.choice((5, 60, 300)), "s")
            if random.random() < 0.5:
                world.sync()
        world.settle_down()
        world.store.close()
        self.files = world.disk.files()
        self.definitions: Definitions = world.definitions
        self.expected = self.read(self.files)[0]
        # Where each record lies: file, first byte, end.
        self.places: dict[int, tuple[str, int, int]] = {}
        for name in self.streams():
            self._survey(name)

    def streams(self) -> list[str]:
        return sorted(name for name in self.files if name.endswith(FILE_ENDING))

    def _survey(self, name: str) -> None:
        parsed = parse_name(name, FILE_ENDING)
        assert parsed is not None
        data = self.files[name]
        header = read_file_header(data, *parsed)
        assert header is not None
        walk = RecordWalk(data, header.size, file_seed(*parsed))
        while walk.next():
            if walk.kind() == STREAM_MESSAGE:
                self.places[int(offset_of(data, walk.at))] = (name, int(walk.at), int(walk.end))
        assert walk.damage == []

    def read(self, files: dict[str, bytes]) -> tuple[Records, list[str], StoredWorld]:
        world = StoredWorld(SimulatedDisk(files), self.definitions)
        stream = world.queue("s")
        assert isinstance(stream, Stream)
        return records_of(stream), world.lines, world

    def lost_by(self, name: str, start: int, end: int) -> set[int]:
        return {
            offset for offset, (file, at, until) in self.places.items() if file == name and at < end and until > start
        }

    def check(self, files: dict[str, bytes], at_stake: set[int]) -> tuple[set[int], list[str]]:
        """What is missing, of which nothing may be that was not at stake; and what was said about it."""
        found, lines, world = self.read(files)
        assert [record for record in found if record not in self.expected] == []
        assert found == sorted(found)
        missing = {offset for offset, _ in self.expected} - {offset for offset, _ in found}
        assert missing <= at_stake
        before = len(found)
        world.publish("after", "s")
        world.sync()
        stream = world.queue("s")
        assert isinstance(stream, Stream)
        again = records_of(stream)
        assert len(again) == before + 1
        assert again[-1][1] == "after"
        return missing, lines


@pytest.fixture(scope="module")
def patient() -> Patient:
    return Patient(7)


def test_the_patient_is_well(patient: Patient) -> None:
    assert [offset for offset, _ in patient.expected] == list(range(COUNT))
    assert len(patient.streams()) >= 4
    assert patient.check(dict(patient.files), set()) == (set(), [])


@pytest.mark.parametrize("indexed", [True, False])
def test_a_flipped_bit_costs_one_message(patient: Patient, indexed: bool) -> None:
    random = Random(1)
    whole = {name: data for name, data in patient.files.items() if indexed or not name.endswith(INDEX_ENDING)}
    lost = 0
    for _ in range(300):
        name = random.choice(patient.streams())
        at = random.randrange(len(whole[name]))
        data = bytearray(whole[name])
        data[at] ^= 1 << random.randrange(8)
        at_stake = patient.lost_by(name, at, at + 1)
        # The end of the last file may be taken for the end of what was synced.
        if name == patient.streams()[-1]:
            at_stake |= patient.lost_by(name, at, len(data))
        missing, lines = patient.check({**whole, name: bytes(data)}, at_stake)
        lost += len(missing)
        assert lines or not missing
    assert lost > 100


@pytest.mark.parametrize("indexed", [True, False])
def test_a_file_that_is_gone_costs_what_was_in_it(patient: Patient, indexed: bool) -> None:
    whole = {name: data for name, data in patient.files.items() if indexed or not name.endswith(INDEX_ENDING)}
    for name in patient.streams():
        files = {other: data for other, data in whole.items() if other != name}
        missing, lines = patient.check(files, patient.lost_by(name, 0, len(whole[name])))
        assert len(missing) > 0
        assert name in (patient.streams()[0], patient.streams()[-1]) or any("is missing" in line for line in lines)


def test_a_zeroed_page_costs_what_was_in_it(patient: Patient) -> None:
    random = Random(2)
    for _ in range(100):
        name = random.choice(patient.streams()[:-1])
        data = patient.files[name]
        start = random.randrange(len(data))
        end = min(len(data), start + 512)
        files = {**patient.files, name: data[:start] + bytes(end - start) + data[end:]}
        missing, _ = patient.check(files, patient.lost_by(name, start, end))
        assert missing == patient.lost_by(name, start, end)


def test_a_file_that_was_cut_costs_its_end(patient: Patient) -> None:
    random = Random(3)
    for _ in range(100):
        name = random.choice(patient.streams())
        data = patient.files[name]
        at = random.randrange(len(data))
        patient.check({**patient.files, name: data[:at]}, patient.lost_by(name, at, len(data)))


def test_damaged_indexes_cost_nothing(patient: Patient) -> None:
    random = Random(4)
    for _ in range(50):
        name = random.choice([name for name in patient.files if name.endswith(INDEX_ENDING)])
        data = bytearray(patient.files[name])
        data[random.randrange(len(data))] ^= 0x10
        assert patient.check({**patient.files, name: bytes(data)}, set())[0] == set()
