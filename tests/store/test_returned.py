"""How often a message came back is known after a restart, as long as the message is there and whatever files go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld, body_in
from warren.store.inspect import check, dump
from warren.store.restatement import Restatement
from warren.store.segment import index_name, segment_name

BIG = "." * 1500


def new_world(**arguments: Any) -> StoredWorld:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", queue_type="quorum", **arguments)
    world.declare("other")
    return world


def power_cut(world: StoredWorld) -> StoredWorld:
    return world.restarted(world.disk.lose_all())


def give_back(world: StoredWorld, times: int = 1, name: str = "q") -> None:
    """What is next in the queue, so often, one after another."""
    for _ in range(times):
        entry = world.get(name)
        assert entry is not None
        world.queue(name).requeue([entry])


def counts(world: StoredWorld, name: str = "q") -> dict[str, int]:
    """Of what is ready, without taking it."""
    entries = world.queue(name).browse(0, 1000)
    return {body_in(entry).rstrip("."): entry.returns for entry in entries}


def fill(world: StoredWorld, count: int) -> None:
    """Segments that nothing is left in."""
    for _ in range(count):
        world.publish(BIG, "other")
        world.settle_down()
        world.ack_next("other")
        world.settle_down()


def test_a_limit_holds_over_restarts() -> None:
    world = new_world(delivery_limit=3, dead_letter_exchange="", dead_letter_routing_key="other")
    world.publish("poison", "q")
    for returned in range(3):
        assert counts(world) == {"poison": returned}
        give_back(world)
        world.sync()
        world = power_cut(world)
    assert counts(world) == {"poison": 3}
    give_back(world)
    world.settle_down()
    assert (counts(world), counts(world, "other")) == ({}, {"poison": 0})
    assert (counts(power_cut(world)), counts(power_cut(world), "other")) == ({}, {"poison": 0})


def test_all_of_a_turn_is_one_record_and_a_killed_process_forgets_nothing_of_it() -> None:
    world = new_world()
    for number in range(8):
        world.publish(f"m{number}", "q")
    world.sync()
    entries = [world.get("q") for _ in range(8)]
    world.sync()
    before = world.store.active.size
    for times in range(1, 4):
        world.queue("q").requeue([entry for entry in entries if entry is not None])
        entries = [world.get("q") for _ in range(8)]
        assert {entry.returns for entry in entries if entry is not None} == {times}
    world.flush()
    assert world.store.active.size - before == 12 + 8 * 16
    world = world.restarted(world.disk.kill())
    assert set(counts(world).values()) == {3}
    assert len(counts(world)) == 8


@pytest.mark.parametrize(("name", "persistent"), [("other", True), ("q", False)])
def test_nothing_is_written_where_nobody_asks_or_nothing_would_be_left(name: str, persistent: bool) -> None:
    world = new_world()
    world.publish("m", name, persistent=persistent)
    give_back(world, 1, name)
    world.sync()
    position, size = world.store.position, world.store.active.size
    give_back(world, 5, name)
    world.sync()
    assert (world.store.position, world.store.active.size) == (position, size)


@pytest.mark.parametrize("arguments", [{"delayed_retry_min": 60_000}, {"delayed_retry_limit": 9}])
def test_classic_queues_count_where_returns_are_limited_or_wait(arguments: dict[str, Any]) -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", max_priority=2, **arguments)
    world.publish("m", "q", priority=1)
    give_back(world)
    world.sync()
    assert counts(power_cut(world)) == {"m": 1}


def test_counts_stay_when_the_files_go_that_say_them() -> None:
    world = new_world()
    world.publish("m1", "q")
    world.publish("m2", "q")
    world.roll()
    give_back(world, 4)
    world.settle_down()
    said_in = world.store.active.number
    # The messages lie in one segment, the notes in another that empties.
    fill(world, 6)
    assert segment_name(said_in) not in world.disk.names()
    world = power_cut(world)
    assert counts(world) == {"m1": 4, "m2": 0}
    # And from there on likewise.
    fill(world, 6)
    assert counts(power_cut(world)) == {"m1": 4, "m2": 0}


def test_counts_stay_when_messages_are_moved() -> None:
    world = new_world()
    for number in range(6):
        world.publish(f"m{number}", "q")
    give_back(world, 2)
    world.roll()
    world.settle_down()
    world = power_cut(world)
    world.compact(world.compactable()[0])
    give_back(world)
    world.settle_down()
    assert counts(world) == {"m0": 3} | {f"m{number}": 0 for number in range(1, 6)}
    assert counts(power_cut(world)) == counts(world)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_an_index_tells_what_the_records_do(is_indexed: bool) -> None:
    world = new_world()
    world.publish("m", "q")
    give_back(world, 2)
    world.roll()
    world.settle_down()
    files = world.disk.lose_all().files()
    assert index_name(1) in files
    if not is_indexed:
        del files[index_name(1)]
    assert counts(world.restarted(SimulatedDisk(files))) == {"m": 2}


def test_what_only_an_index_without_its_log_says_is_said_again() -> None:
    world = new_world()
    world.publish("m", "q")
    world.settle_down()
    world.roll()
    world.settle_down()
    world.publish("gone", "other")
    give_back(world, 2)
    said_in = world.store.active.number
    world.settle_down()
    world.roll()
    world.settle_down()
    files = world.disk.lose_all().files()
    del files[segment_name(said_in)]
    world = world.restarted(SimulatedDisk(files))
    assert counts(world) == {"m": 2}
    world.settle_down()
    assert counts(power_cut(world)) == {"m": 2}


def test_a_queue_that_fails_counts_on() -> None:
    world = new_world()
    world.publish("m", "q")
    give_back(world, 2)
    world.get("q")
    world.queue("q").restart()
    assert counts(world) == {"m": 2}


@pytest.mark.parametrize("way", ["ack", "purge", "purge what is paged"])
def test_nothing_is_known_of_what_is_settled(way: str) -> None:
    world = new_world()
    world.publish("m", "q")
    give_back(world)
    if way == "purge what is paged":
        world.sync()
        world = power_cut(world)
    if way == "ack":
        world.ack_next("q")
    else:
        world.queue("q").backing.settle_to(1 << 62, 1 << 62)
    assert not any(lane.returned for lane in world.store.lanes.values())


def test_notes_of_very_many_are_not_written_from_one_file_to_the_next() -> None:
    world = new_world()
    for number in range(400):
        world.publish(f"m{number}", "q")
    world.roll()
    world.settle_down()
    entries = [world.get("q") for _ in range(400)]
    world.queue("q").requeue([entry for entry in entries if entry is not None])
    world.settle_down()
    # Six kilobytes of notes, in segments of two.
    said_in = world.store.active.number - 1
    assert len(world.store.segments[said_in].returned) == 1
    written = world.store.bytes_written
    fill(world, 3)
    assert segment_name(said_in) in world.disk.names()
    assert world.store.bytes_written - written < 10_000
    assert set(counts(power_cut(world)).values()) == {1}
    # They go with the messages.
    while world.ack_next("q") is not None:
        pass
    world.settle_down()
    fill(world, 1)
    assert segment_name(said_in) not in world.disk.names()


def test_notes_are_said_again_in_pieces_and_a_crash_between_two_forgets_none() -> None:
    world = StoredWorld(SimulatedDisk(), units=4)
    world.declare("q", queue_type="quorum")
    world.declare("other")
    for number in range(30):
        world.publish(f"m{number}", "q")
    world.roll()
    world.settle_down()
    said_in = world.store.active.number
    entries = [world.get("q") for _ in range(30)]
    world.queue("q").requeue([entry for entry in entries if entry is not None])
    world.settle_down()
    pieces = 0
    for _ in range(20):
        world.publish(BIG, "other")
        world.sync()
        world.ack_next("other")
        while world.chore():
            pass
        world.sync()
        while any(isinstance(errand, Restatement) for errand in world.node.errands.waiting):
            pieces += 1
            assert set(counts(power_cut(world)).values()) == {1}
            world.sync()
        assert set(counts(power_cut(world)).values()) == {1}
    world.settle_down()
    assert segment_name(said_in) not in world.disk.names()
    # Once to count them, once to write them anew: nine at a time.
    assert pieces >= 4
    assert world.node.errands.budget.most <= 4 + 2
    assert set(counts(power_cut(world)).values()) == {1}


def test_inspection_shows_it(tmp_path: Path) -> None:
    world = new_world()
    world.publish("m", "q")
    give_back(world, 2)
    world.settle_down()
    for name, data in world.disk.files().items():
        (tmp_path / name).write_bytes(data)
    (shown,) = [record.facts for record in dump(tmp_path) if record.kind == "returned"]
    (lane,) = [number for number, each in world.store.lanes.items() if each.queue.name == "q"]
    entry = world.queue("q").browse(0, 1)[0]
    assert shown == {"times": [[lane, entry.sequence, 2]]}
    assert check(tmp_path).damage == []


def test_deliveries_wait_on_a_mirrored_store_until_others_know_the_count() -> None:
    world = new_world()
    world.publish("m", "q")
    world.get("q")
    world.sync()
    assert world.store.delivered_at == 0
    world = power_cut(world)
    world.store.is_mirrored = True
    give_back(world)
    assert world.store.delivered_at == world.store.position > world.store.synced
