"""Lists: filtered, sorted, in pages, with the columns that were asked for."""

from __future__ import annotations

import pytest

from warren.errors import WarrenError
from warren.management.listing import Item, listing
from warren.management.refusals import Refusal

ITEMS: list[Item] = [{"name": f"q{number:03}", "size": number % 7, "deep": {"er": number}} for number in range(250)]


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
        ({"page": "0"}, "bad_request"),
        ({"page": "x"}, "bad_request"),
        ({"page": "-1"}, "bad_request"),
        ({"page": "1", "page_size": "501"}, "bad_request"),
        ({"page": "9" * 30}, "bad_request"),
        ({"page": "4"}, "page_out_of_range"),
    ],
)
def test_a_page_that_cannot_be_is_refused(query: dict[str, str], error: str) -> None:
    with pytest.raises(Refusal) as caught:
        listing(ITEMS, query)
    assert (caught.value.status, caught.value.error) == (400, error)
