"""A read that fails is not damage: the disk may be better tomorrow, so nothing is given up for it."""

from __future__ import annotations

import errno

from tests.store.golden_folder import FOLDER, MESSAGES
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import START, StoredWorld, body_in
from warren.broker.stream.stream import Stream
from warren.store.lane import Lane
from warren.store.recovery import recover
from warren.store.stream import DiskStreamLog
from warren.store.stream_format import FILE_ENDING, INDEX_ENDING

FILLER = "." * 100
COUNT = 60


class DiskWithABadSpot(SimulatedDisk):
    """Reading what holds `spot` fails."""

    spot = b""

    def read(self, handle: int, size: int, offset: int) -> bytes:
        data = super().read(handle, size, offset)
        if self.spot and self.spot in data:
            raise OSError(errno.EIO, "Input/output error")
        return data


def bodies() -> list[str]:
    return [f"m{number:02d}{FILLER}" for number in range(COUNT)]


def backlog() -> tuple[StoredWorld, DiskWithABadSpot]:
    disk = DiskWithABadSpot()
    world = StoredWorld(disk)
    world.declare("q")
    for body in bodies():
        world.publish(body, "q")
        world.sync()
    world.settle_down()
    return world, disk


def test_the_others_go_on_and_the_unreadable_one_is_there_after_a_restart() -> None:
    world, disk = backlog()
    disk.spot = b"m30"
    others = [body for body in bodies() if not body.startswith("m30")]
    taken = []
    while (body := world.ack_next("q")) is not None:
        taken.append(body)
        world.sync()
    assert taken == others
    assert world.queue("q").backing.length == 0
    assert [line for line in world.lines if "cannot read message 31: I/O error" in line and "queue 'q'" in line]
    world.settle_down()
    again = world.restarted(world.disk.kill())
    assert again.drain("q") == [bodies()[30]]


def test_a_segment_that_cannot_be_read_is_not_compacted_away() -> None:
    world, disk = backlog()
    keep = []
    for number in range(COUNT):
        entry = world.get("q")
        assert entry is not None
        if number % 9 == 0:
            keep.append(entry)
        elif number == COUNT - 1:
            break
        else:
            world.queue("q").ack(entry)
    # Every third of a segment's messages is not left: all of them are due, and all of them unreadable.
    disk.spot = FILLER.encode()
    world.settle_down()
    again = world.restarted(SimulatedDisk(disk.files()))
    assert again.drain("q") == [*[body for number, body in enumerate(bodies()) if number % 9 == 0], bodies()[-1]]


class DiskWithoutMemory(SimulatedDisk):
    """Nothing can be read for a while."""

    fails = False

    def read(self, handle: int, size: int, offset: int) -> bytes:
        if self.fails:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return super().read(handle, size, offset)


def test_a_queue_that_failed_over_what_expires_tries_again() -> None:
    disk = DiskWithoutMemory()
    world = StoredWorld(disk)
    world.declare("q", message_ttl=1000)
    for body in bodies():
        world.publish(body, "q")
        world.sync()
    disk.fails = True
    world.node.tick(START + 1001)
    assert world.node.monitor.failures == 1
    assert world.queue("q").backing.length > 0
    disk.fails = False
    world.node.tick(START + 3000)
    world.flush()
    assert world.queue("q").backing.length == 0


class DiskWithABadFile(SimulatedDisk):
    """Reading this file fails, all of it."""

    bad = ""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        super().__init__(files)
        self._names: dict[int, str] = {}

    def open(self, name: str) -> int:
        handle = super().open(name)
        self._names[handle] = name
        return handle

    def read(self, handle: int, size: int, offset: int) -> bytes:
        if self.bad and self._names.get(handle) == self.bad:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(handle, size, offset)


class DiskWithACutFile(DiskWithABadFile):
    """Of this file nothing is left, since it was opened."""

    def read(self, handle: int, size: int, offset: int) -> bytes:
        return b"" if self._names.get(handle) == self.bad else super().read(handle, size, offset)


def test_a_queue_that_gives_up_messages_counts_what_is_left() -> None:
    world, _ = backlog()
    disk = DiskWithACutFile(world.disk.kill().files())
    again = world.restarted(disk)
    again.settle_down()
    held = again.get("q")
    assert held is not None
    disk.bad = sorted(name for name in disk.names() if name.endswith(".index"))[-1]
    backing = again.queue("q").backing
    assert isinstance(backing, Lane)
    while backing._entries or len(backing.cursors) > 1:
        again.ack_next("q")
    # Only those are left that nobody finds any more: counted until somebody looks for them.
    assert backing.paged > 0
    again.queue("q").requeue([held])
    assert again.ack_next("q") == bodies()[0]
    assert (backing.length, backing.body_bytes, backing.paged) == (0, 0, 0)


