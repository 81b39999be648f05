"""Lists as RabbitMQ's API gives them: filtered, sorted, cut into pages and columns by the query string."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from warren.broker.rules.pattern import Pattern
from warren.management.refusals import Refusal, bad_request

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
_INVALID: Final = "Pagination parameters are invalid"
Item = dict[str, Any]
Thing = TypeVar("Thing")


def listing(items: list[Item], query: Mapping[str, str]) -> list[Item] | Item:
    """A bare list, or an object with one page of it when the query asks for a page."""
    return Lister(query, lambda item: item, {}).answer(items)


class Lister(Generic[Thing]):
    """The same for things that are described only if they are shown: of ten thousand queues a page shows fifty.

    `values` gives by path what can be told of a thing without describing it, for sorting and filtering.
    """

    def __init__(
        self,
        query: Mapping[str, str],
        describe: Callable[[Thing], Item],
        values: Mapping[str, Callable[[Thing], Any]],
    ) -> None:
        self._query = query
        self._describe = describe
        self._values = values

    def answer(self, things: list[Thing]) -> list[Item] | Item:
        query = self._query
        if "sort" in query:
            value = self._value(query["sort"])
            things = sorted(things, key=lambda thing: _sort_key(value(thing)))
            if query.get("sort_reverse") == "true":
                things.reverse()
        page = _number(query, "page")
        if page is None:
            return [columns(self._describe(thing), query) for thing in things]
        return self._page(things, page, _number(query, "page_size") or PAGE_SIZE)

    def _value(self, path: str) -> Callable[[Thing], Any]:
        return self._values.get(path) or (lambda thing: _at(self._describe(thing), path))

    def _page(self, things: list[Thing], page: int, size: int) -> Item:
        if page < 1 or not 1 <= size <= PAGE_SIZE_MAX:
            raise bad_request(_INVALID)
        found = self._named(things)
        count = max(-(-len(found) // size), 1)
        if page > count:
            reason = f"Page out of range, page: {page} page size: {size}, len: {len(found)}"
            raise Refusal(400, "page_out_of_range", reason)
        shown = found[(page - 1) * size : page * size]
        return {
            "total_count": len(things),
            "filtered_count": len(found),
            "item_count": len(shown),
            "page": page,
            "page_size": size,
            "page_count": count,
            "items": [columns(self._describe(thing), self._query) for thing in shown],
        }

    def _named(self, things: list[Thing]) -> list[Thing]:
        wanted, name = self._query.get("name", ""), self._value("name")
        if self._query.get("use_regex") == "true":
            # Matched in linear time: an expression from outside must not hold the loop.
            pattern = Pattern(wanted)
            return [thing for thing in things if pattern.matches(str(name(thing) or ""))]
        if not wanted:
            return things
        return [thing for thing in things if wanted.lower() in str(name(thing) or "").lower()]


def columns(item: Item, query: Mapping[str, str]) -> Item:
    """Only the columns that were asked for; `a.b` goes into objects."""
    wanted = query.get("columns")
    if not wanted:
        return item
    result: Item = {}
    for column in wanted.split(","):
        value = _at(item, column)
        if value is not None:
            _put(result, column.split("."), value)
    return result


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise bad_request(_INVALID)
    return int(text)


def _at(item: Item, path: str) -> Any:
    value: Any = item
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _put(result: Item, path: list[str], value: Any) -> None:
    for part in path[:-1]:
        result = result.setdefault(part, {})
    result[path[-1]] = value


def _sort_key(value: Any) -> tuple[int, Any]:
    """Nothing first, then numbers, then text: values of different types never meet in a comparison."""
    if value is None:
        return 0, 0
    if isinstance(value, (int, float)):
        return 1, value
    return 2, str(value)
