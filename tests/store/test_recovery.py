"""What a start makes of the files it finds: what counts is durable before it is seen, and what does not is gone."""

from __future__ import annotations

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import START, StoredWorld
from warren.store.format import FILE_HEADER_SIZE
from warren.store.recovery import recover
from warren.store.segment import index_name, segment_name, settled_name

FILLER = "." * 100


def bodies(count: int) -> list[str]:
    return [f"m{number:02d}{FILLER}" for number in range(count)]


def written(count: int, disk: SimulatedDisk | None = None) -> StoredWorld:
    """In several segments, the last of them not synced."""
    world = StoredWorld(disk or SimulatedDisk())
    world.declare("q")
    for body in bodies(count):
        world.publish(body, "q")
        world.flush()
        if world.store.active.number == 1:
            world.sync()
    return world


def logs(files: dict[str, bytes]) -> list[str]:
    return sorted(name for name in files if name.endswith(".log"))


def told(world: StoredWorld) -> list[str]:
    return [line for line in world.lines if "segment" in line]


def test_what_a_restart_has_shown_is_there_after_a_loss_of_power() -> None:
    world = written(30)
    assert len(world.store.segments) > 1
    # The process was killed, and the power fails after the next one has begun.
    again = world.restarted(world.disk)
    assert again.drain("q") == bodies(30)
    assert world.restarted(world.disk.lose_all()).drain("q") == bodies(30)
    assert told(again) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"WARREN"])
def test_a_segment_that_was_only_just_begun_is_dropped_with_all_behind_it(content: bytes) -> None:
    world = written(10)
    world.settle_down()
    files = world.disk.kill().files()
    last = max(world.store.segments)
    for number in (last + 1, last + 2):
        files[segment_name(number)] = content
    again = world.restarted(SimulatedDisk(files))
    assert told(again) == [
        f"store: segment {number} was never synced and is dropped" for number in (last + 1, last + 2)
    ]
    assert not {segment_name(last + 1), segment_name(last + 2)} & set(again.disk.names())
    assert again.drain("q") == bodies(10)
    # Their numbers are not used again: sequences are made of them.
    assert again.store.active.number == last + 3
    again.publish("new", "q")
    again.sync()
    third = again.restarted(again.disk.lose_all())
    assert told(third) == []
    assert third.drain("q") == [*bodies(10), "new"]


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_damaged_header_costs_no_message_of_a_segment_that_was_synced(place: int) -> None:
    world = written(40)
    world.settle_down()
    world.publish("last", "q")
    world.sync()
    world.store.close()
    files = {name: data for name, data in world.disk.kill().files().items() if not name.endswith(".index")}
    name = logs(files)[place]
    assert len(logs(files)) > 2
    files[name] = bytes([files[name][0] ^ 1]) + files[name][1:]
    again = world.restarted(SimulatedDisk(files))
    number = int(name[:12])
    assert told(again) == [f"store: segment {number} is damaged from byte 0 to {FILE_HEADER_SIZE}"]
    assert again.drain("q") == [*bodies(40), "last"]


def test_the_log_ends_where_what_was_not_synced_is_damaged() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    for body in bodies(3):
        world.publish(body, "q")
    world.sync()
    for number in range(3):
        world.publish(f"unsynced{number}{FILLER}", "q")
        world.flush()
    number = world.store.active.number
    files = world.disk.kill().files()
    name = segment_name(number)
    hit = files[name].index(b"unsynced1")
    files[name] = files[name][:hit] + b"#" + files[name][hit + 1 :]
    # As if another had been begun meanwhile, which no disk with a sync in between can leave.
    later = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    files[segment_name(number + 1)] = later.disk.kill().files()[segment_name(1)]
    again = world.restarted(SimulatedDisk(files))
    assert again.drain("q") == [*bodies(3), f"unsynced0{FILLER}"]
    first, second = told(again)
    assert f"segment {number} was synced up to byte" in first
    end = int(first.split("byte ")[1].split(";")[0])
    assert again.disk.size(name) == end
    assert second == f"store: segment {number + 1} was never synced and is dropped"
    # And stays there.
    third = again.restarted(SimulatedDisk(again.disk.kill().files()))
    assert told(third) == []
    assert third.drain("q") == [*bodies(3), f"unsynced0{FILLER}"]


def test_what_is_left_of_files_without_a_log_goes_and_what_is_not_the_stores_stays() -> None:
    world = written(20)
    world.settle_down()
    files = world.disk.kill().files()
    strays = {
        settled_name(900): b"",
        index_name(901): b"x",
        segment_name(902) + ".new": b"",
        index_name(1) + ".new": b"",
    }
    again = world.restarted(SimulatedDisk({**files, **strays, "notes.txt": b"mine"}))
    assert not set(strays) & set(again.disk.names())
    assert again.disk.files()["notes.txt"] == b"mine"
    assert set(files) <= set(again.disk.names())
    assert again.drain("q") == bodies(20)
    assert told(again) == []


def test_a_lost_segment_is_missed_once_whenever_the_power_fails() -> None:
    """What only its index says of others is said again before the index goes, and is durable by then."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("kept")
    world.declare("own")
    for body in bodies(4):
        world.publish(body, "kept")
    world.settle_down()
    world.roll()
    assert world.ack_next("kept") is not None
    world.publish("own", "own")
    lost = world.store.active.number
    world.settle_down()
    world.roll()
    world.settle_down()
    world.disk.remove(segment_name(lost))
    world.disk.sync_directory()
    states: list[SimulatedDisk] = []
    world.disk.before = lambda _: states.append(world.disk.lose_all())
    world.restarted(world.disk)
    world.disk.before = None
    for disk in [*states, world.disk.lose_all()]:
        again = world.restarted(disk)
        assert again.drain("kept") == bodies(4)[1:]
        assert again.drain("own") == []
    assert told(world.restarted(world.disk.lose_all())) == []


def test_a_queue_counts_on_where_any_of_its_segments_says_that_it_was_delivered() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    for number in range(3):
        world.publish(f"m{number}", "q")
        world.settle_down()
        world.roll()
        if number == 1:
            # Noted here, and nowhere else.
            assert world.get("q") is not None
            world.flush()
    world.settle_down()
    for without in ((), (".index",)):
        files = {name: data for name, data in world.disk.kill().files().items() if not name.endswith(without)}
        again = world.restarted(SimulatedDisk(files))
        assert again.drain_flagged("q") == [(f"m{number}", True) for number in range(3)]
    # What comes in a new life was not delivered.
    again.publish("new", "q")
    assert again.drain_flagged("q") == [("new", False)]


def test_a_store_that_is_recovered_without_its_queues_keeps_everything() -> None:
    world = written(20)
    world.settle_down()
    files = world.disk.kill().files()
    for _ in range(3):
        store = recover(SimulatedDisk(files), 2048)
        assert store.unclaimed.lines() == ["20 messages of queue 'q' in vhost '/'"]
        files = store.disk.files() if isinstance(store.disk, SimulatedDisk) else {}
    assert world.restarted(SimulatedDisk(files), START).drain("q") == bodies(20)
