"""The files of definitions: when they are folded, what is left open or undone, and whose messages are to go."""

from __future__ import annotations

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from tests.store.test_definitions_log import Keeper, queue
from warren.store.definitions import base_name, log_name


@pytest.fixture
def keeper() -> Keeper:
    return Keeper(SimulatedDisk())


def fill(keeper: Keeper, first: int, count: int) -> None:
    for number in range(first, first + count):
        keeper.log.put("user", (f"u{number}",), {"tags": ["." * 60]})
        keeper.sync()


def names_of_definitions(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.names() if name.endswith((".base", ".definitions"))]


def test_messages_of_a_deleted_queue_are_to_go_until_they_are_gone() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    world.publish("m", "q")
    world.sync()
    incarnation = world.queue("q").incarnation
    keeper = Keeper(world.disk.kill())
    keeper.log.put("queue", ("/", "q"), queue("q", incarnation))
    keeper.sync()
    keeper.log.delete("queue", ("/", "q"))
    # The power fails before the log of messages says so, at every start again.
    for _ in range(3):
        keeper.sync()
        keeper = Keeper(keeper.disk.lose_all())
        assert keeper.rows == []
        assert keeper.store.unclaimed.deleted == {incarnation: True}
        assert keeper.store.unclaimed.incarnations() == [incarnation]
    keeper.store.unclaimed.forget_deleted()
    keeper.sync()
    keeper = Keeper(keeper.disk.lose_all())
    assert keeper.store.unclaimed.incarnations() == []
    # Nor need it be remembered any longer.
    assert Keeper(keeper.disk.kill()).store.unclaimed.deleted == {}


def test_a_queue_is_another_one_if_it_has_another_incarnation_and_not_before(keeper: Keeper) -> None:
    keeper.log.put("queue", ("/", "q"), queue("q", "first"))
    keeper.log.put("exchange", ("/", "e"), {"name": "e"})
    keeper.sync()
    keeper.log.put("queue", ("/", "q"), {**queue("q", "first"), "arguments": {"x-max-length": 1}})
    keeper.log.delete("exchange", ("/", "e"))
    keeper.sync()
    assert Keeper(keeper.disk.kill()).store.unclaimed.deleted == {}
    keeper.log.put("queue", ("/", "q"), queue("q", "second"))
    keeper.sync()
    assert Keeper(keeper.disk.kill()).store.unclaimed.deleted == {"first": True}


def test_definitions_of_many_megabytes_come_back(keeper: Keeper) -> None:
    for number in range(30):
        keeper.log.put("user", (f"u{number}",), {"tags": ["." * 100_000]})
    again = keeper.restarted()
    assert again.store.log_lines == []
    assert again.state() == again.restarted().state()
    assert len(again.rows) == 30


# -- folding -----------------------------------------------------------------------------------------------------------


def test_a_log_is_folded_the_later_the_more_is_defined(keeper: Keeper) -> None:
    keeper.log.fold_at = 500
    first = keeper.log.number
    for number in range(200):
        fill(keeper, number, 1)
        keeper.chores()
    assert 2 <= keeper.log.number - first <= 7
    assert len(keeper.restarted().rows) == 200


def test_a_log_is_folded_after_the_one_before_it(keeper: Keeper) -> None:
    keeper.log.fold_at = 500
    first = keeper.log.number
    fill(keeper, 0, 100)
    assert keeper.log.number == first + 1
    assert len(Keeper(keeper.disk.kill()).rows) == 100
    keeper.chores()
    fill(keeper, 100, 1)
    assert keeper.log.number == first + 2


def test_of_a_log_that_was_folded_nothing_is_left(keeper: Keeper) -> None:
    keeper.log.fold_at = 500
    handles = len(keeper.disk.handles)
    fill(keeper, 0, 20)
    keeper.chores()
    number = keeper.log.number
    assert names_of_definitions(keeper.disk.lose_all()) == sorted([base_name(number), log_name(number)])
    assert len(keeper.disk.handles) == handles


def test_what_is_written_to_the_next_log_is_durable_once_it_is_synced(keeper: Keeper) -> None:
    keeper.log.fold_at = 500
    count, number = 0, keeper.log.number
    while keeper.log.number == number:
        count += 1
        fill(keeper, count, 1)
    # Nothing but its header is in it yet, and that is there already.
    assert keeper.disk.lose_all().files()[log_name(number + 1)].startswith(b"WARREN")
    fill(keeper, count + 1, 1)
    assert len(Keeper(keeper.disk.lose_all()).rows) == count + 1


def test_the_folder_is_not_synced_for_definitions_in_a_file_that_is_there(keeper: Keeper) -> None:
    fill(keeper, 0, 1)
    calls: list[str] = []
    keeper.disk.before = calls.append
    fill(keeper, 1, 2)
    assert "sync" in calls
    assert "sync directory" not in calls


def test_a_base_that_was_not_finished_is_passed_over_and_told(keeper: Keeper) -> None:
    """Until a base is whole, those are there that it is made of."""
    keeper.log.fold_at = 500
    fill(keeper, 0, 10)
    left: list[dict[str, bytes]] = []
    keeper.disk.before = lambda what: left.append(keeper.disk.files()) if what.startswith("remove") else None
    keeper.chores()
    files, whole = left[0], Keeper(keeper.disk.kill()).state()
    name = base_name(keeper.log.number)
    assert len([name for name in files if name.endswith(".base")]) == 2
    for size in range(len(files[name])):
        again = Keeper(SimulatedDisk({**files, name: files[name][:size]}))
        assert again.state() == whole
        assert [line for line in again.store.log_lines if f"{name} is damaged" in line]
    for at in (0, 9, 29, 40):
        damaged = files[name][:at] + bytes([files[name][at] ^ 1]) + files[name][at + 1 :]
        again = Keeper(SimulatedDisk({**files, name: damaged}))
        assert again.state() == whole
        assert [line for line in again.store.log_lines if f"{name} is damaged" in line]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_stop_leaves_definitions_durable_and_no_file_open_also_while_a_log_is_to_be_folded(keeper: Keeper) -> None:
    keeper.log.fold_at = 500
    fill(keeper, 0, 10)
    assert keeper.log.chores
    keeper.store.close()
    assert keeper.disk.handles == {}
    assert keeper.disk.lose_all().files() == keeper.disk.kill().files()
    assert len(Keeper(keeper.disk.kill()).rows) == 10
