"""A queue in the log: what is only there is settled without being read, and damage costs what is damaged."""

from __future__ import annotations

import errno
import random

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld, body_in, message_of
from tests.store.test_unreadable import DiskWithABadFile, DiskWithABadSpot
from warren.broker.message import NEVER
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue
from warren.store.browse import READ_GAP
from warren.store.lane import CROWDED_BYTES, HEAD_BYTES, LOAD_BYTES, Lane
from warren.store.recovery import recover

COUNT = 40


class DiskOfWhichNoMessageIsRead(DiskWithABadFile):
    def read(self, handle: int, size: int, offset: int) -> bytes:
        if self.bad and self._names.get(handle, "").endswith(self.bad):
            raise OSError(errno.ENXIO, "nobody should read this")
        return super().read(handle, size, offset)


def body(number: int) -> str:
    return f"{number:03d}" + "." * (number * 5)


def backlog(disk: SimulatedDisk) -> tuple[StoredWorld, Lane]:
    """Three in memory, the rest in the log, in several segments."""
    world = StoredWorld(disk)
    world.declare("q")
    for number in range(COUNT):
        world.publish(body(number), "q")
        world.sync()
    world.settle_down()
    lane = world.queue("q").backing
    assert isinstance(lane, Lane)
    assert lane.paged == COUNT - 3
    return world, lane


def test_what_is_only_in_the_log_is_settled_without_being_read() -> None:
    disk = DiskOfWhichNoMessageIsRead()
    world, _ = backlog(disk)
    again = world.restarted(DiskOfWhichNoMessageIsRead(disk.kill().files()))
    assert isinstance(again.disk, DiskOfWhichNoMessageIsRead)
    again.settle_down()
    again.disk.bad = ".log"
    found = again.queue("q").backing
    assert found.length == found.paged == COUNT
    assert found.settle_to(again.queue("q").newest(), 1000) == COUNT
    assert (found.length, found.paged, found.body_bytes) == (0, 0, 0)
    again.settle_down()
    again.disk.bad = ""
    assert again.restarted(SimulatedDisk(again.disk.kill().files())).drain("q") == []


def test_no_more_are_looked_at_than_was_asked_for() -> None:
    world, lane = backlog(SimulatedDisk())
    left = [body(number) for number in range(COUNT)]
    for limit in (2, 5, 9):
        assert lane.settle_to(world.queue("q").newest(), limit) == limit
        del left[:limit]
        assert lane.length == len(left)
        assert lane.body_bytes == sum(len(each) for each in left)
    assert world.drain("q") == left


