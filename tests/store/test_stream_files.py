"""A stream's files from the inside: every offset and every moment is found, and what is in memory of it has a bound."""

from __future__ import annotations

import errno
import re

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import LoggingHost, StoredWorld
from warren.broker.stream.stream import Stream
from warren.store.format import SEEN, SYNCED, TOGETHER
from warren.store.stream import TAIL_BYTES, DiskStreamLog
from warren.store.stream_format import FILE_ENDING, STREAM_MESSAGE, file_name, read_file_header
from warren.store.walk import RecordWalk

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
    disk, host = log.logs.disk, log.queue.node.host
    assert isinstance(disk, SimulatedDisk)
    assert isinstance(host, LoggingHost)
    handles = len(disk.handles)
    for time in sorted({moment + late for moment in times for late in (-1, 0, 1)}):
        wanted = [offset for offset, moment in enumerate(times) if moment >= time]
        if wanted:
            assert log.offset_at(time) == wanted[0]
    # Nothing was taken for damage, and no file is left open.
    assert host.lines == []
    assert len(disk.handles) == handles


def test_reading_begins_at_every_offset_of_a_long_file() -> None:
    """Of which only some places are known."""
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    for number in range(30):
        world.node.now += 10
        world.publish(f"{number}:" + "x" * 20_000, "s")
        world.sync()
    for log in (log_of(world), log_of(world.restarted(world.disk.kill()))):
        assert log.segment_count() == 1
        times = []
        for offset in range(30):
            cursor = log.cursor(offset)
            record = cursor.next()
            assert record is not None
            assert record.offset == offset
            times.append(record.timestamp)
            cursor.close()
        assert [log.offset_at(time) for time in times] == list(range(30))


def test_who_waits_at_the_end_gets_what_comes_behind_what_is_not_written_yet() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    log = log_of(world)
    world.publish("written", "s")
    world.sync()
    world.publish("not written yet", "s")
    cursor = log.cursor(int(log.next_offset))
    assert cursor.next() is None
    world.publish("wanted", "s")
    world.sync()
    record = cursor.next()
    assert record is not None
    assert record.offset == 2
    assert cursor.next() is None
    cursor.close()
    assert world.lines == []


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


def grown(segment_bytes: int, count: int) -> DiskStreamLog:
    """Of small messages, each synced by itself."""
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream", stream_max_segment_size_bytes=segment_bytes)
    for _ in range(count):
        world.publish("x" * 100, "s")
        world.sync()
    return log_of(world)


def test_a_file_is_full_when_it_has_reached_its_size_and_not_before() -> None:
    size = int(grown(1_000_000, 5).segments[-1].size)
    assert grown(1_000_000, 5).segment_count() == 1
    for limit, is_full in ((size + 1, False), (size, True), (size - 1, True)):
        log = grown(limit, 5)
        assert (log.segment_count(), log.segments[-1].is_sealed) == (1, is_full)


def test_files_go_when_all_together_are_longer_than_the_stream_may_be(log: DiskStreamLog) -> None:
    files, size = list(log.segments), log.disk_bytes()
    log.max_bytes = size
    log.retain(log.last_timestamp)
    assert log.segments == files
    log.max_bytes = size - 1
    log.retain(log.last_timestamp)
    assert log.segments == files[1:]
    assert [file.is_gone for file in files[:2]] == [True, False]
    log.max_bytes = 0
    log.retain(log.last_timestamp)
    # What is written to stays.
    assert log.segments == files[-1:]
    assert log.first_offset == files[-1].first_offset
    assert (log.length, log.body_bytes) == (files[-1].count, files[-1].body_bytes)


def test_a_file_goes_when_its_youngest_message_is_too_old(log: DiskStreamLog) -> None:
    files = list(log.segments)
    now = int(log.last_timestamp) + 100
    log.max_age = now - files[0].last_timestamp
    log.retain(now)
    assert log.segments == files
    log.max_age -= 1
    log.retain(now)
    assert log.segments == files[1:]


def test_a_file_goes_to_the_archive_first_and_nothing_younger_before_it(log: DiskStreamLog) -> None:
    files = list(log.segments)
    log.archives = True
    log.max_bytes = 0
    wanted = log.logs.archive_wanted
    log.retain(log.last_timestamp)
    assert (log.segments, wanted.get(log)) == (files, files[0])
    files[0].is_archived = True
    # Of one without messages nothing need be kept.
    files[1].count = 0
    log.retain(log.last_timestamp)
    assert (log.segments, wanted.get(log)) == (files[2:], files[2])
    log.max_bytes = -1
    log.retain(log.last_timestamp)
    assert log not in wanted


def test_a_file_with_one_message_goes_to_the_archive_like_any_other() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    for number in range(5):
        world.publish(f"{number}", "s")
        world.settle_down()
        world = world.restarted(world.disk.kill())
    log = log_of(world)
    assert [segment.count for segment in log.segments] == [1] * 5
    log.archives = True
    log.max_bytes = 0
    log.retain(log.last_timestamp)
    assert log.logs.archive_wanted.get(log) is log.segments[0]
    assert log.length == 5


def test_every_stream_has_a_folder_of_its_own_in_the_archive() -> None:
    world = StoredWorld(SimulatedDisk())
    world.store.streams.archive_root = "/archive"
    folders = []
    for _ in range(2):
        world.declare("s", queue_type="stream")
        world.sync()
        log = log_of(world)
        assert log.archive_root == "/archive"
        assert log.archive_folder
        folders.append(log.archive_folder)
        assert log_of(world.restarted(world.disk.kill())).archive_folder == log.archive_folder
        world.delete("s")
    # Also one of the same name: it is another stream.
    assert len(set(folders)) == 2


