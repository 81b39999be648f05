"""A segment is rewritten in pieces, and anything may happen between two of them."""

from __future__ import annotations

import errno
import random

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld, body_in
from tests.store.test_log_store import after_kill
from tests.store.test_unreadable import DiskWithABadSpot
from warren.store.chores import PieceChore
from warren.store.segment import Segment, segment_name

FILLER = "." * 60


def sparse_world(
    names: tuple[str, ...] = ("q",),
    count: int = 24,
    keep: int = 4,
    head_entries: int = 3,
    load_rows: int = 2,
    disk: SimulatedDisk | None = None,
) -> StoredWorld:
    """Its first segment holds `count` messages for each queue, of which every `keep`th lives."""
    world = StoredWorld(disk or SimulatedDisk(), None, 1 << 20, head_entries, load_rows)
    for name in names:
        world.declare(name)
    world.declare("passing")
    for number in range(count):
        world.publish(f"m{number}{FILLER}", *(names if number % keep == 0 else ("passing",)))
    while world.ack_next("passing") is not None:
        pass
    world.roll()
    world.settle_down()
    return world


def bodies(count: int = 24, keep: int = 4) -> list[str]:
    return [f"m{number}{FILLER}" for number in range(0, count, keep)]


def first_segment(world: StoredWorld) -> Segment:
    return world.compactable()[0]


def pieces(world: StoredWorld, size: int = 400) -> Segment:
    segment = first_segment(world)
    world.store.upkeep.compaction.piece_bytes = size
    world.begin_compaction(segment)
    return segment


def test_each_turn_moves_a_piece_of_it() -> None:
    world = sparse_world(count=400)
    segment = pieces(world, 1000)
    moved: list[int] = []
    while world.store.upkeep.compaction.is_under_way():
        before = segment.live
        assert world.chore()
        moved.append(before - segment.live)
    assert sum(moved) == 100
    assert max(moved) <= 1000 // len(FILLER)
    world.settle_down()
    assert segment_name(segment.number) not in world.live_files()
    assert after_kill(world).drain("q") == world.drain("q") == bodies(400)


@pytest.mark.parametrize("moves", [1, 2, 7, 25])
def test_messages_of_many_queues_are_moved_a_few_of_them_at_a_time(moves: int) -> None:
    names = tuple(f"q{number}" for number in range(25))
    world = sparse_world(names, count=4, keep=2)
    world.store.upkeep.compaction.piece_moves = moves
    segment = pieces(world, 1 << 20)
    steps = 0
    while world.store.upkeep.compaction.is_under_way():
        before = segment.live
        assert world.chore()
        assert before - segment.live <= moves
        steps += 1
    assert steps >= 50 // moves
    world.settle_down()
    assert world.lines == []
    again = after_kill(world)
    for name in names:
        assert again.drain(name) == world.drain(name) == bodies(4, 2)


def test_one_that_ends_in_the_middle_of_a_message_takes_nothing_from_the_next() -> None:
    names = tuple(f"q{number}" for number in range(25))
    world = sparse_world(names, count=2, keep=2)
    first = first_segment(world)
    for name in ("last", "passing"):
        world.publish(f"{name}{FILLER}", *(names if name == "last" else (name,)))
    world.ack_next("passing")
    world.sync()
    world.roll()
    world.settle_down()
    second = world.compactable()[-1]
    world.store.upkeep.compaction.piece_moves = 7
    world.begin_compaction(first)
    while first.live == 25:
        assert world.chore()
    assert 0 < first.live < 25
    for name in names:
        assert world.ack_next(name) == bodies(2, 2)[0]
    assert first.live == 0
    world.end_compaction()
    world.compact(second)
    world.settle_down()
    assert world.lines == []
    for name in names:
        assert world.drain(name) == [f"last{FILLER}"]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_consumed_in_order_between_two_pieces(seed: int) -> None:
    chance = random.Random(seed)
    world = sparse_world(("q", "r"), 120, 2, head_entries=3, load_rows=chance.choice((2, 5)))
    expected = {"q": bodies(120, 2), "r": bodies(120, 2)}
    pieces(world, chance.choice((150, 400, 2000)))
    published = 120
    while world.store.upkeep.compaction.is_under_way():
        name = chance.choice("qr")
        step = chance.randrange(6)
        if step == 0:
            body = f"m{published}{FILLER}"
            published += 1
            world.publish(body, name)
            expected[name].append(body)
        elif step == 1 and expected[name]:
            assert world.ack_next(name) == expected[name].pop(0)
        elif step == 2:
            world.roll()
        elif step == 3:
            world.sync()
        elif step == 4 and expected[name]:
            gone = world.queue(name).browse(0, chance.randrange(1, 9))
            world.queue(name).backing.settle_to(gone[-1].sequence, 1000)
            del expected[name][: len(gone)]
        else:
            assert world.chore()
        for each, left in expected.items():
            assert [body_in(entry) for entry in world.queue(each).browse(0, 1000)] == left
            assert [body_in(entry) for entry in world.queue(each).browse(0, 2)] == left[:2]
    world.settle_down()
    again = after_kill(world)
    for name, left in expected.items():
        assert again.drain(name) == left
        assert world.drain(name) == left


