"""Queues on disk, through a node: whatever they can do in memory they can do there, in little memory and space."""

from __future__ import annotations

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import START, StoredWorld, body_in

FILLER = "." * 100


@pytest.fixture
def world() -> StoredWorld:
    return StoredWorld(SimulatedDisk())


def numbered(first: int, last: int) -> list[str]:
    return [f"m{number}{FILLER}" for number in range(first, last + 1)]


def fill(world: StoredWorld, first: int, last: int, *names: str) -> list[str]:
    bodies = numbered(first, last)
    for body in bodies:
        world.publish(body, *names)
        world.sync()
    return bodies


def after_kill(world: StoredWorld) -> StoredWorld:
    return world.restarted(world.disk.kill())


# -- order and place -----------------------------------------------------------------------------------------------


def test_a_backlog_longer_than_memory_comes_back_in_order(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 100, "q")
    assert len(world.live_files()) > 5
    assert world.drain("q") == bodies


def test_a_backlog_survives_a_restart_in_order(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 100, "q")
    again = after_kill(world)
    assert again.queue("q").backing.length == 100
    assert again.drain("q") == bodies


def test_memory_holds_only_the_head(world: StoredWorld) -> None:
    world.declare("q")
    fill(world, 1, 100, "q")
    backing = world.queue("q").backing
    assert backing.length == 100
    assert backing.paged == 97
    world.drain("q")
    assert world.store.head_bytes == 0


def test_crowded_heads_keep_less_each(world: StoredWorld) -> None:
    world.store.head_bytes_max = 0
    world.store.head_entries = 1000
    world.declare("q")
    for body in numbered(1, 400):
        world.publish(body, "q")
    assert world.queue("q").backing.paged == 400 - 256


def test_a_message_goes_back_to_its_own_place_among_those_on_disk(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 20, "q")
    held = [world.get("q") for _ in range(10)]
    back = [entry for entry in (held[2], held[7]) if entry is not None]
    world.queue("q").requeue(back)
    assert world.drain_flagged("q")[:3] == [(bodies[2], True), (bodies[7], True), (bodies[10], False)]


def test_an_acked_message_does_not_come_back_and_others_do(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 30, "q")
    for _ in range(12):
        world.ack_next("q")
    world.sync()
    assert after_kill(world).drain("q") == bodies[12:]


def test_order_holds_after_compaction_and_a_restart(world: StoredWorld) -> None:
    world.declare("slow")
    world.declare("fast")
    slow: list[str] = []
    for number in range(200):
        names = ("slow", "fast") if number % 9 == 0 else ("fast",)
        body = world.publish(f"m{number}{FILLER}", *names)
        if number % 9 == 0:
            slow.append(f"m{number}{FILLER}")
        world.ack_next("fast")
        world.sync()
        world.chore()
        assert body.persistent
    world.settle_down()
    again = after_kill(world)
    assert again.drain("fast") == []
    assert again.drain("slow") == slow
    assert world.drain("slow") == slow


def test_what_is_held_while_compaction_moves_it_can_be_acked(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 20, "q")
    held = [world.get("q") for _ in range(4)]
    world.settle_down()
    for segment in world.compactable():
        world.compact(segment)
    world.settle_down()
    for entry in held:
        assert entry is not None
        world.queue("q").ack(entry)
    world.settle_down()
    assert after_kill(world).drain("q") == bodies[4:]
    assert [world.ack_next("q") for _ in range(16)] == bodies[4:]
    assert world.store.moved == {}


# -- space ---------------------------------------------------------------------------------------------------------


def test_a_message_for_many_queues_is_stored_once(world: StoredWorld) -> None:
    names = [f"q{number}" for number in range(10)]
    for name in names:
        world.declare(name)
    world.publish("x" * 1000, *names)
    world.sync()
    stored = b"".join(data for name, data in world.disk.files().items() if name.endswith(".log"))
    assert stored.count(b"x" * 1000) == 1
    again = after_kill(world)
    assert all(again.drain(name) == ["x" * 1000] for name in names)


