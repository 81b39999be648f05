"""Lists as RabbitMQ's API gives them: filtered, sorted, cut into pages and columns by the query string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from warren.broker.pattern import Pattern
from warren.management.refusals import Refusal, bad_request

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
_INVALID: Final = "Pagination parameters are invalid"
Item = dict[str, Any]


def listing(items: list[Item], query: Mapping[str, str]) -> list[Item] | Item:
    """A bare list, or an object with one page of it when the query asks for a page."""
    if "sort" in query:
        items = sorted(items, key=lambda item: _sort_key(_at(item, query["sort"])))
        if query.get("sort_reverse") == "true":
            items.reverse()
    page = _number(query, "page")
    if page is None:
        return [columns(item, query) for item in items]
    return _page(items, query, page, _number(query, "page_size") or PAGE_SIZE)


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


def _page(items: list[Item], query: Mapping[str, str], page: int, size: int) -> Item:
    if page < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        raise bad_request(_INVALID)
    total = len(items)
    found = _named(items, query)
    count = max(-(-len(found) // size), 1)
    if page > count:
        raise Refusal(400, "page_out_of_range", f"Page out of range, page: {page} page size: {size}, len: {len(found)}")
    shown = found[(page - 1) * size : page * size]
    return {
        "total_count": total,
        "filtered_count": len(found),
        "item_count": len(shown),
        "page": page,
        "page_size": size,
        "page_count": count,
        "items": [columns(item, query) for item in shown],
    }


def _named(items: list[Item], query: Mapping[str, str]) -> list[Item]:
    wanted = query.get("name", "")
    if query.get("use_regex") == "true":
        # Matched in linear time: an expression from outside must not hold the loop.
        pattern = Pattern(wanted)
        return [item for item in items if pattern.matches(str(item.get("name", "")))]
    return [item for item in items if wanted.lower() in str(item.get("name", "")).lower()]


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
