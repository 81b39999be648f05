"""A stream's files from the inside: every offset and every moment is found, and what is in memory of it has a bound."""

from __future__ import annotations

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.broker.stream.stream import Stream
from warren.store.stream import TAIL_BYTES, DiskStreamLog

COUNT = 120


def log_of(world: StoredWorld, name: str = "s") -> DiskStreamLog:
    stream = world.queue(name)
    assert isinstance(stream, Stream)
    assert isinstance(stream.log, DiskStreamLog)
    return stream.log


@pytest.fixture(params=["as written", "from files", "unfinished"])
def log(request: pytest.FixtureRequest) -> DiskStreamLog:
    """Of several files, two messages in each millisecond in ten."""
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream", stream_max_segment_size_bytes=4000)
    for number in range(COUNT):
        if number % 2 == 0:
            world.node.now += 10
        world.publish(f"{number}:" + "x" * (number * 7 % 200), "s")
        if number % 5 == 0:
            world.sync()
    if request.param == "unfinished":
        return log_of(world)
    world.settle_down()
    if request.param == "from files":
        world = world.restarted(SimulatedDisk(world.disk.files()))
    return log_of(world)


def test_reading_begins_at_every_offset(log: DiskStreamLog) -> None:
    for offset in range(int(log.committed)):
        cursor = log.cursor(offset)
        record = cursor.next()
        assert record is not None
        assert record.offset == offset
        cursor.close()
    assert log.cursor(int(log.committed)).next() is None


def test_every_moment_is_found(log: DiskStreamLog) -> None:
    times: list[int] = []
    cursor = log.cursor(0)
    while (record := cursor.next()) is not None:
        times.append(int(record.timestamp))
    cursor.close()
    assert len(set(times)) > 20
    for time in sorted({moment + late for moment in times for late in (-1, 0, 1)}):
        wanted = [offset for offset, moment in enumerate(times) if moment >= time]
        if wanted:
            assert log.offset_at(time) == wanted[0]


def test_every_file_has_the_offsets_between_its_first_and_the_next(log: DiskStreamLog) -> None:
    assert log.segment_count() > 2
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        assert segment.end_offset == following.first_offset
        assert log.find(int(segment.first_offset)) is segment
        assert log.find(int(segment.end_offset) - 1) is segment
        assert log.after(segment) is following
    assert log.after(log.segments[-1]) is None


def test_what_is_kept_in_memory_of_a_stream_has_a_bound() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    log = log_of(world)
    for size in [30_000] * 40 + [int(TAIL_BYTES) * 3 // 4] * 2:
        world.publish("x" * size, "s")
        world.sync()
        kept = [len(block.data) for block in log._tail]
        assert log._tail_bytes == sum(kept)
        assert sum(kept) <= TAIL_BYTES
        for block in log._tail:
            for position, found in ((block.start, block), (block.start + len(block.data) - 1, block)):
                assert log.block_at(block.segment, position) is found
    # Two of these are too much, and one that is too large by itself is there for those who read along.
    assert len(log._tail) == 1
    world.publish("x" * int(TAIL_BYTES) * 2, "s")
    world.sync()
    assert len(log._tail) == 1


def test_the_last_file_that_is_full_is_known_by_its_number() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream", stream_max_segment_size_bytes=4000)
    log = log_of(world)
    nothing = log.last_sealed()
    world.publish("x", "s")
    world.sync()
    assert log.last_sealed() == nothing
    assert log.segments[-1].number == nothing + 1
    while log.segment_count() < 3:
        world.publish("x" * 1000, "s")
        world.settle_down()
    is_open = not log.segments[-1].is_sealed
    assert log.last_sealed() == log.segments[-1].number - (1 if is_open else 0)