def test_the_space_of_settled_messages_is_given_back(world: StoredWorld) -> None:
    world.declare("q")
    fill(world, 1, 100, "q")
    while world.ack_next("q") is not None:
        world.sync()
    world.settle_down()
    assert len(world.live_files()) <= 2
    assert sum(map(len, world.disk.files().values())) < 6000


def test_purged_space_is_given_back(world: StoredWorld) -> None:
    world.declare("q")
    fill(world, 1, 100, "q")
    assert world.queue("q").backing.settle_to(1 << 62, 1000) == 100
    world.settle_down()
    assert len(world.live_files()) <= 2
    assert after_kill(world).drain("q") == []


def test_a_slow_queue_does_not_pin_the_space_of_fast_ones(world: StoredWorld) -> None:
    world.declare("slow")
    world.declare("fast")
    kept: list[str] = []
    for number in range(600):
        body = f"m{number}{FILLER}"
        if number % 20 == 0:
            world.publish(body, "slow", "fast")
            kept.append(body)
        else:
            world.publish(body, "fast")
        world.ack_next("fast")
        world.sync()
        world.chore()
    world.settle_down()
    assert sum(map(len, world.disk.files().values())) < world.disk.bytes_written / 6
    assert world.drain("slow") == kept


def test_a_long_backlog_keeps_few_files_open(world: StoredWorld) -> None:
    world.declare("q")
    fill(world, 1, 3500, "q")
    world.settle_down()
    assert len(world.live_files()) > 270
    assert len(world.disk.handles) <= 260
    assert len(world.drain("q")) == 3500
    assert len(world.disk.handles) <= 2 * 260


# -- rules of queues on disk ---------------------------------------------------------------------------------------


def test_priorities_hold_on_disk_and_after_a_restart(world: StoredWorld) -> None:
    world.declare("q", max_priority=3)
    for number in range(40):
        world.publish(f"m{number:02d}-{number % 4}", "q", priority=number % 4)
        world.sync()
    wanted = sorted([f"m{number:02d}-{number % 4}" for number in range(40)], key=lambda body: (-int(body[-1]), body))
    assert after_kill(world).drain("q") == wanted
    assert world.drain("q") == wanted


def test_the_oldest_on_disk_go_when_the_queue_is_too_long(world: StoredWorld) -> None:
    world.declare("q", max_length=10)
    bodies = fill(world, 1, 50, "q")
    assert after_kill(world).drain("q") == bodies[-10:]
    assert world.drain("q") == bodies[-10:]


def test_a_limit_in_bytes_counts_what_is_on_disk(world: StoredWorld) -> None:
    bodies = numbered(11, 60)
    world.declare("q", max_length_bytes=len(bodies[0]) * 7)
    for body in bodies:
        world.publish(body, "q")
        world.sync()
    assert world.queue("q").backing.body_bytes == len(bodies[0]) * 7
    assert after_kill(world).drain("q") == bodies[-7:]


def test_messages_on_disk_expire(world: StoredWorld) -> None:
    world.declare("q", message_ttl=1000)
    fill(world, 1, 30, "q")
    world.node.tick(START + 1001)
    assert world.queue("q").backing.length == 0


def test_messages_expire_after_a_restart_without_anybody_asking(world: StoredWorld) -> None:
    world.declare("dead")
    world.declare("q", message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="dead")
    bodies = fill(world, 1, 30, "q")
    again = world.restarted(world.disk.kill(), START + 500)
    again.node.tick(START + 501)
    assert again.queue("q").backing.length == 30
    again.node.tick(START + 1001)
    again.flush()
    assert again.queue("q").backing.length == 0
    assert again.drain("dead") == bodies


def test_dead_letters_from_disk_are_durable_in_their_new_queue(world: StoredWorld) -> None:
    world.declare("dead")
    world.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    bodies = fill(world, 1, 20, "q")
    for _ in range(20):
        entry = world.get("q")
        assert entry is not None
        world.queue("q").reject(entry)
    world.sync()
    again = after_kill(world)
    assert again.drain("q") == []
    assert again.drain("dead") == bodies