def test_a_file_is_open_as_long_as_somebody_reads_it() -> None:
    log = grown(1000, 30)
    first = log.segments[0]
    log._tail.clear()
    one, other = log.cursor(0), log.cursor(0)
    assert one.next() is not None
    assert other.next() is not None
    one.close()
    assert first.handle >= 0
    assert other.next() is not None
    other.close()
    assert first.handle < 0


def test_every_file_tells_how_long_the_one_before_it_is(log: DiskStreamLog) -> None:
    before = 0
    for segment in log.segments:
        data = log.logs.read_whole(file_name(log.incarnation, int(segment.number)))
        header = read_file_header(data, log.incarnation, int(segment.number))
        if header is None:
            # Not written yet.
            assert segment is log.segments[-1]
            continue
        assert (header.previous_size, header.first_offset) == (before, segment.first_offset)
        before = int(segment.size)


def test_numbers_of_publishers_are_written_once() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    log = log_of(world)
    sizes = []
    for number in range(1, 5):
        written = world.store.bytes_written
        world.publish(f"p{number}", "s", number=number)
        world.sync()
        sizes.append(log.segments[-1].size)
        assert world.store.bytes_written > written
    assert sizes[3] - sizes[2] == sizes[2] - sizes[1]


def test_every_message_of_a_numbered_publisher_is_one_whole_with_its_number() -> None:
    """A crash takes both of them or none."""
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    for number in range(1, 4):
        world.publish(f"p{number}", "s", number=number)
        world.sync()
    (segment,) = log_of(world).segments
    data = world.disk.files()[file_name(segment.incarnation, int(segment.number))]
    walk, kinds = RecordWalk(data, segment.header_size, segment.seed), []
    while walk.next():
        if walk.kind() != SYNCED:
            kinds.append(walk.kind())
    assert kinds == [TOGETHER, STREAM_MESSAGE, SEEN] * 3


def test_damage_costs_the_record_that_it_is_in_and_is_told_with_its_place() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    for number in range(5):
        world.publish(f"{number}:" + "x" * 100, "s")
    world.settle_down()
    (name,) = [name for name in world.disk.names() if name.endswith(FILE_ENDING)]
    data = world.disk.files()[name]
    places = [data.index(f"{number}:x".encode()) for number in range(5)]
    for hit in (1, 4):
        log = log_of(world)
        log._tail.clear()
        world.disk.entries[name].content[:] = data[: places[hit]] + b"#" + data[places[hit] + 1 :]
        log.segments[0].wounds.clear()
        cursor = log.cursor(0)
        found = []
        while (record := cursor.next()) is not None:
            found.append(int(record.offset))
        cursor.close()
        assert found == [number for number in range(5) if number != hit]
        told = [line for line in world.lines if "lost messages" in line][-1]
        start, end = [int(number) for number in re.findall(r"byte (\d+) to (\d+)", told)[0]]
        assert start < places[hit] < end
        assert all(not start <= place < end for number, place in enumerate(places) if number != hit)


def test_damage_is_told_once_however_many_come_across_it() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream")
    for number in range(5):
        world.publish(f"{number}:" + "x" * 100, "s")
    world.settle_down()
    (name,) = [name for name in world.disk.names() if name.endswith(FILE_ENDING)]
    log = log_of(world)
    log._tail.clear()
    content = world.disk.entries[name].content
    content[content.index(b"2:x")] ^= 1
    for _ in range(3):
        assert offsets_read(log) == [0, 1, 3, 4]
    assert len([line for line in world.lines if "lost messages" in line]) == 1


def offsets_read(log: DiskStreamLog) -> list[int]:
    cursor, found = log.cursor(0), []
    while (record := cursor.next()) is not None:
        found.append(int(record.offset))
    cursor.close()
    return found


class DiskThatCannotRead(SimulatedDisk):
    """For this reason, and while there is one."""

    reason = 0

    def read(self, handle: int, size: int, offset: int) -> bytes:
        if self.reason:
            raise OSError(self.reason, "cannot read")
        return super().read(handle, size, offset)

    def open(self, name: str) -> int:
        if self.reason == errno.ENOENT:
            raise FileNotFoundError(self.reason, "cannot open")
        return super().open(name)


@pytest.mark.parametrize(
    ("reason", "is_damage"), [(errno.EIO, True), (errno.ENOENT, True), (errno.ENOMEM, False), (errno.EMFILE, False)]
)
def test_what_cannot_be_read_is_damage_unless_it_may_pass(reason: int, is_damage: bool) -> None:
    disk = DiskThatCannotRead()
    world = StoredWorld(disk)
    world.declare("s", queue_type="stream", stream_max_segment_size_bytes=1000)
    for number in range(30):
        world.publish(f"{number}:" + "x" * 100, "s")
        world.sync()
    world.settle_down()
    log = log_of(world)
    # Those that were written last are in memory.
    while len(log._tail) > 5:
        log._tail.popleft()
    disk.reason = reason
    if is_damage:
        found = offsets_read(log)
        assert 0 < len(found) <= 5
        assert found == list(range(found[0], 30))
        assert [line for line in world.lines if "lost messages" in line]
        return
    with pytest.raises(OSError, match="cannot read"):
        offsets_read(log)
    assert world.lines == []
    disk.reason = 0
    assert offsets_read(log) == list(range(30))
