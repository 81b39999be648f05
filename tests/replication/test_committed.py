"""What a follower may show: nothing before the leader's word covers it, and files as they were at that op."""

from __future__ import annotations

from warren.replication.committed import GONE, NOTED_MAX, Committed
from warren.replication.ops import APPEND, CREATE, REMOVE, REPLACE, TRUNCATE, Op


def test_nothing_is_shown_before_the_copy_that_it_began_with_is_committed() -> None:
    committed = Committed(7, {"a": 100, "b": 5})
    committed.note(Op(8, APPEND, "a", 100, b"more"))
    assert committed.reach(6) == {}
    assert not committed.is_known
    assert committed.reach(7) == {"a": 100, "b": 5}


def test_a_leader_that_says_nothing_of_it_shows_nothing() -> None:
    committed = Committed(0, {"a": 100})
    assert committed.reach(0) == {}
    assert not committed.is_known


def test_what_comes_with_the_first_word_is_in_it() -> None:
    committed = Committed(7, {"a": 100, "b": 5})
    committed.note(Op(8, APPEND, "a", 100, b"more"))
    committed.note(Op(9, REMOVE, "b"))
    assert committed.reach(9) == {"a": 104}


def test_each_kind_of_op_leaves_its_file_as_long_as_it_is_then() -> None:
    committed = Committed(1, {"old": 9})
    assert committed.reach(1) == {"old": 9}
    ops = [
        Op(2, CREATE, "roomy", 4096),
        Op(3, APPEND, "roomy", 0, b"12345"),
        Op(4, REPLACE, "whole", 0, b"123"),
        Op(5, REMOVE, "old"),
        Op(6, TRUNCATE, "roomy", 2),
    ]
    for op in ops:
        committed.note(op)
    assert committed.reach(2) == {"roomy": 0}
    assert committed.reach(5) == {"roomy": 5, "whole": 3, "old": GONE}
    # An older word changes nothing.
    assert committed.reach(3) == {}
    assert committed.reach(6) == {"roomy": 2}
    assert committed.sizes == {"roomy": 2, "whole": 3}


def test_what_is_noted_is_bounded_where_nobody_says_how_far_it_is() -> None:
    committed = Committed(1, {"a": 0})
    assert committed.reach(1) == {"a": 0}
    last = 3 * NOTED_MAX
    for number in range(2, last):
        committed.note(Op(number, APPEND, "ab"[number % 2], number, b"1"))
        assert committed.noted <= NOTED_MAX
    committed.note(Op(last, REMOVE, "b"))
    # Folded: what came before shows with it, and nothing sooner.
    assert committed.reach(NOTED_MAX) == {}
    assert committed.reach(last) == {"a": last - 1, "b": GONE}


def test_what_was_folded_shows_with_the_last_of_it_and_not_an_op_sooner() -> None:
    committed = Committed(1, {})
    last = NOTED_MAX + 2
    for number in range(2, last + 1):
        committed.note(Op(number, APPEND, "a", number, b"1"))
    assert committed.noted == 1
    assert committed.reach(last - 1) == {}
    assert committed.reach(last) == {"a": last + 1}


def test_what_cannot_be_folded_is_not_folded_again_with_every_op() -> None:
    """As long as there are more files than ops are noted, each would cost as much as all of them."""
    committed = Committed(1, {})
    for number in range(2, NOTED_MAX + 3):
        committed.note(Op(number, CREATE, f"{number}"))
    assert committed.noted == NOTED_MAX + 1
    for number in range(NOTED_MAX + 3, NOTED_MAX + 13):
        committed.note(Op(number, APPEND, "2", 0, b"1"))
    assert committed.noted == NOTED_MAX + 11


def test_what_was_folded_well_is_noted_one_by_one_again() -> None:
    committed = Committed(1, {})
    for number in range(2, NOTED_MAX + 13):
        committed.note(Op(number, APPEND, "a", number, b"1"))
    assert committed.noted == 11