def test_a_queue_that_goes_between_two_pieces_harms_no_other() -> None:
    world = sparse_world(("q", "r"))
    segment = pieces(world)
    assert world.chore()
    world.delete("r")
    world.node.errands.budget.left = 0
    world.end_compaction()
    assert world.lines == []
    world.settle_down()
    assert segment_name(segment.number) not in world.live_files()
    assert after_kill(world).drain("q") == world.drain("q") == bodies()


def test_what_was_taken_from_the_middle_and_then_moved_is_settled_for_good() -> None:
    world = sparse_world()
    queue = world.queue("q")
    taken = queue.backing.take(queue.backing.browse(0, 6)[5].sequence)
    assert taken is not None
    assert body_in(taken) == bodies()[5]
    world.compact(first_segment(world))
    queue.backing.settle(taken)
    world.settle_down()
    assert after_kill(world).drain("q") == world.drain("q") == bodies()[:5]


def test_a_message_longer_than_a_piece_is_read_in_one() -> None:
    world = sparse_world()
    world.publish("large" * 10_000, "q")
    world.roll()
    world.settle_down()
    for segment in world.compactable():
        world.store.upkeep.compaction.piece_bytes = 100
        world.compact(segment)
    world.settle_down()
    assert after_kill(world).drain("q") == world.drain("q") == [*bodies(), "large" * 10_000]


def test_what_is_damaged_is_told_and_the_rest_is_moved() -> None:
    world = sparse_world(head_entries=1)
    files = world.disk.lose_all().files()
    name = segment_name(first_segment(world).number)
    files[name] = files[name].replace(bodies()[3].encode(), bodies()[3].upper().encode())
    world = world.restarted(SimulatedDisk(files))
    pieces(world)
    world.end_compaction()
    world.settle_down()
    left = bodies()[:3] + bodies()[4:]
    assert name not in world.live_files()
    assert world.drain("q") == left
    assert [line for line in world.lines if "lost message" in line]
    assert after_kill(world).drain("q") == left


def test_a_segment_that_empties_by_itself_is_read_no_further() -> None:
    world = sparse_world(count=100)
    segment = pieces(world)
    assert world.chore()
    while world.ack_next("q") is not None:
        pass
    assert segment.live == 0
    assert world.chore()
    assert not world.store.upkeep.compaction.is_under_way()
    world.settle_down()
    assert segment_name(segment.number) not in world.live_files()
    assert after_kill(world).drain("q") == []


def test_a_broker_that_stops_does_not_wait_for_the_rest() -> None:
    world = sparse_world(count=400)
    segment = pieces(world, 1000)
    world.store.upkeep.compaction.is_ending = True
    assert world.chore()
    assert not world.store.upkeep.compaction.is_under_way()
    assert 0 < segment.live < 100
    world.settle_down()
    assert after_kill(world).drain("q") == world.drain("q") == bodies(400)


def test_what_says_that_a_part_was_moved_stays_until_the_rest_is() -> None:
    """The segment that it was moved to is soon empty, and after a crash says alone that the old place is void."""
    world = sparse_world(count=100)
    pieces(world, 2000)
    assert world.chore()
    moved_to = world.store.active.number
    next_piece = world.store.next_chore()
    assert isinstance(next_piece, PieceChore)
    gone = []
    while world.store.active.live > 0:
        gone.append(world.ack_next("q"))
    assert 0 < len(gone) < 25
    world.roll()
    for _ in range(10):
        world.sync()
        world.chore()
    assert segment_name(moved_to) in world.live_files()
    assert after_kill(world).drain("q") == bodies(100)[len(gone) :]


def test_its_file_stays_open_while_it_is_read() -> None:
    world = sparse_world()
    segment = pieces(world)
    chore = world.store.next_chore()
    assert isinstance(chore, PieceChore)
    handle = segment.handle
    assert handle >= 0
    for number in range(300):
        other = Segment(1000 + number)
        other.indexed = True
        world.store.files.opened(other)
    assert segment.handle == handle


