"""A segment is rewritten in pieces, and anything may happen between two of them."""

from __future__ import annotations

import random

import pytest

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld, body_in
from tests.store.test_log_store import after_kill
from warren.store.chores import PieceChore
from warren.store.segment import Segment, segment_name

FILLER = "." * 60


def sparse_world(
    names: tuple[str, ...] = ("q",), count: int = 24, keep: int = 4, head_entries: int = 3, load_rows: int = 2
) -> StoredWorld:
    """Its first segment holds `count` messages for each queue, of which every `keep`th lives."""
    world = StoredWorld(SimulatedDisk(), None, 1 << 20, head_entries, load_rows)
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


def test_a_message_of_many_queues_is_moved_a_few_of_them_at_a_time() -> None:
    names = tuple(f"q{number}" for number in range(50))
    world = sparse_world(names, count=2, keep=2)
    world.store.upkeep.compaction.piece_moves = 7
    segment = pieces(world, 1 << 20)
    steps = 0
    while world.store.upkeep.compaction.is_under_way():
        before = segment.live
        assert world.chore()
        assert before - segment.live <= 7
        steps += 1
    assert steps >= 8
    world.settle_down()
    again = after_kill(world)
    for name in names:
        assert again.drain(name) == world.drain(name) == bodies(2, 2)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_consumed_in_order_between_two_pieces(seed: int) -> None:
    chance = random.Random(seed)
    world = sparse_world(("q", "r"), 120, 2, head_entries=3, load_rows=chance.choice((2, 5)))
    expected = {"q": bodies(120, 2), "r": bodies(120, 2)}
    pieces(world, chance.choice((150, 400, 2000)))
    published = 120
    while world.store.upkeep.compaction.is_under_way():
        name = chance.choice("qr")
        step = chance.randrange(5)
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
        else:
            assert world.chore()
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
