"""What is given back: files of what is done with, memory of what was just written, streams that must be archived."""

from __future__ import annotations

import struct

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import START, StoredWorld
from warren.broker.stream.stream import Stream
from warren.store.format import FILE_HEADER_SIZE, SYNCED
from warren.store.stream import TAIL_BYTES, DiskStreamLog
from warren.store.walk import RecordWalk

FILLER = "." * 100


def stream_log(world: StoredWorld, max_bytes: int = 1 << 30) -> DiskStreamLog:
    queue = world.declare("s", queue_type="stream", stream_max_segment_size_bytes=1000, max_length_bytes=max_bytes)
    assert isinstance(queue, Stream)
    assert isinstance(queue.log, DiskStreamLog)
    return queue.log


def test_a_deleted_queue_stays_deleted_however_the_files_of_it_come_and_go() -> None:
    world = StoredWorld(SimulatedDisk())
    for name in ("gone", "kept", "fleeting"):
        world.declare(name)
    for number in range(4):
        world.publish(f"g{number}{FILLER}", "gone")
    world.publish(f"k{FILLER}", "kept")
    world.roll()
    world.delete("gone")
    world.settle_down()
    for _ in range(3):
        # The segment that says so may not go before those that have messages of the queue.
        for number in range(6):
            world.publish(f"f{number}{FILLER}", "fleeting")
        world.roll()
        while world.ack_next("fleeting") is not None:
            world.sync()
        world.roll()
        world.settle_down()
        world = world.restarted(SimulatedDisk(world.disk.kill().files()))
        assert world.store.unclaimed.lines() == []
        assert world.lines == []
    assert world.drain("kept") == [f"k{FILLER}"]


def test_while_space_is_short_a_segment_ends_when_little_of_it_lives() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    for number in range(8):
        world.publish(f"m{number}{FILLER}", "q")
    world.sync()
    first = world.store.active.number
    world.store.short_of_space = True
    world.sync()
    # All of it lives: a new file would give nothing back.
    assert world.store.active.number == first
    for _ in range(6):
        world.ack_next("q")
        world.sync()
    world.settle_down()
    assert world.store.active.number > first
    while world.ack_next("q") is not None:
        world.sync()
    world.settle_down()
    assert f"{first:012d}.log" not in world.live_files()


@pytest.mark.parametrize("is_short_before", [True, False])
def test_while_space_is_short_a_segment_ends_in_the_turn_in_which_nothing_of_it_lives(is_short_before: bool) -> None:
    """However much is written in every turn, and though nothing is written any more."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    for number in range(8):
        world.publish(f"m{number}{FILLER}", "q")
    world.sync()
    first = world.store.active.number
    world.store.short_of_space = is_short_before
    while world.ack_next("q") is not None:
        pass
    world.flush()
    assert (world.store.active.number > first) == is_short_before
    world.store.short_of_space = True
    world.flush()
    assert world.store.active.number == first + 1


def test_the_memory_of_what_a_stream_has_just_written_is_bounded() -> None:
    world = StoredWorld(SimulatedDisk())
    log = stream_log(world)
    for _ in range(40):
        world.publish("x" * 40_000, "s")
        world.sync()
        kept = sum(len(block.data) for block in log._tail)
        assert kept == log._tail_bytes
        assert kept <= TAIL_BYTES
    assert kept > TAIL_BYTES // 2


def test_where_the_messages_of_a_full_file_are_is_not_kept_in_memory() -> None:
    world = StoredWorld(SimulatedDisk())
    log = stream_log(world)
    for number in range(40):
        world.publish(f"m{number}{FILLER}", "s")
        world.sync()
    full = [segment for segment in log.segments if segment.is_sealed]
    assert len(full) > 3
    assert all(segment.rows_in_memory() for segment in full)
    world.settle_down()
    assert not [segment for segment in full if segment.rows_in_memory()]


def test_nothing_leaves_a_stream_before_it_is_in_the_archive() -> None:
    world = StoredWorld(SimulatedDisk())
    log = stream_log(world, 1500)
    log.archives = True
    for number in range(20):
        world.publish(f"m{number}{FILLER}", "s")
        world.sync()
    assert (log.first_offset, log.length) == (0, 20)
    oldest = log.segments[0]
    assert log.logs.archive_wanted[log] is oldest
    oldest.is_archived = True
    log.retain(START)
    # The first goes, and the next is wanted.
    assert log.first_offset == log.segments[0].first_offset > 0
    assert log.logs.archive_wanted[log] is log.segments[0]


def test_the_log_says_up_to_where_it_was_synced() -> None:
    """Damage before that is bad luck and costs a record; behind it the log ends."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    world.publish(f"m{FILLER}", "q")
    world.sync()
    number, size = world.store.active.number, world.store.active.size
    world.publish(f"n{FILLER}", "q")
    world.flush()
    walk = RecordWalk(world.disk.kill().files()[f"{number:012d}.log"], FILE_HEADER_SIZE, number)
    marks = []
    while walk.next():
        if walk.kind() == SYNCED:
            marks.append(struct.unpack(">QQ", walk.payload()))
    assert marks[-1] == (number, size)


def test_the_number_of_the_segment_that_a_start_begins_is_taken_for_good() -> None:
    world = StoredWorld(SimulatedDisk())
    for _ in range(3):
        number = world.store.active.number
        # The power fails before anything else is synced.
        left = world.disk.lose_all()
        assert left.files()[f"{number:012d}.log"].startswith(b"WARRENLG")
        world = world.restarted(left)
        assert world.store.active.number > number


def test_a_stream_is_after_a_restart_where_it_was_before() -> None:
    world = StoredWorld(SimulatedDisk())
    log = stream_log(world, 1500)
    for number in range(20):
        world.publish(f"m{number}{FILLER}", "s")
        world.sync()
    assert log.first_offset > 0
    # What retention may take goes, and nothing that still fits.
    assert 1500 - 1200 < log.disk_bytes() <= 1500 + 1200
    second = world.restarted(world.disk.kill())
    queue = second.queue("s")
    assert isinstance(queue, Stream)
    again = queue.log
    # A start looks at once whether more must go.
    assert again.first_offset in [segment.first_offset for segment in log.segments]
    assert (again.next_offset, again.length) == (20, 20 - again.first_offset)
    assert again.committed == 20
    # Where nothing must go, nothing changes.
    second.settle_down()
    third = second.restarted(second.disk.kill()).queue("s")
    assert isinstance(third, Stream)
    assert (third.log.first_offset, third.log.length) == (again.first_offset, again.length)
