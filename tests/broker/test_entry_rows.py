"""What waits in memory: in order, whatever is taken out or put back, at a price that its length does not set."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.broker.harness import World
from warren.broker.message import NEVER, Message, Origin
from warren.broker.queue.backing import Backing
from warren.broker.queue.entry import Entry
from warren.broker.queue.entry_rows import ROW, EntryRows

MANY = 200_000


@pytest.fixture
def entry(world: World) -> Callable[[int], Entry]:
    world.channel().declare("q")
    queue = world.queue("q")
    message = Message(Origin("", ["q"]), b"", 1, 0)
    return lambda sequence: Entry(message, queue, sequence, NEVER)


class AgainstAList(RuleBasedStateMachine):
    """Beside a plain list that is kept sorted. Runs are long, so that rows fill, are divided and become empty."""

    def __init__(self) -> None:
        super().__init__()
        world = World()
        world.channel().declare("q")
        self._queue = world.queue("q")
        self._message = Message(Origin("", ["q"]), b"", 1, 0)
        self._rows = EntryRows()
        self._plain: list[int] = []
        self._next = 10 * ROW

    def _entry(self, sequence: int) -> Entry:
        return Entry(self._message, self._queue, sequence, NEVER)

    @rule(count=st.integers(1, 3 * ROW))
    def append(self, count: int) -> None:
        for _ in range(count):
            self._next += 2
            self._rows.append(self._entry(self._next))
            self._plain.append(self._next)

    @rule(start=st.integers(0, 20 * ROW), count=st.integers(1, 2 * ROW), step=st.sampled_from([-1, 1, 7]))
    def insert(self, start: int, count: int, step: int) -> None:
        there = set(self._plain)
        for sequence in range(start, start + count * step, step):
            if sequence > 0 and sequence not in there:
                self._rows.insert(self._entry(sequence))
                insort(self._plain, sequence)
                self._next = max(self._next, sequence)

    @rule(count=st.integers(1, 2 * ROW))
    def pop(self, count: int) -> None:
        for sequence in self._plain[:count]:
            assert self._rows.first().sequence == sequence
            assert self._rows.pop_first().sequence == sequence
        del self._plain[:count]

    @rule()
    def take_row(self) -> None:
        if self._plain:
            row = self._rows.take_row()
            assert [each.sequence for each in row] == self._plain[: len(row)]
            assert 0 < len(row) <= ROW
            del self._plain[: len(row)]

    @rule(start=st.integers(-1, 20 * ROW), count=st.integers(1, ROW))
    def take(self, start: int, count: int) -> None:
        for sequence in range(start, start + count):
            taken = self._rows.take(sequence)
            assert (taken is not None) == (sequence in self._plain)
            if taken is not None:
                assert taken.sequence == sequence
                self._plain.remove(sequence)

    @rule(limit=st.integers(0, 2 * ROW))
    def drop(self, limit: int) -> None:
        assert self._rows.drop(limit) == min(limit, len(self._plain))
        del self._plain[max(0, len(self._plain) - limit) :]

    @rule(after=st.integers(-1, 30 * ROW), limit=st.integers(0, 2 * ROW))
    def look(self, after: int, limit: int) -> None:
        found = [each.sequence for each in self._rows.after(after, limit)]
        assert found == [sequence for sequence in self._plain if sequence > after][:limit]

    @invariant()
    def all_are_there(self) -> None:
        assert self._rows.count == len(self._plain)
        assert [each.sequence for each in self._rows.after(-1, len(self._plain))] == self._plain


AgainstAList.TestCase.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)
TestAgainstAList = AgainstAList.TestCase


def filled(entry: Callable[[int], Entry], count: int) -> Backing:
    backing = Backing()
    for sequence in range(1, count + 1):
        backing.publish(entry(sequence))
    return backing


def given_back(entry: Callable[[int], Entry], count: int) -> Backing:
    backing = filled(entry, count)
    held = [backing.fetch() for _ in range(count)]
    for each in held:
        assert each is not None
        backing.requeue(each)
    return backing


@pytest.mark.parametrize("make", [filled, given_back])
def test_one_out_of_the_middle_of_very_many_is_as_cheap_as_of_few(
    entry: Callable[[int], Entry], make: Callable[[Callable[[int], Entry], int], Backing]
) -> None:
    """Else the exact TTL of a few thousand, or what an operator moves by a filter, would hold the loop for seconds."""
    assert _seconds(make(entry, MANY)) < 20 * _seconds(make(entry, 2000))


def _seconds(backing: Backing) -> float:
    """To take some out of its middle, and look at what is behind them; the least of a few tries."""
    middle = int(backing.length) // 2
    tries = []
    for start in range(middle, middle + 500, 100):
        began = time.thread_time()
        for sequence in range(start, start + 100):
            taken = backing.take(sequence)
            assert taken is not None
            assert taken.sequence == sequence
        assert backing.browse(middle, 1)[0].sequence == start + 100
        assert backing.expiries(middle, 1)[0][1] == start + 100
        tries.append(time.thread_time() - began)
    return min(tries)


def test_what_is_behind_the_first_row_comes_in_order_and_counts(entry: Callable[[int], Entry]) -> None:
    count = int(ROW) * 3 + 5
    backing = filled(entry, count)
    first, second = backing.fetch(), backing.fetch()
    assert first is not None
    assert second is not None
    backing.requeue(second)
    # Out of the middle, and back where others that never left stand before it.
    late = backing.take(count - 3)
    assert late is not None
    backing.requeue(late)
    backing.requeue(first)
    assert backing.length == count
    assert [each.sequence for each in backing.browse(0, count)] == list(range(1, count + 1))
    for sequence in range(1, count + 1):
        head = backing.peek()
        assert head is not None
        assert head.sequence == sequence
        assert backing.fetch() is head
    assert backing.peek() is None
    assert backing.length == 0


def test_of_a_queue_that_is_gone_all_is_dropped(entry: Callable[[int], Entry]) -> None:
    backing = given_back(entry, 2000)
    for sequence in range(2001, 4001):
        backing.publish(entry(sequence))
    dropped = 0
    while (piece := backing.drop(300)) > 0:
        assert piece <= 300
        dropped += piece
    assert dropped == 4000
    assert backing.browse(0, 10) == []
