"""Browsing and settling by sequence where most of the queue is in the log only, against a plain list."""

from __future__ import annotations

from random import Random

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld, body_in


def browsed(world: StoredWorld, first: int, limit: int = 10_000) -> list[tuple[int, str]]:
    """In batches, as browsers ask."""
    found: list[tuple[int, str]] = []
    while True:
        entries = world.queue("q").backing.browse(first - 1, min(limit, 7))
        if not entries:
            return found
        found += [(int(entry.sequence), body_in(entry)) for entry in entries]
        first = found[-1][0] + 1


@pytest.mark.parametrize("seed", range(8))
def test_a_backlog_on_disk_is_browsed_and_settled_as_a_list_would_be(seed: int) -> None:
    random = Random(seed)
    world = StoredWorld(SimulatedDisk(), segment_bytes=1024)
    world.declare("q")
    world.declare("other")
    model: dict[int, str] = {}
    published = 0
    for step in range(300):
        action = random.choice(
            ("publish", "publish", "publish", "ack", "requeue", "settle", "browse", "rest", "restart")
        )
        queue = world.queue("q")
        if action == "publish":
            for _ in range(random.randint(1, 12)):
                published += 1
                body = f"{published}:" + "x" * random.choice((5, 100))
                model[int(queue.newest()) + 1] = body
                world.publish(body, *random.choice((("q",), ("q", "other"))))
        elif action == "ack":
            for _ in range(random.randint(1, 10)):
                world.ack_next("q")
                if model:
                    del model[min(model)]
        elif action == "requeue":
            held = [entry for entry in (world.get("q") for _ in range(random.randint(1, 5))) if entry is not None]
            queue.requeue(random.sample(held, len(held)))
        elif action == "settle" and model:
            bound = random.choice(sorted(model)) + random.randint(0, 3)
            queue.backing.settle_to(bound, 1 << 62)
            model = {sequence: body for sequence, body in model.items() if sequence > bound}
        elif action == "rest":
            world.settle_down()
            for segment in world.compactable()[:1]:
                world.compact(segment)
        elif action == "restart" and step % 5 == 0:
            world.settle_down()
            world = world.restarted(world.disk.lose_all())
        first = random.choice([0, *sorted(model)]) if model else 0
        expected = [(sequence, body) for sequence, body in sorted(model.items()) if sequence >= first]
        assert browsed(world, first) == expected, (seed, step, action)
        assert world.queue("q").backing.length == len(model)
        assert world.queue("q").backing.body_bytes == sum(len(body) for body in model.values())
    assert [body for _, body in sorted(model.items())] == world.drain("q")


def test_browsing_brings_nothing_to_memory() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=4096)
    world.declare("q")
    for number in range(500):
        world.publish(str(number), "q")
    backing = world.queue("q").backing
    paged, head = backing.paged, world.store.head_bytes
    assert paged > 400
    assert len(browsed(world, 0)) == 500
    assert (backing.paged, world.store.head_bytes) == (paged, head)


def test_settling_what_is_on_disk_reads_no_message() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=4096)
    world.declare("q")
    for number in range(500):
        world.publish(str(number), "q")
    world.settle_down()
    world.queue("q").backing.settle_to(int(world.queue("q").newest()) - 10, 1 << 62)
    assert world.queue("q").backing.paged == 10
    world.settle_down()
    again = world.restarted(world.disk.lose_all())
    assert again.drain("q") == [str(number) for number in range(490, 500)]


def test_a_sequence_is_never_given_twice_not_even_by_an_empty_queue() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1024)
    world.declare("q")
    world.flush()
    seen: list[int] = []
    for life in range(5):
        assert int(world.queue("q").newest()) >= max(seen, default=0)
        for number in range(20):
            # Transient ones are never written, and count all the same.
            world.publish(f"{life}.{number}", "q", persistent=number % 2 == 0)
            entry = world.get("q")
            assert entry is not None
            seen.append(int(entry.sequence))
            world.queue("q").ack(entry)
        if life % 2:
            # All files in which the queue was mentioned may go.
            world.settle_down()
            world.roll()
            world.settle_down()
        world = world.restarted(world.disk.kill() if life % 2 else world.disk.lose_all())
    assert seen == sorted(set(seen))


def test_damage_in_what_is_browsed_costs_that_message() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=100_000)
    world.declare("q")
    for number in range(50):
        world.publish(f"body number {number}!", "q")
    world.sync()
    name = world.live_files()[0]
    content = world.disk.entries[name].content
    at = content.index(b"body number 30!")
    content[at] ^= 1
    found = [body for _, body in browsed(world, 0)]
    assert found == [f"body number {number}!" for number in range(50) if number != 30]
    assert world.queue("q").backing.length == 49
    assert any("lost message" in line for line in world.lines)
    assert world.drain("q") == found
