"""What the log promises while a thread syncs it, and what it goes by."""

from __future__ import annotations

import errno

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.broker.queue.publishers import key_of
from warren.store.log import LogStore
from warren.store.recovery import recover
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


def test_the_log_is_behind_by_changes_also_when_they_are_few_bytes() -> None:
    store: LogStore = world_with().store
    store.synced = 70_000
    found = []
    for more in (50_000, 50_001):
        store.position = store.synced + more
        found.append(store.is_behind())
    assert found == [False, True]


def test_the_folder_is_synced_only_for_new_names() -> None:
    world = world_with("m1")
    world.sync()
    calls: list[str] = []
    world.disk.before = calls.append
    world.publish("m2", "q")
    world.sync()
    assert calls[-1] == "sync"
    world.roll()
    world.publish("m3", "q")
    world.sync()
    assert calls[-1] == "sync directory"
    world.publish("m4", "q")
    world.sync()
    assert calls[-1] == "sync"


def test_a_segment_that_a_sync_gave_a_name_has_its_header() -> None:
    """The sync says of it that it is durable as far as it was written, and the header was."""
    world = world_with()
    for number in range(10):
        world.publish(f"m{number}" + "." * 3000, "q")
        world.sync()
        left = world.disk.lose_all().files()
        assert segment_name(world.store.active.number) in left
        assert all(data.startswith(b"WARRENLG") for name, data in left.items() if name.endswith(".log"))


def test_a_message_of_a_numbered_publisher_is_something_to_sync() -> None:
    world = world_with()
    for number in range(1, 4):
        world.publish(f"p{number}", "q", number=number)
        world.flush()
        assert world.store.synced < world.store.position
        world.sync()
        assert world.restarted(world.disk.lose_all()).queue("q").has_passed(key_of("p"), number)


def test_the_end_of_a_queue_is_something_to_sync() -> None:
    world = world_with("m1")
    world.sync()
    world.delete("q")
    world.sync()
    assert world.store.synced == world.store.position
    # Also where nobody says that its definition is gone: nothing waits for it to come back.
    assert recover(world.disk.lose_all()).unclaimed.lines() == []


def test_a_message_is_something_to_sync_also_in_a_turn_in_which_a_queue_ends() -> None:
    world = world_with("m1")
    world.declare("other")
    world.publish("o1", "other")
    world.sync()
    world.publish("m2", "q")
    world.delete("other")
    world.sync()
    assert world.restarted(world.disk.lose_all()).drain("q") == ["m1", "m2"]


def test_a_delivery_waits_for_others_where_they_copy_the_log() -> None:
    """Else the message would come again as if for the first time, from the one that takes over."""
    for is_mirrored in (False, True):
        world = world_with("m1")
        world.sync()
        world.store.is_mirrored = is_mirrored
        assert world.get("q") is not None
        world.flush()
        assert (world.store.synced < world.store.delivered_at) == is_mirrored
        world.sync()
        assert world.store.delivered_at <= world.store.synced


def test_the_end_of_a_queue_is_told_by_an_index_as_well() -> None:
    world = world_with("m1", "m2")
    world.declare("kept")
    world.publish("k1", "kept")
    world.roll()
    world.settle_down()
    world.roll()
    world.delete("q")
    world.publish("k2", "kept")
    world.settle_down()
    world.roll()
    world.settle_down()
    assert all(segment.indexed for segment in world.store.segments.values() if segment is not world.store.active)
    assert recover(world.disk.lose_all()).unclaimed.lines() == ["2 messages of queue 'kept' in vhost '/'"]


def test_the_space_of_what_came_and_went_with_its_queue_in_one_turn_is_given_back() -> None:
    world = world_with("m1")
    number = world.store.active.number
    world.delete("q")
    assert world.store.head_bytes == 0
    world.settle_down()
    world.roll()
    world.settle_down()
    assert segment_name(number) not in world.disk.names()


def test_damage_in_what_a_restart_found_costs_only_that() -> None:
    """A restart makes it durable and says so, before anything else is written."""
    world = world_with("m1", "m2")
    world.flush()
    again = world.restarted(world.disk.kill())
    again.publish("m3", "q")
    again.flush()
    files = again.disk.kill().files()
    first = segment_name(world.store.active.number)
    files[first] = files[first].replace(b"m2", b"mX")
    found = world.restarted(SimulatedDisk(files))
    assert found.drain("q") == ["m1", "m3"]
    assert [line for line in found.lines if "segment 1 is damaged from byte" in line]


class DiskWithoutDescriptors(SimulatedDisk):
    """No file can be created for this reason, for a while."""

    reason = 0

    def create(self, name: str, room: int) -> int:
        if self.reason:
            raise OSError(self.reason, "cannot create", name)
        return super().create(name, room)


@pytest.mark.parametrize("reason", [errno.EMFILE, errno.ENFILE])
def test_a_segment_grows_while_no_descriptor_is_left_for_the_next(reason: int) -> None:
    disk = DiskWithoutDescriptors()
    world = StoredWorld(disk)
    world.declare("q")
    bodies = [f"m{number}" + "." * 1000 for number in range(10)]
    disk.reason = reason
    for body in bodies[:8]:
        world.publish(body, "q")
        world.sync()
    assert len(world.live_files()) == 1
    disk.reason = 0
    for body in bodies[8:]:
        world.publish(body, "q")
        world.sync()
    assert len(world.live_files()) == 2
    assert world.restarted(world.disk.lose_all()).drain("q") == bodies


def test_a_segment_that_cannot_be_created_for_another_reason_is_a_failure_of_the_disk() -> None:
    disk = DiskWithoutDescriptors()
    world = StoredWorld(disk)
    world.declare("q")
    disk.reason = errno.ENOSPC
    world.publish("m" + "." * 3000, "q")
    with pytest.raises(OSError, match="cannot create"):
        world.store.write()
    assert world.store.begin_sync() is None


def test_a_queue_that_fails_while_the_files_of_its_last_messages_are_going_begins_anew() -> None:
    world = StoredWorld(SimulatedDisk(), head_entries=1000)
    world.declare("q")
    for number in range(60):
        world.publish(f"m{number}" + "." * 100, "q")
        world.sync()
    world.settle_down()
    while world.ack_next("q") is not None:
        pass
    world.remove_a_file()
    world.queue("q").restart()
    assert world.queue("q").backing.length == 0


def test_what_is_not_in_the_file_yet_is_read_back_all_the_same() -> None:
    bodies = [f"m{number}" for number in range(20)]
    for count in range(20):
        assert world_with(*bodies[:count]).drain("q") == bodies[:count]
