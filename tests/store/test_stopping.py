"""What an orderly stop leaves: all of it durable, nothing open, and a log that can tell damage from a torn tail."""

from __future__ import annotations

import pytest

from tests.store.simulated_disk import Fault, SimulatedDisk
from tests.store.stored_world import StoredWorld
from tests.store.test_definitions_log import Keeper

FILLER = "." * 100


def stopped() -> StoredWorld:
    """After three messages, in a queue and in a stream."""
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    world.declare("s", queue_type="stream")
    for number in range(3):
        world.publish(f"m{number}{FILLER}", "q", "s")
        world.sync()
    world.store.close()
    return world


def damaged(disk: SimulatedDisk, ending: str, what: bytes) -> SimulatedDisk:
    """In the last place where this stands in the files of that kind."""
    files = disk.kill().files()
    for name, data in files.items():
        at = data.rfind(what)
        if name.endswith(ending) and at >= 0:
            files[name] = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    return SimulatedDisk(files)


def test_a_loss_of_power_after_a_stop_takes_nothing() -> None:
    disk = stopped().disk
    assert disk.lose_all().files() == disk.kill().files()


def test_a_stop_closes_every_file() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    world.declare("s", queue_type="stream", stream_max_segment_size_bytes=1000)
    for number in range(40):
        world.publish(f"m{number}{FILLER}", "q", "s")
        world.sync()
    assert len(world.disk.handles) > 2
    world.store.close()
    assert world.disk.handles == {}


def test_a_stop_closes_the_files_of_definitions() -> None:
    keeper = Keeper(SimulatedDisk())
    keeper.log.put("user", ("u",), {})
    keeper.sync()
    keeper.store.close()
    assert keeper.disk.handles == {}


def test_damage_in_the_last_message_of_a_stopped_broker_is_told() -> None:
    """Not taken for the end of a log that a crash has torn."""
    world = stopped()
    again = world.restarted(damaged(world.disk, ".log", b"m2" + FILLER.encode()))
    assert [line for line in again.lines if "segment 1 is damaged from byte" in line]
    assert again.drain("q") == [f"m0{FILLER}", f"m1{FILLER}"]


def test_damage_in_the_last_definition_of_a_stopped_broker_is_told() -> None:
    keeper = Keeper(SimulatedDisk())
    for name in ("first", "last"):
        keeper.log.put("user", (name,), {})
        keeper.sync()
    keeper.store.close()
    again = Keeper(damaged(keeper.disk, ".definitions", b"last"))
    assert [line for line in again.store.log_lines if "damaged" in line]
    assert again.rows == [("user", ("first",), {})]


def test_a_stop_after_the_disk_has_failed_changes_nothing_on_it() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    world.publish("m", "q")
    world.sync()
    world.disk.fail(1, Fault.SHORT)
    world.publish("lost", "q")
    with pytest.raises(OSError, match="No space left"):
        world.store.write()
    calls = world.disk.calls
    world.store.close()
    assert world.disk.calls == calls
    assert world.disk.handles == {}


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_disk_that_fails_during_the_stop_takes_nothing_that_was_promised(call: int) -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    world.publish("m", "q")
    world.sync()
    world.disk.fail(call, Fault.EIO)
    world.store.close()
    with pytest.raises(OSError, match="Input/output error"):
        world.store.write()
    assert world.disk.handles == {}
    assert world.restarted(world.disk.lose_all()).drain("q") == ["m"]
