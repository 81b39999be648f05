"""Looking into a backlog on disk and taking one message out of its middle, without bringing it back to memory."""

from __future__ import annotations

import random

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import START, StoredWorld, body_in
from tests.store.test_log_store import after_kill, fill
from warren.broker.operate import relocate
from warren.broker.publish.x_death import Address
from warren.broker.queue.queue import Queue


@pytest.fixture
def world() -> StoredWorld:
    return StoredWorld(SimulatedDisk())


def browsed(queue: Queue, step: int = 7) -> list[str]:
    """All of it, in steps."""
    found: list[str] = []
    after = 0
    while entries := queue.backing.browse(after, step):
        found += [body_in(entry) for entry in entries]
        after = entries[-1].sequence
    return found


def test_a_backlog_is_seen_whole_and_in_order_and_stays_where_it_is(world: StoredWorld) -> None:
    queue = world.declare("q")
    bodies = fill(world, 1, 60, "q")
    paged = queue.backing.paged
    assert paged > 50
    assert browsed(queue) == bodies
    assert queue.backing.paged == paged
    assert world.drain("q") == bodies


def test_what_came_back_is_seen_in_its_place(world: StoredWorld) -> None:
    queue = world.declare("q")
    bodies = fill(world, 1, 20, "q")
    held = [world.get("q") for _ in range(6)]
    queue.requeue([entry for entry in held if entry is not None][1:3])
    assert browsed(queue) == bodies[1:3] + bodies[6:]


@pytest.mark.parametrize("place", [0, 2, 3, 17, 59])
def test_one_message_goes_from_anywhere_and_does_not_come_back(world: StoredWorld, place: int) -> None:
    queue = world.declare("q")
    bodies = fill(world, 1, 60, "q")
    sequence = queue.backing.browse(0, 60)[place].sequence
    assert relocate.drop(queue, sequence)
    assert not relocate.drop(queue, sequence)
    del bodies[place]
    assert queue.backing.length == 59
    assert queue.backing.body_bytes == sum(len(body) for body in bodies)
    assert browsed(queue) == bodies
    world.sync()
    again = after_kill(world)
    assert browsed(again.queue("q")) == bodies
    assert again.drain("q") == bodies
    assert world.drain("q") == bodies


def test_what_is_taken_and_not_yet_settled_is_not_read_back(world: StoredWorld) -> None:
    queue = world.declare("q")
    bodies = fill(world, 1, 20, "q")
    entry = queue.backing.take(queue.backing.browse(0, 20)[10].sequence)
    assert entry is not None
    assert world.drain("q") == bodies[:10] + bodies[11:]
    queue.backing.settle(entry)
    assert queue.backing.length == 0


def test_many_go_in_any_order_over_compaction_and_restarts(world: StoredWorld) -> None:
    queue = world.declare("q")
    left = fill(world, 1, 80, "q")
    chance = random.Random(7)
    for _ in range(6):
        for _ in range(8):
            entry = chance.choice(queue.backing.browse(0, 100))
            left.remove(body_in(entry))
            assert relocate.drop(queue, entry.sequence)
        world.settle_down()
        for segment in world.compactable()[:1]:
            world.compact(segment)
        world.settle_down()
        assert browsed(queue) == left
        world = after_kill(world)
        queue = world.queue("q")
        assert browsed(queue) == left
    assert world.drain("q") == left


def test_a_moved_message_is_in_one_place_after_a_crash(world: StoredWorld) -> None:
    queue = world.declare("q")
    world.declare("other")
    bodies = fill(world, 1, 30, "q")
    entry = queue.backing.browse(0, 30)[20]
    moving = relocate.move(world.vhost, entry, Address("", ["other"]), {})
    assert moving is not None
    assert moving.has_moved
    world.sync()
    again = after_kill(world)
    assert again.drain("other") == [bodies[20]]
    assert again.drain("q") == bodies[:20] + bodies[21:]


def test_exact_expiry_reaches_into_the_backlog_also_after_a_restart(world: StoredWorld) -> None:
    world.declare("q", exact_message_ttl=True)
    for number in range(30):
        world.publish(f"m{number}", "q", ttl=1000 if number % 3 == 0 else 100_000)
        world.sync()
    again = world.restarted(world.disk.kill(), START + 500)
    queue = again.queue("q")
    assert queue.backing.length == 30
    again.node.tick(START + 1000)
    again.flush()
    assert queue.backing.length == 20
    assert again.drain("q") == [f"m{number}" for number in range(30) if number % 3 != 0]
