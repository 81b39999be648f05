"""What a start makes of the files it finds: what counts is durable before it is seen, and what does not is gone."""

from __future__ import annotations

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import START, StoredWorld
from tests.store.test_unreadable import DiskWithABadFile
from warren.store.format import FILE_HEADER_SIZE, MESSAGE, file_header
from warren.store.recovery import recover
from warren.store.segment import index_name, segment_name, settled_name
from warren.store.walk import RecordWalk

FILLER = "." * 100
FEW = ("a", "b", "c")


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
    files[segment_name(last + 1)] = content
    files[segment_name(last + 2)] = file_header(last + 2, 0)
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


@pytest.mark.parametrize("acked", [1, 300])
def test_a_lost_segment_is_missed_once_whenever_the_power_fails(acked: int) -> None:
    """What only its index says of others is said again before the index goes, and is durable by then. Also where it is
    so much that it fills a segment."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("kept")
    world.declare("own")
    everything = [f"m{number:03d}" for number in range(acked + 3)]
    for body in everything:
        world.publish(body, "kept")
    world.settle_down()
    world.roll()
    for body in everything[:acked]:
        assert world.ack_next("kept") == body
    world.publish("own", "own")
    lost = world.store.active.number
    world.settle_down()
    world.roll()
    world.settle_down()
    world.disk.remove(segment_name(lost))
    world.disk.sync_directory()
    states: list[SimulatedDisk] = []
    world.disk.before = lambda _: states.append(world.disk.lose_all())
    StoredWorld(world.disk, world.definitions, 2048)
    world.disk.before = None
    for disk in [*states, world.disk.lose_all()]:
        again = StoredWorld(disk, world.definitions, 2048)
        assert again.drain("kept") == everything[acked:]
        assert again.drain("own") == []
    assert [line for line in told(world.restarted(world.disk.lose_all())) if "missing" in line] == []


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


def sealed(world: StoredWorld) -> int:
    """End the active segment; gives its number."""
    number = world.store.active.number
    world.settle_down()
    world.roll()
    world.settle_down()
    return number


@pytest.mark.parametrize("place", [0, 1, -2])
def test_a_segment_that_is_shorter_than_the_next_one_says_is_damaged(place: int) -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    for body in bodies(12):
        world.publish(body, "q")
        if body[2] in "37":
            sealed(world)
    world.sync()
    files = {name: data for name, data in world.disk.kill().files().items() if not name.endswith(".index")}
    name = logs(files)[place]
    number = int(name[:12])
    walk = RecordWalk(files[name], FILE_HEADER_SIZE, number)
    ends = []
    while walk.next():
        if walk.kind() == MESSAGE:
            ends.append(int(walk.end))
    # Cut behind a whole record: nothing in the file itself tells.
    whole = len(files[name])
    files[name] = files[name][: ends[1]]
    again = world.restarted(SimulatedDisk(files))
    assert told(again) == [f"store: segment {number} is damaged from byte {ends[1]} to {whole}"]
    first = logs(files).index(name) * 4
    assert again.drain("q") == bodies(12)[: first + 2] + bodies(12)[first + 4 :]


@pytest.mark.parametrize("said", ["acked", "deleted"])
def test_what_a_segment_says_of_older_ones_holds_after_it_is_gone_also_in_a_later_life(said: str) -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    for name in ("kept", "gone", "fleeting"):
        world.declare(name)
    for body in bodies(4):
        world.publish(body, "kept", "gone")
    sealed(world)
    if said == "acked":
        assert world.ack_next("kept") == bodies(4)[0]
    else:
        world.delete("gone")
    world.publish("fleeting", "fleeting")
    teller = sealed(world)
    again = world.restarted(SimulatedDisk(world.disk.kill().files()))
    again.settle_down()
    assert again.ack_next("fleeting") == "fleeting"
    again.settle_down()
    again.publish("fleeting", "fleeting")
    again.settle_down()
    assert segment_name(teller) not in again.live_files()
    files = again.disk.kill().files()
    assert recover(SimulatedDisk(files)).unclaimed.lines() == [
        f"{3 if said == 'acked' else 4} messages of queue 'kept' in vhost '/'",
        *(["4 messages of queue 'gone' in vhost '/'"] if said == "acked" else []),
        "1 messages of queue 'fleeting' in vhost '/'",
    ]


def test_what_is_said_of_a_segment_that_cannot_be_read_is_kept_for_when_it_can() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    for name in ("kept", "fleeting"):
        world.declare(name)
    for body in bodies(4):
        world.publish(body, "kept")
    oldest = sealed(world)
    assert world.ack_next("kept") == bodies(4)[0]
    world.publish("fleeting", "fleeting")
    sealed(world)
    files = world.disk.kill().files()
    disk = DiskWithABadFile({name: data for name, data in files.items() if name != index_name(oldest)})
    disk.bad = segment_name(oldest)
    missing = world.restarted(disk)
    missing.settle_down()
    # All that the segment has which says so is done with.
    assert missing.ack_next("fleeting") == "fleeting"
    missing.settle_down()
    again = missing.restarted(SimulatedDisk(disk.kill().files()))
    assert again.drain("kept") == bodies(4)[1:]


def test_a_deleted_queues_number_is_nobodys_while_its_end_is_on_record() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("pinned")
    world.publish("pin", "pinned")
    sealed(world)
    # Several, so that whatever begins to count too low comes to a number of theirs.
    for name in FEW:
        world.declare(f"first {name}")
        for body in bodies(3):
            world.publish(body, f"first {name}")
    gone = sealed(world)
    for name in FEW:
        world.delete(f"first {name}")
    world.publish("pin", "pinned")
    world.settle_down()
    sealed(world)
    assert segment_name(gone) not in world.live_files()
    again = world.restarted(SimulatedDisk(world.disk.kill().files()))
    for name in FEW:
        again.declare(f"second {name}")
        for body in bodies(3):
            again.publish(body, f"second {name}")
    again.sync()
    third = again.restarted(SimulatedDisk(again.disk.kill().files()))
    assert [third.drain(f"second {name}") for name in FEW] == [bodies(3)] * len(FEW)


def test_a_deletion_is_written_down_for_the_segments_that_it_is_about_and_no_others() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    for name in ("kept", "gone", "fleeting"):
        world.declare(name)
    world.publish("m", "kept", "gone")
    about = sealed(world)
    world.publish("m", "kept")
    other = sealed(world)
    world.delete("gone")
    world.publish("fleeting", "fleeting")
    teller = sealed(world)
    again = world.restarted(SimulatedDisk(world.disk.kill().files()))
    assert again.ack_next("fleeting") == "fleeting"
    again.settle_down()
    again.publish("fleeting", "fleeting")
    again.settle_down()
    assert segment_name(teller) not in again.live_files()
    assert settled_name(about) in again.disk.names()
    assert settled_name(other) not in again.disk.names()


def test_a_deletion_that_a_crash_cut_short_is_no_loss() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    for body in bodies(4):
        world.publish(body, "q")
    number = sealed(world)
    files = world.disk.kill().files()
    while world.ack_next("q") is not None:
        pass
    world.publish("last", "q")
    world.sync()
    left = world.disk.kill().files()
    left = {name: data for name, data in {**files, **left}.items() if name != segment_name(number)}
    assert index_name(number) in left
    again = world.restarted(SimulatedDisk(left))
    assert told(again) == []
    assert again.drain("q") == ["last"]
    # And nothing of it is left open.
    assert all(inode in again.disk.entries.values() for inode in again.disk.handles.values())


def test_a_single_transient_message_of_a_long_queue_is_gone_after_a_restart() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    for number, body in enumerate(bodies(6)):
        world.publish(body, "q", persistent=number != 4)
    world.sync()
    again = world.restarted(SimulatedDisk(world.disk.kill().files()))
    assert again.drain("q") == [body for number, body in enumerate(bodies(6)) if number != 4]


def test_that_messages_were_delivered_is_known_though_the_segment_is_lost_in_which_it_was_noted() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    world.declare("other")
    for body in bodies(2):
        world.publish(body, "q")
    sealed(world)
    assert world.get("q") is not None
    world.publish("other", "other")
    noted = sealed(world)
    world.publish("later", "q")
    sealed(world)
    names = (segment_name(noted), index_name(noted))
    files = {name: data for name, data in world.disk.kill().files().items() if name not in names}
    assert world.restarted(SimulatedDisk(files)).drain_flagged("q")[0] == (bodies(2)[0], True)


def test_what_a_deleted_queue_had_seen_is_passed_over() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    world.declare("seen", message_deduplication=True, cache_size=100)
    world.publish("id:x", "seen")
    world.publish("m", "q")
    world.sync()
    world.delete("seen")
    world.sync()
    again = world.restarted(SimulatedDisk(world.disk.kill().files()))
    assert again.drain("q") == ["m"]
    assert again.lines == []
