"""What queues know again after a restart: ids within their windows and numbers of publishers, for as long as wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import FRAME_MAX, StoredWorld, message_of
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.queue.outcome import DUPLICATE, TAKEN
from warren.broker.queue.publishers import key_of
from warren.broker.stream.stream import Stream
from warren.store.format import SEEN, TOGETHER
from warren.store.inspect import check, dump
from warren.store.seen import SEEN_NAME

LOOKS_OUT: dict[str, Any] = {"message_deduplication": True}
BIG = "." * 1500


def outcome(world: StoredWorld, name: str, body: str) -> int:
    """Of a message whose id is what stands before the colon."""
    before = world.queue(name).backing.length
    world.publish(body, name)
    return TAKEN if world.queue(name).backing.length > before else DUPLICATE


def power_cut(world: StoredWorld) -> StoredWorld:
    return world.restarted(world.disk.lose_all())


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_ids_outlive_their_messages_and_the_files_of_these(kind: str) -> None:
    world = StoredWorld(SimulatedDisk())
    limit: dict[str, Any] = (
        {"max_length_bytes": 3000, "stream_max_segment_size_bytes": 1000} if kind == "stream" else {}
    )
    world.declare("q", queue_type=kind, **LOOKS_OUT, **limit)
    for number in range(20):
        assert outcome(world, "q", f"m{number}:{BIG}") == TAKEN
        world.settle_down()
        if kind != "stream":
            world.ack_next("q")
            world.settle_down()
    world = power_cut(world)
    assert world.queue("q").backing.length < 4
    length = world.queue("q").backing.length
    for number in range(20):
        world.publish(f"m{number}:again", "q")
    assert world.queue("q").backing.length == length
    assert outcome(world, "q", "m20:new") == TAKEN


def test_numbers_of_publishers_outlive_a_restart_in_queues_and_streams() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    world.declare("s", queue_type="stream")
    for number in range(1, 12):
        world.publish(f"p{number}:{BIG}", "q", "s", number=number)
        world.settle_down()
        world.ack_next("q")
    for _ in range(3):
        world.settle_down()
        world = power_cut(world)
    for name in ("q", "s"):
        assert world.queue(name).has_passed(key_of("p"), 11)
        assert not world.queue(name).has_passed(key_of("p"), 12)
        assert not world.queue(name).has_passed(key_of("other"), 1)


@pytest.mark.parametrize("kind", ["classic", "stream"])
def test_the_number_of_a_message_that_was_known_by_its_id_is_known_after_a_restart(kind: str) -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", queue_type=kind, **LOOKS_OUT)
    for number in (1, 2):
        world.publish("m:", "q", number=number)
        world.sync()
    again = power_cut(world).queue("q")
    assert again.backing.length == 1
    assert again.has_passed(key_of("m"), 2)


def test_a_window_is_as_long_after_a_restart_as_before() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", cache_size=3, **LOOKS_OUT)
    for number in range(10):
        world.publish(f"m{number}:", "q")
        world.settle_down()
    world = power_cut(world)
    world = power_cut(world)
    found = world.queue("q").deduplication
    assert found is not None
    assert [identity for identity, _ in found.remembered()] == [b"sm7", b"sm8", b"sm9"]


def test_ids_are_forgotten_after_their_time_whenever_the_broker_was_restarted() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", cache_ttl=1000, **LOOKS_OUT)
    world.publish("m1:", "q")
    world.settle_down()
    young = world.restarted(world.disk.lose_all(), world.node.now + 999)
    assert outcome(young, "q", "m1:again") == DUPLICATE
    old = world.restarted(world.disk.lose_all(), world.node.now + 1000)
    assert outcome(old, "q", "m1:again") == TAKEN


def test_ids_of_every_type_are_known_after_a_restart() -> None:
    identities: list[object] = ["1", b"\xff1", 1, -5, "ä"]
    world = StoredWorld(SimulatedDisk())
    world.declare("q", **LOOKS_OUT)
    for life in range(2):
        for identity in [*identities, True]:
            message = message_of("x")
            message.rewrite(Properties(headers=table_of({"x-deduplication-header": identity})), FRAME_MAX)
            world.node.monitor.publish(world.queue("q"), message)
        # True is 1, as it is in Python.
        assert world.queue("q").backing.length == len(identities), life
        world.settle_down()
        world = power_cut(world)


def test_a_queue_with_priorities_knows_ids_of_all_of_them() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", max_priority=3, **LOOKS_OUT)
    for priority in range(4):
        world.publish(f"m{priority}:", "q", priority=priority)
    world.settle_down()
    world = power_cut(world)
    for priority in range(4):
        world.publish(f"m{priority}:again", "q", priority=3 - priority)
    assert sorted(world.drain("q")) == ["m0:", "m1:", "m2:", "m3:"]


def test_an_id_goes_with_its_message_when_that_was_transient() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", **LOOKS_OUT)
    world.publish("m1:", "q", persistent=False)
    world.publish("m2:", "q")
    world.publish("m1:again", "q")
    world.roll()
    world.settle_down()
    world = power_cut(world)
    assert outcome(world, "q", "m1:again") == TAKEN
    assert outcome(world, "q", "m2:again") == DUPLICATE


def test_ids_of_results_are_there_when_the_pipeline_is_bound_again() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q").expect_results()
    world.publish("m1:", "q")
    world.roll()
    world.settle_down()
    for _ in range(2):
        world = power_cut(world)
        world.roll()
        world.settle_down()
    world.queue("q").expect_results()
    assert outcome(world, "q", "m1:again") == DUPLICATE


def test_what_a_deleted_queue_knew_is_forgotten() -> None:
    world = StoredWorld(SimulatedDisk())
    for name in ("gone", "other"):
        world.declare(name, **LOOKS_OUT)
        world.publish(f"{name}1:", name)
    world.settle_down()
    world.delete("gone")
    world.roll()
    world.settle_down()
    world = power_cut(world)
    assert b"gone1" not in world.disk.files()[SEEN_NAME]
    assert b"other1" in world.disk.files()[SEEN_NAME]
    world.declare("gone", **LOOKS_OUT)
    assert outcome(world, "gone", "gone1:again") == TAKEN


def test_a_message_that_is_read_back_in_the_turn_it_came_in_stays_with_its_id() -> None:
    """A limit takes out what is only in the log, which therefore is written in the middle of a turn."""
    world = StoredWorld(SimulatedDisk(), head_entries=1, load_rows=1)
    world.declare("q", max_length=3, **LOOKS_OUT)
    world.settle_down()
    seen: list[list[str]] = []

    def look(_: str) -> None:
        after = power_cut_of(world)
        known = after.queue("q").deduplication
        assert known is not None
        identities = [identity[1:].decode() for identity, _ in known.remembered()]
        bodies = after.drain("q")
        assert {body.split(":")[0] for body in bodies} <= set(identities)
        seen.append(bodies)

    for turn in range(3):
        world.disk.before = look
        for number in range(6):
            world.publish(f"m{6 * turn + number}:", "q")
        look("")
        world.disk.before = None
        world.sync()
        look("")
    assert len(seen) > 2 * 3


def power_cut_of(world: StoredWorld) -> StoredWorld:
    return world.restarted(SimulatedDisk(world.disk.kill().files()))


def test_a_damaged_file_is_told_and_costs_no_message(tmp_path: Path) -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", **LOOKS_OUT)
    world.publish("m1:", "q")
    world.roll()
    world.settle_down()
    files = world.disk.lose_all().files()
    files[SEEN_NAME] = files[SEEN_NAME][:-7] + b"?" + files[SEEN_NAME][-6:]
    after = world.restarted(SimulatedDisk(files))
    assert any(SEEN_NAME in line and "damaged" in line for line in after.lines)
    assert after.drain("q") == ["m1:"]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert any(SEEN_NAME in line for line in check(tmp_path).damage)


def test_the_log_shows_what_was_noted(tmp_path: Path) -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q", **LOOKS_OUT)
    world.declare("s", queue_type="stream")
    world.publish("m1:", "q", "s", number=1)
    world.settle_down()
    for name, data in world.disk.files().items():
        (tmp_path / name).write_bytes(data)
    records = [(record.kind, record.facts) for record in dump(tmp_path)]
    assert [kind for kind, _ in records].count("together") == 1
    (noted,) = (facts for kind, facts in records if kind == "seen")
    assert "sm1" in json.dumps(noted) and "pm" in json.dumps(noted)
    (streamed,) = (facts for kind, facts in records if kind == "stream seen")
    assert streamed == {"stream": "s", "notes": [["pm", 1]]}


def test_those_who_ask_for_neither_get_no_record_and_no_file() -> None:
    world = StoredWorld(SimulatedDisk())
    world.declare("q")
    stream = world.declare("s", queue_type="stream")
    assert isinstance(stream, Stream)
    for number in range(8):
        world.publish(f"m{number}:{BIG}", "q", "s")
        world.settle_down()
    files = world.disk.files()
    assert SEEN_NAME not in files
    for kind in (SEEN, TOGETHER):
        assert not any(b"WR" + bytes([kind]) + b"\0" in data for data in files.values())
