"""What a channel holds against a plain dict: whatever tags come, each stands for its own message and for no other."""

from __future__ import annotations

import random

import pytest

from tests.broker.harness import World
from warren.broker.message import NEVER, Message, Origin
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.entry import Entry
from warren.broker.queue.unacked import Unacked


class Tags:
    """Does everything to both, and compares."""

    def __init__(self, world: World) -> None:
        channel = world.channel()
        channel.declare("q")
        channel.consume("q")
        self._queue = world.queue("q")
        (self._consumer,) = self._queue.consumers.all()
        self._message = Message(Origin("", ["q"]), b"", 1, 0)
        self.unacked = Unacked()
        self.held: dict[int, Entry] = {}
        self.next = 1

    def add(self, consumer: Consumer | None = None) -> None:
        entry = Entry(self._message, self._queue, self.next, NEVER)
        entry.consumer = consumer
        self.held[self.next] = entry
        assert self.unacked.add(entry) == self.next
        self.next += 1

    def step(self, chance: random.Random, taken: dict[int, Entry]) -> None:
        step = chance.randrange(8)
        if step < 3:
            self.add(chance.choice((None, self._consumer)))
        elif step == 3:
            assert self.unacked.skip() == self.next
            self.next += 1
        elif step == 4:
            tag = chance.randrange(-1, self.next + 2)
            expected = self.held.pop(tag, None)
            assert self.unacked.take(tag) is expected
            if expected is not None:
                taken[tag] = expected
        elif step == 5 and self.held:
            # In order, as most clients do.
            tag = min(self.held)
            taken[tag] = self.held.pop(tag)
            assert self.unacked.take(tag) is taken[tag]
        elif step == 6 and taken:
            tag = chance.choice(list(taken))
            self.held[tag] = taken.pop(tag)
            self.unacked.put_back(tag, self.held[tag])
        elif step == 7:
            # A transaction is committed.
            taken.clear()

    def compare(self) -> None:
        unacked, held = self.unacked, self.held
        assert unacked.entries() == [held[tag] for tag in sorted(held)]
        assert unacked.count == len(held)
        assert unacked.consumed == len([entry for entry in held.values() if entry.consumer is not None])
        assert unacked.next == self.next
        # Whoever settles all up to a tag begins here, so nothing is below, and it is no further down than it must be.
        assert unacked.low <= min(held, default=self.next)
        for tag in range(-1, self.next + 2):
            assert unacked.has(tag) == (tag in held)
            assert not held or unacked.holds(tag, held[max(held)]) == (tag == max(held))


@pytest.mark.parametrize("seed", range(30))
def test_a_tag_stands_for_what_was_handed_out_with_it(world: World, seed: int) -> None:
    chance = random.Random(seed)
    tags, taken = Tags(world), dict[int, Entry]()
    for _ in range(150):
        tags.step(chance, taken)
        tags.compare()


def test_room_is_made_for_no_more_than_lies_between_the_oldest_and_the_newest(world: World) -> None:
    tags = Tags(world)
    for _ in range(1000):
        tags.add()
        assert tags.unacked.take(tags.next - 1) is tags.held.pop(tags.next - 1)
        tags.unacked.skip()
        tags.next += 1
    tags.compare()
    assert tags.unacked.low == tags.next
    assert len(tags.unacked._ring) == 1
    for _ in range(9):
        tags.add()
    assert len(tags.unacked._ring) == 16