# -- when --------------------------------------------------------------------------------------------------------------


def sparse_segments(count: int, left: int = 4, disk: SimulatedDisk | None = None) -> StoredWorld:
    """Full segments of which so many messages are left, and an empty one behind them; nothing was rewritten yet."""
    world = StoredWorld(disk or SimulatedDisk(), None, 1 << 20)
    world.store.upkeep.compaction.is_ending = True
    world.declare("q")
    world.declare("passing")
    for _ in range(count):
        for number in range(left * 4):
            world.publish(f"m{number}{FILLER}", "q" if number < left else "passing")
        world.sync()
        world.roll()
    while world.ack_next("passing") is not None:
        pass
    world.settle_down()
    world.store.upkeep.compaction.is_ending = False
    return world


def change_something(world: StoredWorld, changes: int) -> None:
    """So many changes of the log, none of which is about what is there already."""
    if "other" not in world.vhost.queues:
        world.declare("other")
    before = world.store.position
    while world.store.position < before + changes:
        world.publish("m", "other")
        world.sync()
    world.settle_down()


def test_the_two_youngest_segments_are_left_alone_unless_space_is_short() -> None:
    world = sparse_segments(4)
    numbers = [segment.number for segment in world.compactable()]
    assert len(numbers) == 4
    change_something(world, 100)
    assert [number for number in numbers if number in world.store.segments] == numbers[2:]
    world.store.short_of_space = True
    change_something(world, 1)
    assert [number for number in numbers if number in world.store.segments] == []
    assert after_kill(world).drain("q") == world.drain("q") == [f"m{number}{FILLER}" for number in range(4)] * 4


def test_a_sparse_segment_is_rewritten_after_four_changes_for_each_message_that_is_left() -> None:
    world = sparse_segments(3, left=10)
    segment = first_segment(world)
    assert segment.live == 10
    compaction = world.store.upkeep.compaction
    begun = world.store.position
    while world.store.position < begun + 4 * 10:
        compaction.begin_if_sparse()
        assert not compaction.is_under_way()
        world.publish("m", "q")
    compaction.begin_if_sparse()
    assert compaction.is_under_way()


class DiskThatOpensNothing(SimulatedDisk):
    reason = 0

    def open(self, name: str) -> int:
        if self.reason:
            raise OSError(self.reason, "cannot open", name)
        return super().open(name)


@pytest.mark.parametrize("reason", [errno.EMFILE, errno.ENFILE])
def test_it_waits_while_no_descriptor_is_left_for_it(reason: int) -> None:
    world = sparse_world(disk=DiskThatOpensNothing())
    assert isinstance(world.disk, DiskThatOpensNothing)
    segment = first_segment(world)
    world.store.files.close(segment)
    world.disk.reason = reason
    world.begin_compaction(segment)
    assert not world.store.upkeep.compaction.is_under_way()
    world.disk.reason = errno.EACCES
    with pytest.raises(OSError, match="cannot open"):
        world.begin_compaction(segment)
    world.disk.reason = 0
    world.compact(segment)
    assert segment.live == 0
    world.settle_down()
    assert after_kill(world).drain("q") == bodies()


# -- whose it is -------------------------------------------------------------------------------------------------------


def test_what_waits_for_a_queue_whose_definition_is_lost_is_not_rewritten() -> None:
    world = sparse_world(("q", "lost"), count=120, keep=12)
    definitions = {name: row for name, row in world.definitions.items() if name != "lost"}
    again = StoredWorld(SimulatedDisk(world.disk.kill().files()), definitions, 1 << 20, forgets=False)
    number = first_segment(again).number
    for _ in range(4):
        change_something(again, 200)
        again.roll()
    assert number in again.store.segments
    assert again.store.segments[number].live == 20
    # Nor does it keep others from that, in which nothing of it is.
    assert again.lines == []
    restored = StoredWorld(SimulatedDisk(again.disk.kill().files()), world.definitions, 1 << 20)
    assert restored.drain("lost") == restored.drain("q") == bodies(120, 12)