@pytest.mark.parametrize("last", [0, 1, 2, 3, COUNT // 2, COUNT - 2])
def test_what_is_settled_up_to_a_sequence_ends_there(last: int) -> None:
    world, lane = backlog(SimulatedDisk())
    assert lane.settle_to(world.queue("q").browse(0, COUNT)[last].sequence, 1000) == last + 1
    left = [body(number) for number in range(last + 1, COUNT)]
    assert lane.length == len(left)
    world.settle_down()
    assert world.restarted(world.disk.kill()).drain("q") == left
    assert world.drain("q") == left


def test_files_that_are_gone_are_in_nobodys_way() -> None:
    """All that was in the middle of a backlog was taken out of it, and its segments are deleted."""
    for is_purged in (False, True):
        world, lane = backlog(SimulatedDisk())
        queue = world.queue("q")
        before = len(world.live_files())
        for entry in queue.browse(0, COUNT)[5:30]:
            taken = queue.backing.take(entry.sequence)
            assert taken is not None
            queue.backing.settle(taken)
        world.settle_down()
        assert len(world.live_files()) < before
        if is_purged:
            lane.settle_to(queue.newest(), 1000)
        assert lane.length == (0 if is_purged else 15)
        left = [] if is_purged else [body(number) for number in (*range(5), *range(30, COUNT))]
        assert world.drain("q") == left


def test_what_lies_between_the_rows_of_a_run_is_found_when_the_first_of_them_were_dropped() -> None:
    """What is compacted twice may be one run around what was never moved."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    for number in range(6):
        world.publish(body(number), "q")
        if number % 2:
            world.settle_down()
            world.roll()
            world.settle_down()
    stays = sorted(world.store.segments)[1]
    for _ in range(2):
        world = world.restarted(SimulatedDisk(world.disk.kill().files()))
        world.settle_down()
        for segment in world.compactable():
            if segment.number != stays:
                world.compact(segment)
        world.settle_down()
        world.roll()
        world.settle_down()
    queue = world.queue("q")
    lane = lane_of(queue)
    entries = queue.browse(0, 6)
    assert lane.paged == 6
    assert lane.settle_to(entries[5].sequence, 2) == 2
    between = lane.take(entries[2].sequence)
    assert between is not None
    assert body_in(between) == body(2)
    lane.settle(between)
    assert world.drain("q") == [body(number) for number in (3, 4, 5)]


def published(world: StoredWorld, first: int, last: int) -> list[str]:
    found = [body(number) for number in range(first, last + 1)]
    for each in found:
        world.publish(each, "q")
    world.sync()
    return found


@pytest.mark.parametrize("way", ["read", "purged", "looked at"])
def test_where_nothing_is_left_in_the_log_what_comes_next_is_there_once(way: str) -> None:
    """The end of the backlog was taken out of it, or is damaged, and nobody has come that far."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    queue = world.declare("q")
    lane = lane_of(queue)
    published(world, 1, 8)
    entries = queue.browse(0, 8)
    if way == "looked at":
        for number in (4, 5, 6, 7, 8):
            inode = world.disk.entries[world.live_files()[-1]]
            inode.content = bytearray(bytes(inode.content).replace(body(number).encode(), b"#" * len(body(number))))
        assert len(queue.browse(0, 8)) == 3
        assert world.drain("q") == [body(number) for number in (1, 2, 3)]
    else:
        for entry in entries[6:]:
            taken = lane.take(entry.sequence)
            assert taken is not None
            lane.settle(taken)
        if way == "purged":
            assert lane.settle_to(entries[5].sequence, 1000) == 6
        else:
            assert world.drain("q") == [body(number) for number in range(1, 7)]
    assert (lane.length, lane.paged, lane.body_bytes) == (0, 0, 0)
    new = published(world, 11, 20)
    assert [body_in(entry) for entry in queue.browse(0, 100)] == new
    assert world.drain("q") == new


def test_what_is_put_back_into_the_middle_of_a_backlog_is_seen_and_comes_in_its_place() -> None:
    world, lane = backlog(SimulatedDisk())
    queue = world.queue("q")
    everything = [body(number) for number in range(COUNT)]
    entry = lane.take(queue.browse(0, COUNT)[20].sequence)
    assert entry is not None
    lane.requeue(entry)
    assert [body_in(each) for each in queue.browse(0, COUNT)] == everything
    assert world.drain("q") == everything


def test_the_only_one_that_is_not_in_memory_can_be_taken() -> None:
    world = StoredWorld(SimulatedDisk())
    lane = lane_of(world.declare("q"))
    bodies = published(world, 1, 4)
    assert lane.paged == 1
    entry = lane.take(world.queue("q").browse(0, 4)[3].sequence)
    assert entry is not None
    assert body_in(entry) == bodies[3]
    assert world.drain("q") == bodies[:3]


def test_a_queue_that_is_not_durable_is_not_waited_for_after_a_restart() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", durable=False)
    published(world, 1, 20)
    assert recover(SimulatedDisk(world.disk.kill().files())).unclaimed.lines() == []


def test_a_damaged_message_is_lost_once_and_no_other_with_it() -> None:
    world, _ = backlog(SimulatedDisk())
    files = world.disk.kill().files()
    hit = body(20).encode()
    (name,) = [name for name, data in files.items() if hit in data and name.endswith(".log")]
    files[name] = files[name].replace(hit, b"#" + hit[1:])
    damaged = world.restarted(SimulatedDisk(files))
    others = [body(number) for number in range(COUNT) if number != 20]
    assert damaged.drain("q") == others
    assert len([line for line in damaged.lines if "lost message 21: damaged record" in line]) == 1
    damaged.settle_down()
    again = damaged.restarted(damaged.disk.kill())
    assert again.drain("q") == others
    assert [line for line in again.lines if "lost message" in line] == []


# -- what is in memory -------------------------------------------------------------------------------------------------


def lane_of(queue: Queue) -> Lane:
    assert isinstance(queue.backing, Lane)
    return queue.backing


def in_memory(lane: Lane) -> int:
    return lane.length - lane.paged


def test_a_head_of_large_messages_is_as_long_as_its_bytes_allow() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20, head_entries=1000)
    lane = lane_of(world.declare("q"))
    for number in range(5):
        world.publish(str(number) * (HEAD_BYTES // 3), "q")
    assert in_memory(lane) == 3
    # Also when they come in while all heads together are too large already.
    world.store.head_bytes_max = -1
    other = lane_of(world.declare("other"))
    for number in range(5):
        world.publish(str(number) * (CROWDED_BYTES // 2), "other")
    assert in_memory(other) == 2


def test_a_batch_of_large_messages_is_as_long_as_its_bytes_allow() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20, head_entries=1000, load_rows=1000)
    for name, size in (("q", LOAD_BYTES // 2), ("crowded", CROWDED_BYTES // 2)):
        world.declare(name)
        for number in range(5):
            world.publish(str(number) * size, name)
    world.sync()
    again = world.restarted(world.disk.kill())
    again.queue("q").backing.peek()
    assert in_memory(lane_of(again.queue("q"))) == 2
    again.store.head_bytes_max = -1
    again.queue("crowded").backing.peek()
    assert in_memory(lane_of(again.queue("crowded"))) == 2


class CountingDisk(SimulatedDisk):
    """Knows how much was read at once, rows of an index aside."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        super().__init__(files)
        self.reads: list[int] = []

    def read(self, handle: int, size: int, offset: int) -> bytes:
        if size > 1000:
            self.reads.append(size)
        return super().read(handle, size, offset)


def test_neighbours_are_read_at_once_and_what_lies_between_two_that_are_far_apart_is_not() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20, load_rows=1000)
    world.declare("q")
    world.declare("other")
    large = READ_GAP * 3 // 4
    world.publish("." * large * 2, "other")
    for number in range(3):
        world.publish(str(number) * large, "q")
    world.publish("." * large * 2, "other")
    world.publish("3" * large, "q")
    world.sync()
    disk = CountingDisk(world.disk.kill().files())
    again = world.restarted(disk)
    again.settle_down()
    disk.reads.clear()
    assert again.queue("q").backing.peek() is not None
    near, far = disk.reads
    assert large * 3 <= near < large * 4
    assert large <= far < large * 2


def test_what_comes_while_one_is_in_the_log_only_comes_behind_it() -> None:
    world = StoredWorld(SimulatedDisk())
    lane = lane_of(world.declare("q"))
    for number in range(4):
        world.publish(body(number), "q")
    assert lane.paged == 1
    assert world.ack_next("q") == body(0)
    # There is room in the head again.
    world.publish(body(4), "q")
    assert world.drain("q") == [body(number) for number in range(1, 5)]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_in_memory_is_counted_to_the_byte(seed: int) -> None:
    chance = random.Random(seed)
    world = StoredWorld(SimulatedDisk(), head_entries=8, load_rows=4)
    queue = world.declare("q", queue_type="quorum", delivery_limit=-1)
    lane = lane_of(queue)
    held: list[Entry] = []
    for number in range(250):
        step = chance.randrange(9)
        if step < 3:
            world.publish(body(number % 40), "q")
        elif step < 5:
            entry = world.get("q")
            held += [entry] if entry is not None else []
        elif step == 5 and held:
            queue.requeue([held.pop(chance.randrange(len(held)))])
        elif step == 6 and held:
            queue.ack(held.pop(chance.randrange(len(held))))
        elif step == 7 and lane.length > 0:
            entry = queue.backing.take(chance.choice(queue.browse(0, 30)).sequence)
            assert entry is not None
            lane.settle(entry)
        elif step == 8:
            lane.settle_to(chance.choice((0, queue.newest() // 2)), 3)
        waiting = queue.browse(0, 1000)
        assert lane.length == len(waiting)
        assert lane.body_bytes == sum(entry.message.body_size for entry in waiting)
        assert world.store.head_bytes == sum(len(entry.message.content) for entry in lane._entries)
        assert lane.taken == {}
        # Of what is done with, nobody remembers how often it came back.
        assert set(lane.returned) <= {entry.sequence for entry in [*waiting, *held]}
    world.delete("q")
    assert world.store.head_bytes == 0


def test_a_queue_in_which_nothing_was_kept_leaves_no_trace_in_the_log() -> None:
    world = StoredWorld(SimulatedDisk())
    world.flush()
    written = world.disk.bytes_written
    world.declare("q")
    world.publish("t", "q", persistent=False)
    world.declare("fleeting", durable=False)
    world.publish("t", "fleeting")
    world.delete("q")
    world.delete("fleeting")
    world.flush()
    assert world.disk.bytes_written == written


def test_what_went_straight_to_a_consumer_is_there_and_marked_after_a_kill() -> None:
    world = StoredWorld(SimulatedDisk())
    queue = world.declare("q")
    lane = lane_of(queue)
    fleeting = Entry(message_of("t", persistent=False), queue, queue.newest() + 1, NEVER)
    lane.publish_delivered(fleeting)
    assert world.store.position == world.store.written
    lane.publish_delivered(Entry(message_of("p"), queue, queue.newest() + 2, NEVER))
    world.flush()
    assert lane.length == 0
    assert world.restarted(world.disk.kill()).drain_flagged("q") == [("p", True)]


# -- damage, and what is gone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [3, 19, 20])
def test_what_is_lost_is_counted_no_more_once_it_is_known(number: int) -> None:
    world, _ = backlog(SimulatedDisk())
    files = world.disk.kill().files()
    hit = body(number).encode()
    (name,) = [name for name, data in files.items() if hit in data and name.endswith(".log")]
    files[name] = files[name].replace(hit, b"#" + hit[1:])
    damaged = world.restarted(SimulatedDisk(files))
    lane = lane_of(damaged.queue("q"))
    left = [body(other) for other in range(COUNT) if other != number]
    while left:
        damaged.queue("q").browse(0, 1)
        assert damaged.ack_next("q") == left.pop(0)
        is_known = any("lost message" in line for line in damaged.lines)
        assert lane.length == len(left) + (not is_known)
        assert lane.body_bytes == sum(map(len, left)) + (0 if is_known else len(hit))
        assert in_memory(lane) == len(lane._entries)
    assert damaged.ack_next("q") is None


def test_of_what_is_lost_nobody_remembers_how_often_it_came_back() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", queue_type="quorum", delivery_limit=-1)
    published(world, 1, 9)
    for _ in range(2):
        entry = world.get("q")
        assert entry is not None
        world.queue("q").requeue([entry])
    world.sync()
    world.roll()
    world.settle_down()
    files = {name: data.replace(body(1).encode(), b"#" * 8) for name, data in world.disk.kill().files().items()}
    again = world.restarted(SimulatedDisk(files))
    lane = lane_of(again.queue("q"))
    assert list(lane.returned.values()) == [2]
    assert again.drain("q") == [body(number) for number in range(2, 10)]
    assert lane.returned == {}


def test_what_cannot_be_read_is_counted_no_more_and_its_file_stays() -> None:
    disk = DiskWithABadSpot()
    world, lane = backlog(disk)
    disk.spot = body(20).encode()
    left = [body(other) for other in range(COUNT) if other != 20]
    while left:
        assert world.ack_next("q") == left.pop(0)
        is_known = any("cannot read message" in line for line in world.lines)
        assert lane.length == len(left) + (not is_known)
        assert in_memory(lane) == len(lane._entries)
    (name,) = [name for name, data in disk.files().items() if body(20).encode() in data]
    # The disk is better; but what was left out is there again at a restart and not before.
    disk.spot = b""
    world.store.short_of_space = True
    for number in range(40):
        world.publish(body(number), "q")
        world.ack_next("q")
        world.settle_down()
    assert name in world.live_files()
    assert lane.length == 0
    assert world.restarted(SimulatedDisk(disk.files())).drain("q") == [body(20)]


def test_one_that_is_left_alone_in_its_segment_is_found_and_purged_as_others_are() -> None:
    for is_purged in (False, True):
        world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
        queue = world.declare("q")
        for _ in range(3):
            for number in range(8):
                world.publish(body(number), "q")
            world.roll()
        world.sync()
        entries = queue.browse(0, 100)
        # One of each segment stays, none of them in memory.
        for entry in entries[:7] + entries[8:15] + entries[16:23]:
            taken = queue.backing.take(entry.sequence)
            assert taken is not None
            queue.backing.settle(taken)
        assert [body_in(entry) for entry in queue.browse(0, 100)] == [body(7)] * 3
        assert queue.backing.paged == 3
        if is_purged:
            assert queue.backing.settle_to(queue.newest(), 1000) >= 3
            assert (queue.backing.length, queue.backing.body_bytes) == (0, 0)
        world.settle_down()
        assert world.restarted(world.disk.kill()).drain("q") == ([] if is_purged else [body(7)] * 3)
        assert world.drain("q") == ([] if is_purged else [body(7)] * 3)
