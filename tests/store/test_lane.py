"""A queue in the log: what is only there is settled without being read, and damage costs what is damaged."""

from __future__ import annotations

import errno

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from tests.store.test_unreadable import DiskWithABadFile
from warren.store.lane import Lane

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


def test_what_is_settled_up_to_a_sequence_ends_there() -> None:
    world, lane = backlog(SimulatedDisk())
    middle = world.queue("q").browse(0, COUNT)[COUNT // 2].sequence
    assert lane.settle_to(middle, 1000) == COUNT // 2 + 1
    world.settle_down()
    again = world.restarted(world.disk.kill())
    assert again.drain("q") == [body(number) for number in range(COUNT // 2 + 1, COUNT)]


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
