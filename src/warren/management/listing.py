"""Lists as RabbitMQ's API gives them: filtered, sorted, cut into pages and columns by the query string."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from warren.broker.rules.pattern import Pattern
from warren.management.pieces import SLICE, Pace, encode, encoding_units
from warren.management.refusals import Refusal, bad_request

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
_INVALID: Final = "Pagination parameters are invalid"
# Sorted at once.
RUN: Final = 1000
# What one name may take of an expression: names of 255 bytes, and expressions of some two hundred steps.
PATTERN_WORK: Final = 50_000
# Units that it costs to look at a thing and to describe it, and steps of an expression for a unit.
_LOOK_UNITS: Final = 2
_DESCRIBE_UNITS: Final = 100
_WORK_PER_UNIT: Final = 10
Item = dict[str, Any]
Thing = TypeVar("Thing")


class Lister(Generic[Thing]):
    """Things are described only if they are shown: of ten thousand queues a page shows fifty.

    `values` gives by path what can be told of a thing without describing it, for sorting and filtering: of one path
    numbers of all things, or texts of all.
    """

    def __init__(
        self,
        query: Mapping[str, str],
        pace: Pace,
        describe: Callable[[Thing], Item],
        values: Mapping[str, Callable[[Thing], Any]],
    ) -> None:
        self._query = query
        self._pace = pace
        self._describe = describe
        self._values = values

    async def pieces(self, things: Sequence[Thing]) -> AsyncIterator[bytes]:
        """A bare list, or an object with one page of it when the query asks for a page."""
        page = _number(self._query, "page")
        if page is None:
            async for piece in self._items(await self._sorted(things, len(things)), b"[", b"]"):
                yield piece
            return
        asked = _number(self._query, "page_size")
        size = PAGE_SIZE if asked is None else asked
        if page < 1 or not 1 <= size <= PAGE_SIZE_MAX:
            told = self._query.get("page_size", "undefined")
            reason = f"Invalid pagination parameters: page number {page}, page size {told}"
            raise Refusal(400, "invalid_pagination_parameters", reason)
        found = await self._named(things)
        count = max(-(-len(found) // size), 1)
        if page > count:
            reason = f"Page out of range, page: {page} page size: {size}, len: {len(found)}"
            raise Refusal(400, "page_out_of_range", reason)
        shown = list(islice(await self._sorted(found, page * size), (page - 1) * size, page * size))
        head = {
            "total_count": len(things),
            "filtered_count": len(found),
            "item_count": len(shown),
            "page": page,
            "page_size": size,
            "page_count": count,
        }
        async for piece in self._items(shown, encode(head)[:-1] + b',"items":[', b"]}"):
            yield piece

    async def _items(self, things: Iterable[Thing], head: bytes, tail: bytes) -> AsyncIterator[bytes]:
        before = head
        for thing in things:
            item = encode(columns(self._describe(thing), self._query))
            yield before + item
            before = b","
            await self._pace.spend(encoding_units(item))
        yield tail if before == b"," else head + tail

    def _value(self, path: str) -> Callable[[Thing], Any]:
        return self._values.get(path) or (lambda thing: _at(self._describe(thing), path))

    def _described_key(self, path: str) -> Callable[[Thing], Any]:
        return lambda thing: _sort_key(_at(self._describe(thing), path))

    def _cost(self, path: str) -> int:
        return _LOOK_UNITS if path in self._values else _DESCRIBE_UNITS

    async def _sorted(self, things: Sequence[Thing], count: int) -> Iterable[Thing]:
        """The first `count`, run by run, and merged as far as somebody reads: to sort fifty thousand takes longer than
        a turn. For a page in front nothing is kept but what may come to stand on it.
        """
        path = self._query.get("sort")
        if path is None:
            return things
        key, cost = self._values.get(path) or self._described_key(path), self._cost(path)
        is_reverse = self._query.get("sort_reverse") == "true"
        is_in_front = count * 2 <= RUN
        runs: list[list[tuple[Any, int, Thing]]] = []
        run: list[tuple[Any, int, Thing]] = []
        step = SLICE // cost
        for start in range(0, len(things), step):
            # The index keeps the order of what is alike, and things out of the comparison.
            some = enumerate(things[start : start + step], start)
            run += [(key(thing), index, thing) for index, thing in some]
            if len(run) >= RUN:
                run.sort(reverse=is_reverse)
                if is_in_front:
                    del run[count:]
                else:
                    runs.append(run)
                    run = []
            await self._pace.spend(step * cost)
        run.sort(reverse=is_reverse)
        return (row[2] for row in heapq.merge(*runs, run, reverse=is_reverse))

    async def _named(self, things: Sequence[Thing]) -> Sequence[Thing]:
        wanted = self._query.get("name", "")
        if self._query.get("use_regex") == "true":
            return await self._matching(things, Pattern(wanted))
        if not wanted:
            return things
        wanted, name, cost = wanted.lower(), self._value("name"), self._cost("name")
        found: list[Thing] = []
        step = SLICE // cost
        for start in range(0, len(things), step):
            found += [thing for thing in things[start : start + step] if wanted in str(name(thing) or "").lower()]
            await self._pace.spend(step * cost)
        return found

    async def _matching(self, things: Sequence[Thing], pattern: Pattern) -> Sequence[Thing]:
        """In linear time: an expression from outside must not hold the loop."""
        name, cost = self._value("name"), self._cost("name")
        found: list[Thing] = []
        for thing in things:
            if pattern.matches(str(name(thing) or ""), PATTERN_WORK):
                found.append(thing)
            await self._pace.spend(cost + int(pattern.work) // _WORK_PER_UNIT)
        return found


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
    if not text.removeprefix("-").isdecimal() or len(text) > 9:
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