# -- transient messages and queues ---------------------------------------------------------------------------------


def test_transient_messages_are_paged_out_and_gone_after_a_restart(world: StoredWorld) -> None:
    world.declare("q")
    for number in range(50):
        world.publish(f"t{number}{FILLER}", "q", persistent=False)
        world.publish(f"p{number}{FILLER}", "q")
        world.sync()
    assert world.queue("q").backing.paged > 90
    assert after_kill(world).drain("q") == [f"p{number}{FILLER}" for number in range(50)]
    assert len(world.drain("q")) == 100


def test_a_transient_queue_is_paged_out_and_its_space_given_back_after_a_restart(world: StoredWorld) -> None:
    world.declare("q", durable=False)
    fill(world, 1, 60, "q")
    assert world.queue("q").backing.paged > 50
    again = after_kill(world)
    again.settle_down()
    assert len(again.live_files()) == 1


def test_short_transient_queues_never_touch_the_disk(world: StoredWorld) -> None:
    world.declare("q")
    written = world.disk.bytes_written
    world.publish("t", "q", persistent=False)
    world.flush()
    assert world.disk.bytes_written == written
    assert world.store.position == world.store.synced


# -- lanes that come and go ----------------------------------------------------------------------------------------


def test_a_queue_declared_again_does_not_get_what_the_deleted_one_had(world: StoredWorld) -> None:
    world.declare("q")
    fill(world, 1, 20, "q")
    world.delete("q")
    world.declare("q")
    world.publish("new", "q")
    world.sync()
    assert after_kill(world).drain("q") == ["new"]
    assert world.drain("q") == ["new"]


def test_the_space_of_a_deleted_queue_is_given_back(world: StoredWorld) -> None:
    world.declare("q")
    fill(world, 1, 60, "q")
    world.delete("q")
    world.settle_down()
    assert len(world.live_files()) <= 2


def test_a_queue_can_be_deleted_while_the_files_of_its_last_messages_are_going() -> None:
    # All of it was in memory, so the index was never opened.
    world = StoredWorld(SimulatedDisk(), head_entries=1000)
    world.declare("q")
    fill(world, 1, 60, "q")
    world.settle_down()
    while world.ack_next("q") is not None:
        pass
    world.remove_a_file()
    world.delete("q")


def test_a_lane_number_is_not_used_again_while_its_end_is_on_record(world: StoredWorld) -> None:
    """The record of the end outlives all else of the lane; the number's next owner must not fall under it."""
    world.declare("first")
    world.declare("pinned")
    fill(world, 1, 10, "first")
    world.delete("first")
    world.publish("pin", "pinned")
    world.settle_down()
    again = after_kill(world)
    again.declare("second")
    fill(again, 1, 5, "second")
    assert after_kill(again).drain("second") == numbered(1, 5)


def test_a_queue_that_failed_begins_anew_with_what_the_log_has(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 20, "q")
    for _ in range(5):
        world.ack_next("q")
    queue = world.queue("q")
    assert world.get("q") is not None
    queue.restart()
    assert queue.backing.length == 15
    world.publish("later", "q")
    world.sync()
    assert after_kill(world).drain("q") == [*bodies[5:], "later"]
    assert world.drain_flagged("q")[0] == (bodies[5], True)


# -- redelivered ---------------------------------------------------------------------------------------------------


def test_what_was_delivered_before_a_kill_is_marked_after_it(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 10, "q")
    assert world.get("q") is not None
    world.flush()
    assert after_kill(world).drain_flagged("q")[0] == (bodies[0], True)


def test_what_was_delivered_before_its_queue_failed_is_marked_after_a_kill(world: StoredWorld) -> None:
    world.declare("q")
    bodies = fill(world, 1, 10, "q")
    assert world.get("q") is not None
    world.queue("q").restart()
    world.flush()
    assert after_kill(world).drain_flagged("q")[0] == (bodies[0], True)