def test_only_what_waits_for_such_a_queue_is_left_alone() -> None:
    world = StoredWorld(SimulatedDisk(), None, 1 << 20)
    world.store.upkeep.compaction.is_ending = True
    for name in ("lost", "q", "passing"):
        world.declare(name)
    for name in ("lost", "q"):
        for number in range(24):
            world.publish(f"m{number}{FILLER}", name if number % 4 == 0 else "passing")
        world.sync()
        world.roll()
    while world.ack_next("passing") is not None:
        pass
    world.settle_down()
    lost, own = [segment.number for segment in world.compactable()]
    definitions = {name: row for name, row in world.definitions.items() if name != "lost"}
    again = StoredWorld(SimulatedDisk(world.disk.kill().files()), definitions, 1 << 20, forgets=False)
    again.settle_down()
    for _ in range(3):
        change_something(again, 100)
        again.roll()
    assert (lost in again.store.segments, own in again.store.segments) == (True, False)
    assert again.drain("q") == bodies()


def test_what_cannot_be_read_stays_and_is_not_tried_again() -> None:
    disk = DiskWithABadSpot()
    world = sparse_segments(3, disk=disk)
    segment = first_segment(world)
    disk.spot = b"m0" + FILLER.encode()
    compaction = world.store.upkeep.compaction
    for _ in range(3):
        change_something(world, 50)
        assert not compaction.is_under_way()
        # The disk is better; but this one was unreadable, and who knows what else of it is.
        disk.spot = b""
    assert segment.live == 4
    assert segment_name(segment.number) in world.live_files()
    assert [line for line in world.lines if "lost" in line] == []
    expected = [f"m{number}{FILLER}" for number in range(4)] * 3
    assert world.restarted(SimulatedDisk(disk.files())).drain("q") == expected


def test_a_segment_in_which_nothing_lives_is_not_read_to_be_rewritten() -> None:
    world = sparse_segments(3)
    segment = first_segment(world)
    # Something still rests on its records.
    segment.pins += 1
    for _ in range(4):
        world.ack_next("q")
    assert segment.live == 0
    world.settle_down()
    change_something(world, 50)
    world.store.upkeep.compaction.begin_if_sparse()
    assert not world.store.upkeep.compaction.is_under_way()
    assert segment.number in world.store.segments


def test_what_is_in_many_hands_while_it_is_moved_can_be_settled_for_good_and_is_forgotten() -> None:
    world = sparse_world(("q", "r"), count=120, keep=6, head_entries=8)
    held = [world.get("q") for _ in range(5)]
    taken = world.queue("q").backing.take(world.queue("q").browse(0, 100)[-1].sequence)
    assert taken is not None
    world.compact(first_segment(world))
    world.queue("q").backing.settle(taken)
    for entry in held:
        assert entry is not None
        world.queue("q").ack(entry)
    for name in ("q", "r"):
        while world.ack_next(name) is not None:
            pass
    assert world.store.moved == {}
    world.settle_down()
    assert [after_kill(world).drain(name) for name in ("q", "r")] == [[], []]
    assert len(world.live_files()) <= 2


@pytest.mark.parametrize("head_entries", range(1, 8))
def test_what_is_in_memory_and_what_is_not_is_found_where_it_was_moved_to(head_entries: int) -> None:
    """Six messages, of which some, one or none are in the log only."""
    world = sparse_world(head_entries=head_entries)
    lane = world.queue("q").backing
    assert lane.paged == max(0, 6 - head_entries)
    world.compact(first_segment(world))
    world.settle_down()
    assert after_kill(world).drain("q") == bodies()
    assert [world.ack_next("q") for _ in range(6)] == bodies()
    assert (lane.length, lane.paged) == (0, 0)
    assert world.store.moved == {}
    world.settle_down()
    assert after_kill(world).drain("q") == []


@pytest.mark.parametrize("place", [0, 3])
def test_a_damaged_message_of_several_queues_is_told_for_each_and_not_looked_for_again(place: int) -> None:
    world = sparse_world(("q", "r"), head_entries=1)
    files = world.disk.lose_all().files()
    number = first_segment(world).number
    name = segment_name(number)
    files[name] = files[name].replace(bodies()[place].encode(), bodies()[place].upper().encode())
    world = world.restarted(SimulatedDisk(files))
    world.compact(first_segment(world))
    world.settle_down()
    assert name not in world.live_files()
    left = bodies()[:place] + bodies()[place + 1 :]
    for queue in ("q", "r"):
        told = [line for line in world.lines if "lost message" in line and f"queue '{queue}'" in line]
        assert len(told) == 1
        backing = world.queue(queue).backing
        assert (backing.length, backing.body_bytes) == (len(left), sum(map(len, left)))
    again = world.restarted(world.disk.lose_all())
    assert again.lines == []
    assert again.drain("q") == again.drain("r") == world.drain("q") == world.drain("r") == left
