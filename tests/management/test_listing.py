"""Lists: filtered, sorted, in pages, with the columns that were asked for."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.broker.harness import World
from warren.errors import WarrenError
from warren.management.listing import Item, Lister
from warren.management.pieces import SLICE, Pace
from warren.management.refusals import Refusal

ITEMS: list[Item] = [{"name": f"q{number:03}", "size": number % 7, "deep": {"er": number}} for number in range(250)]


class Counting(Pace):
    """Waits for nobody, and remembers what was done between two turns."""

    def __init__(self) -> None:
        super().__init__(World().node, lambda: None)
        self.slices = [0]

    async def spend(self, units: int) -> None:
        self.slices[-1] += units
        await super().spend(units)

    async def next_turn(self) -> None:
        self._left = SLICE
        self.slices.append(0)


def listing(items: Sequence[Item], query: dict[str, str], pace: Pace | None = None) -> Any:
    async def read() -> bytes:
        lister: Lister[Item] = Lister(query, pace or Counting(), lambda item: item, {})
        return b"".join([piece async for piece in lister.pieces(items)])

    return json.loads(asyncio.run(read()))


def names(page: list[Item] | Item) -> list[str]:
    items = page if isinstance(page, list) else page["items"]
    return [item["name"] for item in items]


def test_without_a_page_it_is_a_bare_list() -> None:
    assert listing(ITEMS, {}) == ITEMS


def test_a_page_says_how_many_there_are() -> None:
    page = listing(ITEMS, {"page": "2"})
    assert isinstance(page, dict)
    assert {name: page[name] for name in page if name != "items"} == {
        "total_count": 250,
        "filtered_count": 250,
        "item_count": 100,
        "page": 2,
        "page_size": 100,
        "page_count": 3,
    }
    assert (names(page)[0], names(page)[-1]) == ("q100", "q199")


def test_a_name_filters_by_its_part() -> None:
    assert names(listing(ITEMS, {"page": "1", "name": "Q24"})) == [f"q24{last}" for last in range(10)]


def test_a_name_may_be_an_expression() -> None:
    found = names(listing(ITEMS, {"page": "1", "name": "^q(00|24)[0-4]$", "use_regex": "true"}))
    assert found == [f"q{ten}{last}" for ten in ("00", "24") for last in range(5)]


def test_an_expression_cannot_hold_the_loop() -> None:
    evil: list[Item] = [{"name": "a" * 200 + "!"}]
    assert names(listing(evil, {"page": "1", "name": "(a+)+$", "use_regex": "true"})) == []


def test_an_expression_that_is_none_is_refused() -> None:
    with pytest.raises(WarrenError):
        listing(ITEMS, {"page": "1", "name": "(", "use_regex": "true"})


def test_sorted_by_any_column_also_inside_objects() -> None:
    assert names(listing(ITEMS, {"sort": "deep.er", "sort_reverse": "true"}))[0] == "q249"
    assert names(listing(ITEMS, {"sort": "size"}))[0] == "q000"


def test_values_of_different_types_can_be_sorted() -> None:
    mixed: list[Item] = [{"name": "a", "x": "text"}, {"name": "b", "x": 5}, {"name": "c"}, {"name": "d", "x": True}]
    assert names(listing(mixed, {"sort": "x"})) == ["c", "d", "b", "a"]


def test_only_the_columns_that_were_asked_for() -> None:
    assert listing(ITEMS[:1], {"columns": "name,deep.er,nothing"}) == [{"name": "q000", "deep": {"er": 0}}]


def test_no_items_are_one_empty_page() -> None:
    page = listing([], {"page": "1"})
    assert isinstance(page, dict)
    assert (page["page_count"], page["items"]) == (1, [])


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"page": "x"}, "bad_request"),
        ({"page": "0"}, "invalid_pagination_parameters"),
        ({"page": "-1"}, "invalid_pagination_parameters"),
        ({"page": "1", "page_size": "0"}, "invalid_pagination_parameters"),
        ({"page": "1", "page_size": "501"}, "invalid_pagination_parameters"),
        ({"page": "9" * 30}, "bad_request"),
        ({"page": "4"}, "page_out_of_range"),
    ],
)
def test_a_page_that_cannot_be_is_refused(query: dict[str, str], error: str) -> None:
    with pytest.raises(Refusal) as caught:
        listing(ITEMS, query)
    assert (caught.value.status, caught.value.error) == (400, error)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"sort": "size"},
        {"sort": "size", "sort_reverse": "true"},
        {"page": "3", "sort": "size"},
        {"page": "1", "name": "7"},
        {"page": "1", "name": "^q0*7", "use_regex": "true"},
    ],
)
def test_a_long_list_is_made_in_pieces(query: dict[str, str]) -> None:
    many: list[Item] = [
        {"name": f"q{number:05}", "size": random.Random(number).randrange(50)} for number in range(5000)
    ]
    pace = Counting()
    listing(many, query, pace)
    assert len(pace.slices) > 3
    # What one thing costs is all that a slice may take too much.
    assert max(pace.slices) <= SLICE + 200


def test_sorting_in_runs_is_sorting() -> None:
    many: list[Item] = [{"name": f"q{number}", "size": random.Random(number).randrange(50)} for number in range(5000)]
    ordered = sorted(many, key=lambda item: item["size"])
    assert listing(many, {"sort": "size"}) == ordered
    assert listing(many, {"sort": "size", "sort_reverse": "true"}) == ordered[::-1]
    assert listing(many, {"sort": "size", "page": "17"})["items"] == ordered[1600:1700]
    # Of pages in front only what may come to stand on them is kept, up to half a run.
    for number in range(1, 8):
        page = {"sort": "size", "page": str(number)}
        assert listing(many, page)["items"] == ordered[number * 100 - 100 : number * 100]
        assert (
            listing(many, page | {"sort_reverse": "true"})["items"] == ordered[::-1][number * 100 - 100 : number * 100]
        )


def test_an_expression_that_takes_long_gives_up_and_lets_others_have_their_turn_before() -> None:
    evil: list[Item] = [{"name": f"{'a' * 250}{number}"} for number in range(20)]
    pace = Counting()
    expression = "(?=.*a.*a.*a.*b)" * 40
    assert names(listing(evil, {"page": "1", "name": expression, "use_regex": "true"}, pace)) == []
    # One name at its worst, in steps of the matcher.
    assert max(pace.slices) <= SLICE + 5002
    assert len(pace.slices) >= 20


def test_only_what_is_shown_is_described() -> None:
    described: list[int] = []

    def describe(number: int) -> Item:
        described.append(number)
        return {"name": f"n{number}", "size": number}

    async def read() -> bytes:
        query = {"page": "2", "page_size": "3", "sort": "size", "sort_reverse": "true", "name": "n"}
        values = {"name": lambda number: f"n{number}", "size": lambda number: number}
        return b"".join([piece async for piece in Lister(query, Counting(), describe, values).pieces(range(1000))])

    assert [item["name"] for item in json.loads(asyncio.run(read()))["items"]] == ["n996", "n995", "n994"]
    assert described == [996, 995, 994]
