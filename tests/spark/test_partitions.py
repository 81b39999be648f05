"""How ranges are cut into partitions, and how far a batch may go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.spark.consume import Range
from warren.spark.partitions import limit_rows, split

sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)


@given(sizes, st.integers(0, 40))
def test_the_pieces_are_the_whole(counts: list[int], least: int) -> None:
    ranges = [Range(str(number), 5, 5 + count) for number, count in enumerate(counts)]
    pieces = split(ranges, least)
    read = [(piece.name, place) for piece in pieces for place in range(piece.start, piece.end)]
    assert read == [(span.name, place) for span in ranges for place in range(span.start, span.end)]
    assert all(piece.end > piece.start for piece in pieces)
    assert pieces == split(ranges, least)
    assert len(pieces) == max(min(least, sum(counts)), sum(1 for count in counts if count))


def test_there_are_as_many_as_asked_for_and_long_ranges_have_more_of_them() -> None:
    pieces = split([Range("long", 0, 9000), Range("short", 0, 1000)], 10)
    assert [piece.name for piece in pieces] == ["long"] * 9 + ["short"]


def test_one_for_each_stream_when_nothing_is_asked_for() -> None:
    assert split([Range("a", 0, 5), Range("b", 3, 3), Range("c", 1, 2)], 0) == [Range("a", 0, 5), Range("c", 1, 2)]


@given(sizes, st.integers(1, 20_000))
def test_a_batch_is_no_larger_than_its_limit_and_not_empty_without_need(counts: list[int], most: int) -> None:
    start = {str(number): number for number in range(len(counts))}
    ends = {str(number): number + count for number, count in enumerate(counts)}
    limited = limit_rows(start, ends, most)
    taken = sum(limited[name] - start[name] for name in ends)
    assert taken == min(most, sum(counts))
    assert all(start[name] <= limited[name] <= ends[name] for name in ends)
