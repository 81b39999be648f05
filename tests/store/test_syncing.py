"""What the log promises while a thread syncs it, and what it goes by."""

from __future__ import annotations

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.store.log import LogStore
from warren.store.segment import segment_name


def world_with(*bodies: str) -> StoredWorld:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    for body in bodies:
        world.publish(body, "q")
    return world


def test_one_sync_at_a_time_and_none_for_nothing() -> None:
    world = world_with("m1")
    world.flush()
    first = world.store.begin_sync()
    assert first is not None
    world.publish("m2", "q")
    world.flush()
    assert world.store.begin_sync() is None
    first.run(world.disk)
    world.sync_done(first)
    assert world.store.synced < world.store.position
    second = world.store.begin_sync()
    assert second is not None
    second.run(world.disk)
    world.sync_done(second)
    assert world.store.synced == world.store.position
    assert world.store.begin_sync() is None


def test_a_segment_has_no_name_before_its_folder_is_synced() -> None:
    world = world_with("m1")
    world.settle_down()
    named = [world.store.is_named]
    world.store.roll()
    named.append(world.store.is_named)
    world.publish("m2", "q")
    world.settle_down()
    named.append(world.store.is_named)
    assert named == [True, False, True]


def test_there_is_work_until_all_is_synced_and_every_chore_is_done() -> None:
    world = world_with("m1")
    world.flush()
    assert world.store.has_work()
    world.settle_down()
    assert not world.store.has_work()
    world.store.roll()
    # An index is to be written.
    assert world.store.has_work()
    while world.chore():
        pass
    assert not world.store.has_work()


def test_a_segment_in_which_nothing_lives_goes_as_soon_as_it_is_full() -> None:
    world = world_with("m1")
    assert world.ack_next("q") == "m1"
    world.settle_down()
    number = world.store.active.number
    world.store.roll()
    world.publish("m2", "q")
    world.settle_down()
    assert number not in world.store.segments
    assert segment_name(number) not in world.disk.names()


def test_a_sequence_is_never_given_twice() -> None:
    world = world_with("m1", "m2")
    last = world.queue("q").newest()
    for _ in range(2):
        assert world.ack_next("q") is not None
    world.roll()
    world.settle_down()
    again = world.restarted(world.disk.kill())
    again.publish("m3", "q")
    assert again.queue("q").newest() > last


def test_what_is_moved_is_something_to_sync() -> None:
    world = world_with("m1", "m2")
    world.sync()
    segment = world.store.active
    world.ack_next("q")
    world.roll()
    world.settle_down()
    position = world.store.position
    world.compact(segment)
    assert world.store.position > position
    world.settle_down()
    assert world.restarted(world.disk.kill()).drain("q") == ["m2"]


def test_the_log_is_swamped_by_what_is_not_synced_yet() -> None:
    store: LogStore = world_with().store
    store.unsynced_max = 1000
    store.bytes_written = store.bytes_synced = 50_000
    assert (store.is_behind(), store.is_swamped()) == (False, False)
    found = []
    for more in (1000, 1001, 2000, 2001):
        store.bytes_written = 50_000 + more
        found.append((store.is_behind(), store.is_swamped()))
    assert found == [(False, False), (True, False), (True, False), (True, True)]
