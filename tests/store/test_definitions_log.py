"""Definitions on disk: whatever happens, whole turns are there, and all of those that were durable."""

from __future__ import annotations

from random import Random

import pytest

from tests.store.simulated_disk import Fault, SimulatedDisk
from warren.store.definitions import Row, base_name, log_name
from warren.store.definitions_recovery import FoundDefinitions, recover_definitions
from warren.store.log import LogStore
from warren.store.recovery import recover

State = dict[tuple[str, tuple[str, ...]], dict[str, object]]


class Keeper:
    """A store that keeps definitions only, on what another left."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.store: LogStore = recover(disk, 4096)
        self.rows = recover_definitions(self.store, [])
        assert self.store.definitions is not None
        self.log = self.store.definitions

    def turn(self) -> None:
        self.store.write()

    def sync(self) -> None:
        self.turn()
        job = self.store.begin_sync()
        if job is not None:
            job.run(self.disk)
            self.store.sync_done(job)

    def chores(self) -> None:
        while (chore := self.store.next_chore()) is not None:
            chore.run(self.disk)
            self.store.chore_done(chore)

    def state(self) -> State:
        return {(kind, key): value for kind, key, value in self.rows}

    def restarted(self) -> Keeper:
        self.sync()
        self.store.close()
        return Keeper(self.disk.kill())


@pytest.fixture
def keeper() -> Keeper:
    return Keeper(SimulatedDisk())


def queue(name: str, incarnation: str) -> dict[str, object]:
    return {"name": name, "incarnation": incarnation}


def test_a_new_folder_has_none(keeper: Keeper) -> None:
    assert keeper.rows == []


def test_what_was_put_comes_back_in_order(keeper: Keeper) -> None:
    value: dict[str, object] = {"name": "q", "list": [1, "ü", None, True], "map": {"a": 1.5}}
    keeper.log.put("queue", ("/", "q"), value)
    keeper.log.put("binding", ("/", "e", "queue", "q", "~"), {})
    again = keeper.restarted()
    assert again.rows == [("queue", ("/", "q"), value), ("binding", ("/", "e", "queue", "q", "~"), {})]
    assert again.restarted().rows == again.rows
    assert again.store.log_lines == []


def test_the_last_put_counts_and_stands_last(keeper: Keeper) -> None:
    keeper.log.put("user", ("u",), {"tags": ["old"]})
    keeper.log.put("user", ("v",), {})
    keeper.log.put("user", ("u",), {"tags": ["new"]})
    assert keeper.restarted().rows == [("user", ("v",), {}), ("user", ("u",), {"tags": ["new"]})]


def test_what_was_deleted_is_gone(keeper: Keeper) -> None:
    keeper.log.put("user", ("u",), {})
    keeper.sync()
    keeper.log.delete("user", ("u",))
    keeper.log.delete("user", ("never there",))
    assert keeper.restarted().rows == []


def test_what_came_and_went_in_one_turn_is_not_there(keeper: Keeper) -> None:
    keeper.log.put("queue", ("/", "brief"), {})
    keeper.log.delete("queue", ("/", "brief"))
    assert keeper.restarted().rows == []


def test_keys_do_not_run_into_each_other(keeper: Keeper) -> None:
    keeper.log.put("queue", ("a", "b/c"), {"one": 1})
    keeper.log.put("queue", ("a/b", "c"), {"two": 2})
    keeper.log.put("exchange", ("a", "b/c"), {"three": 3})
    assert len(keeper.restarted().rows) == 3


def test_names_that_are_not_utf8_come_back(keeper: Keeper) -> None:
    name = b"caf\xe9\x00'\"".decode(errors="surrogateescape")
    keeper.log.put("queue", ("/", name), {"name": name})
    assert keeper.restarted().rows == [("queue", ("/", name), {"name": name})]


def test_a_change_moves_the_position_and_the_sync_reaches_it(keeper: Keeper) -> None:
    before = keeper.store.position
    keeper.log.put("user", ("u",), {})
    assert keeper.store.position > before
    keeper.turn()
    assert keeper.store.synced < keeper.store.position
    keeper.sync()
    assert keeper.store.synced == keeper.store.position


def test_a_turn_without_changes_writes_nothing(keeper: Keeper) -> None:
    keeper.log.put("user", ("u",), {})
    keeper.sync()
    before = keeper.disk.calls
    for _ in range(100):
        keeper.turn()
    assert keeper.disk.calls == before


def test_a_log_that_has_outgrown_its_base_is_folded_into_a_new_one(keeper: Keeper) -> None:
    keeper.log.fold_at = 500
    for number in range(200):
        keeper.log.put("user", (f"u{number % 3}",), {"n": number})
        keeper.sync()
        keeper.chores()
    assert keeper.log.number > 2
    names = keeper.disk.names()
    assert [name for name in names if name.endswith((".base", ".definitions"))] == sorted(
        [base_name(keeper.log.number), log_name(keeper.log.number)]
    )
    assert sum(len(data) for name, data in keeper.disk.files().items() if name.endswith(".base")) < 500
    assert keeper.restarted().state() == {
        ("user", ("u0",)): {"n": 198},
        ("user", ("u1",)): {"n": 199},
        ("user", ("u2",)): {"n": 197},
    }


def test_a_write_that_fails_is_an_error_of_the_disk_for_ever(keeper: Keeper) -> None:
    keeper.log.put("user", ("u",), {})
    keeper.disk.fail(1, Fault.ENOSPC)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            keeper.turn()
    assert keeper.store.begin_sync() is None


# -- crashes -----------------------------------------------------------------------------------------------------------


class Story:
    """Random turns on a keeper, and what may be found after a crash at any of its disk operations."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.keeper = Keeper(SimulatedDisk())
        self.keeper.log.fold_at = 150
        self.now: State = {}
        # The state after each turn that was written, with the position that makes it durable.
        self.states: list[tuple[int, State]] = [(self.keeper.store.position, {})]
        self.crashes = 0

    def run(self) -> None:
        self.keeper.disk.before = self.crash
        for number in range(60):
            for _ in range(self.random.randint(1, 3)):
                self.change(number)
            # Told before it is written: a crash in the middle of the write may leave all of it.
            self.states.append((self.keeper.store.position, dict(self.now)))
            self.keeper.turn()
            if self.random.random() < 0.5:
                self.keeper.sync()
            if self.random.random() < 0.5:
                self.keeper.chores()

    def change(self, number: int) -> None:
        kind, name = self.random.choice(("queue", "user")), f"n{self.random.randrange(6)}"
        if self.random.random() < 0.3:
            self.now.pop((kind, (name,)), None)
            self.keeper.log.delete(kind, (name,))
        else:
            value = queue(name, f"i{number}")
            self.now[(kind, (name,))] = value
            self.keeper.log.put(kind, (name,), value)

    def allowed(self) -> list[State]:
        durable = [state for position, state in self.states if position <= self.keeper.store.synced]
        return [durable[-1], *[state for position, state in self.states if position > self.keeper.store.synced]]

    def crash(self, what: str) -> None:
        self.crashes += 1
        allowed = self.allowed()
        image = self.random.choice((self.keeper.disk.kill, self.keeper.disk.lose_all))()
        if self.random.random() < 0.6:
            image = self.keeper.disk.crash(self.random)
        files = image.files()
        found = Keeper(image).state()
        assert found in allowed, f"a crash before {what} left {found}, which never was"
        if self.random.random() < 0.1:
            self.crash_in_recovery(files, found, allowed)

    def crash_in_recovery(self, files: dict[str, bytes], found: State, allowed: list[State]) -> None:
        disk = SimulatedDisk(files)

        def before(what: str) -> None:
            again = Keeper(disk.crash(self.random)).state()
            assert again == found, f"a crash before {what} of the recovery left {again} of {found}"

        disk.before = before
        assert Keeper(disk).state() in allowed


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_moment_leaves_whole_turns_and_all_that_was_durable(seed: int) -> None:
    story = Story(seed)
    story.run()
    assert story.crashes > 100
    # Otherwise nothing was folded.
    assert story.keeper.log.number > 3


