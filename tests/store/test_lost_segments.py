"""The file of a segment is gone and its index is there: what it said about other segments still holds, for ever."""

from __future__ import annotations

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.store.recovery import recover
from warren.store.segment import segment_name

FILLER = "." * 100


def fill(world: StoredWorld, names: dict[str, int]) -> None:
    for name, count in names.items():
        for number in range(count):
            world.publish(f"{name}{number}{FILLER}", name)


def seal(world: StoredWorld) -> int:
    """End the active segment and write its index; gives its number."""
    number = world.store.active.number
    world.settle_down()
    world.roll()
    world.settle_down()
    assert world.store.segments[number].indexed
    return number


def lost_world() -> tuple[StoredWorld, int]:
    """The second of three segments delivered and acknowledged a message of the first, deleted a queue that had others
    in it, and counted a return. It is lost, with a message of its own."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    for name in ("kept", "gone", "own"):
        world.declare(name)
    world.declare("counted", queue_type="quorum", delivery_limit=-1)
    fill(world, {"kept": 4, "gone": 4, "counted": 4})
    seal(world)
    assert world.ack_next("kept") is not None
    entry = world.get("counted")
    assert entry is not None
    world.queue("counted").requeue([entry])
    world.delete("gone")
    fill(world, {"own": 1})
    second = seal(world)
    fill(world, {"own": 1})
    seal(world)
    return world, second


def without(world: StoredWorld, number: int) -> StoredWorld:
    files = world.disk.kill().files()
    del files[segment_name(number)]
    return world.restarted(SimulatedDisk(files))


def pass_on(world: StoredWorld) -> None:
    """Segments come and go."""
    number = world.store.active.number
    for _ in range(4):
        fill(world, {"own": 3})
        world.roll()
        while world.ack_next("own") is not None:
            world.sync()
        world.roll()
        world.settle_down()
    assert number not in world.store.segments


def holds(disk: SimulatedDisk, world: StoredWorld) -> None:
    """What the lost segment said."""
    # Deleted for good: nothing waits for its queue to come back.
    assert not [line for line in recover(SimulatedDisk(disk.files())).unclaimed.lines() if "'gone'" in line]
    again = world.restarted(disk)
    # How far its queue was delivered, too: those may have been with a consumer.
    assert again.drain_flagged("kept") == [(f"kept{number}{FILLER}", True) for number in range(1, 4)]
    first = again.get("counted")
    assert first is not None
    assert (first.returns, first.redelivered) == (1, True)
    # Told once, where it was found out.
    assert [line for line in again.lines if "missing" in line] == []


def test_what_a_lost_segment_had_is_told_and_what_it_said_holds() -> None:
    world, second = lost_world()
    files = world.disk.kill().files()
    del files[segment_name(second)]
    assert {lane.name for lane in recover(SimulatedDisk(files)).unclaimed.lanes.values()} == {"kept", "own", "counted"}
    again = without(world, second)
    assert [line for line in again.lines if "missing" in line] == [
        f"store: queue 'own' in vhost '/' lost 1 messages: the file of segment {second} is missing"
    ]
    assert again.queue("kept").backing.length == 3
    # Its index is gone now, so that it says nothing any more itself.
    assert not [name for name in again.disk.names() if name.startswith(f"{second:012d}")]
    holds(again.disk.lose_all(), again)
    holds(again.disk.kill(), again)


def test_what_a_lost_segment_said_holds_when_it_is_told_by_an_index() -> None:
    world, second = lost_world()
    again = without(world, second)
    # The segment in which it was said again has an index, too, and another begins.
    fill(again, {"own": 1})
    seal(again)
    holds(again.disk.lose_all(), again)


def test_what_a_lost_segment_said_holds_when_the_one_that_said_it_again_is_gone() -> None:
    world, second = lost_world()
    again = without(world, second)
    pass_on(again)
    holds(again.disk.lose_all(), again)


def test_a_settled_file_is_missed_also_when_the_segment_that_told_of_it_is_lost() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    for name in ("kept", "own"):
        world.declare(name)
    fill(world, {"kept": 4})
    first = seal(world)
    assert world.ack_next("kept") is not None
    fill(world, {"own": 1})
    world.settle_down()
    world.roll()
    # The ack's own segment goes, and the acks it told of are in a file of their own from then on.
    assert world.ack_next("own") is not None
    fill(world, {"own": 1})
    world.settle_down()
    teller = seal(world)
    assert f"{first:012d}.settled" in world.disk.names()
    again = without(world, teller)
    again.settle_down()
    files = again.disk.kill().files()
    del files[f"{first:012d}.settled"]
    missing = again.restarted(SimulatedDisk(files))
    assert [line for line in missing.lines if ".settled is missing" in line]
    # Also when the segment in which it was said again is gone.
    pass_on(again)
    files = again.disk.kill().files()
    del files[f"{first:012d}.settled"]
    missing = again.restarted(SimulatedDisk(files))
    assert [line for line in missing.lines if ".settled is missing" in line]