def test_a_purge_gives_up_what_nobody_finds_any_more() -> None:
    world, _ = backlog()
    disk = DiskWithACutFile(world.disk.kill().files())
    again = world.restarted(disk)
    again.settle_down()
    disk.bad = sorted(name for name in disk.names() if name.endswith(".index"))[-1]
    queue = again.queue("q")
    held = again.get("q")
    assert held is not None
    queue.backing.settle_to(queue.newest(), 1000)
    queue.requeue([held])
    assert queue.browse(0, 1) == [held]
    assert again.ack_next("q") == bodies()[0]
    assert (queue.backing.length, queue.backing.body_bytes, queue.backing.paged) == (0, 0, 0)


def restarted(world: StoredWorld, bad: str) -> StoredWorld:
    disk = DiskWithABadFile(world.disk.kill().files())
    disk.bad = bad
    return world.restarted(disk)


def test_an_index_that_cannot_be_read_costs_nothing() -> None:
    world, _ = backlog()
    indexes = [name for name in world.disk.names() if name.endswith(".index")]
    assert len(indexes) > 2
    for name in indexes:
        assert restarted(world, name).drain("q") == bodies()


def test_what_a_stream_can_do_without_is_not_missed() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream", stream_max_segment_size_bytes=1000)
    for body in bodies():
        world.publish(body, "s")
        world.sync()
    world.settle_down()
    indexes = [name for name in world.disk.names() if name.endswith(INDEX_ENDING)]
    assert len(indexes) > 2
    for name in indexes:
        # The index, or the beginning of the file that it is of.
        for bad in (name, name.replace(INDEX_ENDING, FILE_ENDING)):
            assert restarted(world, bad).queue("s").backing.length == COUNT


def offsets_in(world: StoredWorld, name: str) -> dict[int, str]:
    return {int(entry.sequence): body_in(entry) for entry in world.queue(name).browse(0, 1000)}


def long_stream() -> tuple[StoredWorld, dict[str, bytes], list[str]]:
    """With another and a queue; all files without their indexes, so that nothing but a file itself can tell what is in
    it; and the names of the stream's."""
    world = StoredWorld(SimulatedDisk())
    world.declare("s", queue_type="stream", stream_max_segment_size_bytes=1000)
    world.declare("other", queue_type="stream")
    world.declare("q")
    for body in bodies():
        world.publish(body, "s", "other", "q")
        world.sync()
    world.settle_down()
    files = {name: data for name, data in world.disk.kill().files().items() if not name.endswith(INDEX_ENDING)}
    own = sorted(name for name in files if name.startswith(f"{world.queue('s').incarnation}."))
    assert len(own) > 5
    return world, files, own


def start_without(world: StoredWorld, files: dict[str, bytes], bad: str) -> StoredWorld:
    """One in which this file of the stream cannot be read, and something new is published."""
    disk = DiskWithABadFile(files)
    disk.bad = bad
    missing = world.restarted(disk)
    (line,) = [line for line in missing.lines if "stream" in line]
    assert f"{bad} cannot be read: its messages are missing until it can be again" in line
    assert list(offsets_in(missing, "other").values()) == bodies()
    assert missing.drain("q") == bodies()
    stream = missing.queue("s")
    assert isinstance(stream, Stream)
    assert stream.log.committed == stream.log.next_offset
    missing.publish("new", "s")
    missing.settle_down()
    # A sequence is an offset and one.
    assert stream.log.first_offset == min(offsets_in(missing, "s")) - 1
    return missing


def test_a_file_of_a_stream_that_cannot_be_read_is_missing_and_comes_back_as_it_was() -> None:
    world, files, own = long_stream()
    whole = offsets_in(world, "s")
    stream = world.queue("s")
    assert isinstance(stream, Stream)
    assert isinstance(stream.log, DiskStreamLog)
    for bad, segment in zip(own, stream.log.segments, strict=True):
        missing = start_without(world, files, bad)
        found = offsets_in(missing, "s")
        # What is published meanwhile takes nobody's offset.
        new = max(found)
        assert found.pop(new) == "new"
        assert new > max(whole)
        inside = range(int(segment.first_offset) + 1, int(segment.end_offset) + 1)
        assert found == {place: body for place, body in whole.items() if place not in inside}
        again = missing.restarted(SimulatedDisk(missing.disk.kill().files()))
        assert offsets_in(again, "s") == {**whole, new: "new"}
        assert [line for line in again.lines if "stream" in line] == []