def test_what_is_published_after_a_restart_is_not_marked(world: StoredWorld) -> None:
    world.declare("q")
    fill(world, 1, 10, "q")
    assert world.get("q") is not None
    world.flush()
    again = after_kill(world)
    fill(again, 11, 20, "q")
    assert [flag for _, flag in again.drain_flagged("q")] == [True] * 10 + [False] * 10


def test_the_mark_outlives_the_segment_in_which_it_was_noted(world: StoredWorld) -> None:
    world.declare("slow")
    world.declare("fast")
    world.publish("held", "slow")
    fill(world, 1, 20, "fast")
    assert world.get("slow") is not None
    for _ in range(3):
        fill(world, 1, 20, "fast")
        while world.ack_next("fast") is not None:
            world.sync()
        world.settle_down()
    assert after_kill(world).drain_flagged("slow") == [("held", True)]


# -- strange messages ----------------------------------------------------------------------------------------------


def test_messages_with_many_and_long_keys_are_kept_as_they_are(world: StoredWorld) -> None:
    world.declare("q")
    message = world.publish("m", "q")
    message.origin.keys += [f"key{number}" for number in range(300)] + ["k" * 1000]
    message.origin.hidden = 280
    world.sync()
    entry = after_kill(world).get("q")
    assert entry is not None
    assert entry.message.origin.keys == message.origin.keys
    assert entry.message.origin.hidden == 280
    assert (entry.message.persistent, entry.message.priority, body_in(entry)) == (True, 0, "m")


def test_a_message_bigger_than_a_segment_is_kept(world: StoredWorld) -> None:
    world.declare("q")
    world.publish("b" * 50_000, "q")
    world.sync()
    fill(world, 1, 5, "q")
    assert after_kill(world).drain("q") == ["b" * 50_000, *numbered(1, 5)]


def sizes(disk: SimulatedDisk) -> list[int]:
    return [disk.size(name) for name in disk.names() if name.endswith(".log")]


def test_room_that_a_killed_broker_left_is_no_damage(world: StoredWorld) -> None:
    world.declare("q")
    world.publish("one", "q")
    world.sync()
    killed = world.disk.kill()
    assert sizes(killed) == [world.store.segment_bytes]
    again = world.restarted(killed)
    assert again.lines == []
    # What was left of the room is cut off, and the next segment has its own.
    assert sizes(killed)[0] < sizes(killed)[1] == world.store.segment_bytes
    assert again.drain("q") == ["one"]


def test_a_stopped_broker_leaves_no_room(world: StoredWorld) -> None:
    world.declare("q")
    world.publish("one", "q")
    world.sync()
    world.store.close()
    assert sizes(world.disk) == [world.store.active.size]
    assert world.restarted(world.disk.kill()).drain("q") == ["one"]


def test_a_backlog_that_is_consumed_is_not_rewritten(world: StoredWorld) -> None:
    world.declare("q")
    bodies = [f"{number:03d}{FILLER}" for number in range(200)]
    for body in bodies:
        world.publish(body, "q")
    world.settle_down()
    world.roll()
    world.settle_down()
    new = world.store.active.number
    found: list[str] = []
    while (taken := world.ack_next("q")) is not None:
        found.append(taken)
        world.sync()
        world.chore()
        assert sum(segment.entries for segment in world.store.segments.values() if segment.number >= new) == 0
    assert found == bodies
    world.settle_down()
    assert len(world.store.segments) <= 2


def test_a_store_is_behind_by_bytes_also_when_its_changes_are_few() -> None:
    world = StoredWorld(SimulatedDisk(), segment_bytes=1 << 20)
    world.declare("q")
    world.store.unsynced_max = 10_000
    world.publish("m" * 9_000, "q")
    world.store.write()
    assert not world.store.is_behind()
    world.publish("m" * 9_000, "q")
    world.store.write()
    assert world.store.is_behind()
    assert not world.store.is_swamped()
    job = world.store.begin_sync()
    assert job is not None
    world.publish("m" * 9_000, "q")
    world.store.write()
    assert world.store.is_swamped()
    # What was written while it synced still waits.
    world.store.sync_done(job)
    assert not world.store.is_behind()
    assert world.store.bytes_written - world.store.bytes_synced > 9_000
