"""A read that fails is not damage: the disk may be better tomorrow, so nothing is given up for it."""

from __future__ import annotations

import errno

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld

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