def test_a_stream_of_which_nothing_can_be_read_goes_on_behind_all_that_it_can_have_had() -> None:
    world, files, own = long_stream()
    left = {name: data for name, data in files.items() if name not in own[:-1]}
    missing = start_without(world, left, own[-1])
    (new,) = offsets_in(missing, "s")
    again = missing.restarted(SimulatedDisk(missing.disk.kill().files()))
    found = offsets_in(again, "s")
    assert found.pop(new) == "new"
    assert found
    assert found.items() < offsets_in(world, "s").items()
    assert max(found) < new


def test_a_stream_that_is_deleted_goes_with_what_cannot_be_read_of_it() -> None:
    world, files, own = long_stream()
    missing = start_without(world, files, own[2])
    missing.delete("s")
    missing.settle_down()
    assert [name for name in missing.disk.names() if name in own] == []


def test_a_segment_that_cannot_be_read_is_missing_and_comes_back_as_it_was() -> None:
    world, _ = backlog()
    for _ in range(COUNT - 10):
        world.ack_next("q")
    world.settle_down()
    left = bodies()[-10:]
    # Without its index, so that nothing but the file itself can tell what is in it.
    files = world.disk.kill().files()
    for log in [name for name in files if name.endswith(".log")]:
        disk = DiskWithABadFile({name: data for name, data in files.items() if name != log.replace("log", "index")})
        disk.bad = log
        missing = world.restarted(disk)
        found = missing.drain("q")
        assert set(found) <= set(bodies())
        assert [line for line in missing.lines if f"segment {int(log[:12])} cannot be read" in line]
        # Whatever happens meanwhile, and however often.
        for number in range(20):
            missing.declare(f"other{number}")
            missing.publish(f"new{number}{FILLER}", f"other{number}")
            missing.sync()
        missing.settle_down()
        again = missing.restarted(SimulatedDisk(missing.disk.kill().files()))
        assert set(left) <= set(again.drain("q"))
        assert [again.drain(f"other{number}") for number in range(20)] == [
            [f"new{number}{FILLER}"] for number in range(20)
        ]


def test_a_damaged_settled_file_is_told() -> None:
    files = {path.name: path.read_bytes() for path in (FOLDER / MESSAGES).iterdir()}
    for name in [name for name in files if name.endswith(".settled")]:
        damaged = {**files, name: files[name][:-1] + bytes([files[name][-1] ^ 1])}
        assert recover(SimulatedDisk(damaged)).log_lines == [
            f"store: {name} is damaged: messages that were acknowledged may come back"
        ]


def world_with_marks() -> StoredWorld:
    """The acks of some of the oldest messages are in a settled file, and the records that said so are gone."""
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    world.declare("fleeting")
    for number in range(6):
        world.publish(f"m{number}{FILLER}", "q")
    world.roll()
    for _ in range(2):
        world.ack_next("q")
    pass_on(world)
    return world


def pass_on(world: StoredWorld) -> None:
    """Segments come and go."""
    for number in range(6):
        world.publish(f"f{number}{FILLER}", "fleeting")
    world.roll()
    while world.ack_next("fleeting") is not None:
        world.sync()
    world.roll()
    world.settle_down()


def test_a_missing_settled_file_is_told_however_long_ago_it_was_written() -> None:
    world = world_with_marks()
    told = set()
    for _ in range(4):
        files = world.disk.kill().files()
        marks = [name for name in files if name.endswith(".settled")]
        assert len(marks) == 1
        assert [line for line in world.restarted(SimulatedDisk(files)).lines if ".settled" in line] == []
        without = world.restarted(SimulatedDisk({name: data for name, data in files.items() if name not in marks}))
        assert [line for line in without.lines if ".settled" in line] == [
            f"store: {marks[0]} is missing: messages that were acknowledged may come back"
        ]
        assert without.drain("q")[:2] == [f"m0{FILLER}", f"m1{FILLER}"]
        told.add(tuple(sorted(name for name in files if name.endswith(".log"))))
        # The record that says so must not go with the segment that it was in, nor be lost by a restart.
        pass_on(world)
        world = world.restarted(SimulatedDisk(world.disk.kill().files()))
        pass_on(world)
    assert len(told) == 4


def test_of_a_segment_that_is_gone_no_settled_file_is_missed() -> None:
    world = world_with_marks()
    while world.ack_next("q") is not None:
        world.sync()
    pass_on(world)
    again = world.restarted(SimulatedDisk(world.disk.kill().files()))
    assert [name for name in again.disk.kill().files() if name.endswith(".settled")] == []
    assert [line for line in again.lines if ".settled" in line] == []
