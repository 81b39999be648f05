"""Whatever a crash takes of a stream that was not synced, and whenever: what was promised is there, at its offset."""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.crash_states import Found
from tests.faults.stream_states import KINDS, Explorer, Workload, records_of, run, unlimited
from tests.store.simulated_disk import Fault, SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.broker.stream.stream import Stream

SEED = 20261115


@pytest.mark.parametrize("part", range(4))
def test_streams_survive_crashes_at_every_operation(part: int) -> None:
    explorer = Explorer(SEED + part)
    number = 0
    while explorer.states < 1000:
        explorer.explore(number)
        number += 1


@pytest.mark.parametrize("broken", KINDS)
def test_a_broken_disk_is_found_out(broken: str) -> None:
    with pytest.raises(Found):
        run(20_000, SEED, broken)


@pytest.mark.parametrize("seed", range(6))
def test_a_dead_letter_in_a_stream_is_in_its_old_queue_or_in_the_stream(seed: int) -> None:
    """Two files, of which a crash may keep either: the old place goes when the new one is durable."""
    random = Random(seed)
    disk = SimulatedDisk()
    world = StoredWorld(disk)
    world.declare("dead", queue_type="stream")
    world.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    world.publish("letter", "q")
    world.sync()

    def look(_: str = "") -> None:
        for image in (disk.kill(), disk.lose_all(), *(disk.crash(random) for _ in range(10))):
            after = StoredWorld(image, world.definitions)
            stream = after.queue("dead")
            assert isinstance(stream, Stream)
            assert after.drain("q") == ["letter"] or [body for _, body in records_of(stream)] == ["letter"]

    disk.before = look
    entry = world.get("q")
    assert entry is not None
    world.queue("q").reject(entry)
    for _ in range(3):
        world.sync()
        look()
    disk.before = None
    world.settle_down()
    assert world.restarted(disk.lose_all()).drain("q") == []


@pytest.mark.parametrize("fault", Fault)
def test_a_write_that_fails_is_final_and_costs_nothing_that_was_promised(fault: Fault) -> None:
    failures = 0
    for call in range(1, 60, 2):
        disk = SimulatedDisk()
        workload = Workload.begin(disk, SEED + call)
        disk.fail(call, fault)
        for _ in range(30):
            try:
                workload.random_step()
            except OSError:
                failures += 1
                break
        world = workload.world
        random = Random(call)
        for image in (disk.kill(), disk.lose_all(), disk.crash(random), disk.crash(random)):
            after = StoredWorld(SimulatedDisk(image.files()), unlimited(world.definitions))
            for name, story in workload.stories.items():
                if name in world.definitions and world.definitions[name][0] == story.incarnation:
                    stream = after.queue(name)
                    assert isinstance(stream, Stream)
                    story.check(name, records_of(stream), int(world.store.synced))
    assert failures > 5
