"""Who reads whom: from sinks through views to sources, and which query must be there before which."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from warren.spark.pipelines.model import Definition, Sink, SinkKind, Source, SourceKind, View
from warren.spark.pipelines.read_source import columns_of_source
from warren.spark.pipelines.sql_columns import columns_of_query
from warren.spark.pipelines.sql_text import SqlError, Statement, read_statement


@lru_cache(maxsize=1000)
def _statement(sql: str) -> Statement | None:
    try:
        return read_statement(sql)
    except SqlError:
        return None


def statement_of(view: View) -> Statement | None:
    return _statement(view.sql) if view.function is None else None


def line_in(view: View, number: int) -> int:
    """Of the file, for a line of a view's SQL, from 0 on. A block of SQL begins in the line after its `|`; a quoted or
    plain one in its own."""
    if not view.line:
        return 0
    is_block = "\n" in view.sql.strip()
    return view.line + number + (1 if is_block else 0)


def line_at(view: View, offset: int) -> int:
    """The same for a place in the SQL."""
    return line_in(view, view.sql.count("\n", 0, offset))


def inputs_of(definition: Definition, name: str) -> list[str]:
    """What a view reads, by the names as they were declared."""
    view = definition.views.get(name)
    if view is None:
        return []
    statement = statement_of(view)
    wanted = view.inputs if statement is None else [table.name for table in statement.tables]
    declared = {each.lower(): each for each in [*definition.sources, *definition.views]}
    return list(dict.fromkeys(declared[each.lower()] for each in wanted if each.lower() in declared))


def declared_name(definition: Definition, name: str) -> str:
    for each in [*definition.sources, *definition.views]:
        if each.lower() == name.lower():
            return each
    return name


def views_of(definition: Definition, names: Iterable[str]) -> list[str]:
    """All views behind these names, themselves included, those that others need first."""
    found: dict[str, None] = {}
    on_the_way: set[str] = set()

    def visit(name: str) -> None:
        if name in found or name in on_the_way or name not in definition.views:
            return
        on_the_way.add(name)
        for each in inputs_of(definition, name):
            visit(each)
        found[name] = None

    for name in names:
        visit(declared_name(definition, name))
    return list(found)


def columns_of(definition: Definition, name: str) -> frozenset[str] | None:
    """Of a source or view, in lower case; None when only Spark can tell."""
    name = declared_name(definition, name)
    if name in definition.sources:
        return columns_of_source(definition.sources[name])
    view = definition.views.get(name)
    if view is None or view.function is not None:
        return None
    return columns_of_query(view.sql, lambda each: columns_of(definition, each))


def sources_of(definition: Definition, name: str) -> list[Source]:
    name = declared_name(definition, name)
    names = [name, *(each for view in views_of(definition, [name]) for each in inputs_of(definition, view))]
    return [definition.sources[each] for each in dict.fromkeys(names) if each in definition.sources]


def queues_read(definition: Definition, sink: Sink) -> list[str]:
    return [source.place for source in sources_of(definition, sink.origin) if source.kind is SourceKind.QUEUE]


def order_of_sinks(definition: Definition) -> tuple[list[str], list[str]]:
    """Who writes what another reads comes first; the second list is a circle if there is one."""
    needs = {name: needs_of(definition, sink) for name, sink in definition.sinks.items()}
    order: list[str] = []
    while needs:
        ready = [name for name, waits_for in needs.items() if not waits_for & needs.keys()]
        if not ready:
            return order, _circle(needs)
        order += ready
        for name in ready:
            del needs[name]
    return order, []


def needs_of(definition: Definition, sink: Sink) -> set[str]:
    read = {place for source in sources_of(definition, sink.origin) for place in _places_read(definition, source)}
    found = set(sink.after)
    for other in definition.sinks.values():
        if _place_written(definition, other) in read:
            found.add(other.name)
    return found


def _places_read(definition: Definition, source: Source) -> list[tuple[str, str]]:
    if source.kind is SourceKind.FORMAT:
        return [("path", definition.place_of(source.options["path"]))] if "path" in source.options else []
    if source.kind in (SourceKind.PARQUET, SourceKind.DELTA, SourceKind.FILES):
        return [("path", definition.place_of(source.place))]
    return [(source.kind.value, source.place)]


def _place_written(definition: Definition, sink: Sink) -> tuple[str, str]:
    if sink.kind in (SinkKind.PARQUET, SinkKind.DELTA):
        return "path", definition.place_of(sink.place)
    if sink.kind is SinkKind.FORMAT and "path" in sink.options:
        return "path", definition.place_of(sink.options["path"])
    # What a pipeline answers at its exchange is not what it reads there.
    return ("results" if sink.kind is SinkKind.PIPELINE else sink.kind.value), sink.place


def _circle(needs: dict[str, set[str]]) -> list[str]:
    name = next(iter(needs))
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(each for each in sorted(needs[name]) if each in needs)
    return path[path.index(name) :]