def test_without_syncing_the_story_finds_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDisk, "sync", lambda _self, _handle: None)
    with pytest.raises(AssertionError, match="never was"):
        for seed in range(20):
            Story(seed).run()


# -- damage ------------------------------------------------------------------------------------------------------------


def a_history() -> tuple[dict[str, bytes], State]:
    keeper = Keeper(SimulatedDisk())
    for number in range(3):
        keeper.log.put("queue", ("/", f"based{number}"), queue(f"based{number}", f"b{number}"))
    keeper = keeper.restarted()
    for number in range(5):
        keeper.log.put("queue", ("/", f"q{number}"), queue(f"q{number}", f"i{number}"))
        keeper.sync()
    keeper.store.close()
    again = Keeper(keeper.disk.kill())
    files = keeper.disk.files()
    return {name: data for name, data in files.items() if name.endswith((".base", ".definitions"))}, again.state()


def test_any_damaged_byte_costs_no_more_than_its_record_and_is_told() -> None:
    files, whole = a_history()
    for name, data in files.items():
        for at in range(len(data)):
            damaged = dict(files)
            damaged[name] = data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]
            keeper = Keeper(SimulatedDisk(damaged))
            found = keeper.state()
            assert found.items() <= whole.items()
            if found != whole:
                assert keeper.store.log_lines != []
                if name.endswith(".definitions"):
                    assert len(found) == len(whole) - 1
                # It stays told for what it is: what is left now is a whole history again.
                assert Keeper(keeper.disk.kill()).store.log_lines == []


def test_a_base_that_is_gone_is_told() -> None:
    files, _ = a_history()
    kept = {name: data for name, data in files.items() if not name.endswith(".base")}
    keeper = Keeper(SimulatedDisk(kept))
    assert len(keeper.rows) == 5
    assert "what was defined before is missing" in keeper.store.log_lines[0]


def test_looking_changes_nothing() -> None:
    files, whole = a_history()
    disk = SimulatedDisk(files)
    found = FoundDefinitions(disk)
    rows: list[Row] = found.folded.rows()
    assert {(kind, key): value for kind, key, value in rows} == whole
    assert (found.damage, found.notes) == ([], [])
    assert disk.calls == 0


# -- queues that are gone ----------------------------------------------------------------------------------------------


def test_the_deletion_of_a_queue_is_remembered_until_the_message_log_says_it(keeper: Keeper) -> None:
    keeper.log.put("queue", ("/", "q"), queue("q", "first"))
    keeper.sync()
    keeper.log.delete("queue", ("/", "q"))
    keeper.sync()
    keeper.log.put("queue", ("/", "q"), queue("q", "second"))
    again = keeper.restarted()
    assert again.store.unclaimed.deleted == {"first": True}
    # Nothing of it is in the message log.
    assert again.restarted().store.unclaimed.deleted == {}
