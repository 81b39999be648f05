"""What no part of a pipeline can know alone: references, circles, and combinations that Spark would refuse late."""

from __future__ import annotations

from warren.spark.pipelines.document import Mistakes
from warren.spark.pipelines.graph import (
    columns_of,
    inputs_of,
    line_at,
    order_of_sinks,
    queues_read,
    sources_of,
    statement_of,
    views_of,
)
from warren.spark.pipelines.model import Definition, Mode, OnError, Sink, SinkKind, Source, View
from warren.spark.pipelines.read_source import no_column
from warren.spark.pipelines.section import did_you_mean
from warren.spark.pipelines.sql_columns import missing_in_query
from warren.spark.pipelines.sql_text import SqlError, read_statement


def check(definition: Definition, mistakes: Mistakes) -> None:
    _check_names(definition, mistakes)
    if not definition.sources:
        # Told when the file was read; all that reads them would be wrong too.
        return
    for view in definition.views.values():
        _check_view(definition, view, mistakes)
    for sink in definition.sinks.values():
        _check_references(definition, sink, mistakes)
    if mistakes:
        # The rest walks along references.
        return
    if _has_circle_of_views(definition, mistakes):
        return
    for view in definition.views.values():
        _check_columns(definition, view, mistakes)
    for sink in definition.sinks.values():
        _check_query(definition, sink, mistakes)
        columns = columns_of(definition, sink.origin)
        if columns is not None:
            _check_named(sink, columns, mistakes)
    _check_shared_queues(definition, mistakes)
    _check_shared_places(definition, mistakes)
    _check_dead_letters(definition, mistakes)
    circle = order_of_sinks(definition)[1]
    if len(circle) == 1:
        sink = definition.sinks[circle[0]]
        reason = "waits for itself" if sink.name in sink.after else "would read what it writes"
        mistakes.add(sink.line, f'sink "{sink.name}": {reason}')
    elif circle:
        line = definition.sinks[circle[0]].line
        mistakes.add(line, f"sinks wait for each other in a circle: {' -> '.join([*circle, circle[0]])}")


def _check_names(definition: Definition, mistakes: Mistakes) -> None:
    seen: dict[str, int] = {}
    named: list[Source | View] = [*definition.sources.values(), *definition.views.values()]
    for each in named:
        # Names are tables in SQL, where case does not count.
        name = each.name.lower()
        if name in seen:
            mistakes.add(each.line, f'the name "{each.name}" was given before, in line {seen[name]}')
        seen[name] = each.line


def _check_view(definition: Definition, view: View, mistakes: Mistakes) -> None:
    if view.function is None and not view.sql:
        # Told when it was read.
        return
    if view.function is not None:
        for name in view.inputs:
            _check_known(definition, name, f'view "{view.name}"', view.line, mistakes)
        return
    try:
        statement = read_statement(view.sql)
    except SqlError as error:
        mistakes.add(line_at(view, error.offset), f'view "{view.name}": {error.reason}')
        return
    for table in statement.tables:
        _check_known(
            definition,
            table.name,
            f'view "{view.name}"',
            line_at(view, table.offset),
            mistakes,
        )
    if not statement.tables:
        mistakes.add(view.line, f'view "{view.name}": reads no source and no view')


def _check_columns(definition: Definition, view: View, mistakes: Mistakes) -> None:
    for each in missing_in_query(view.sql, lambda name: columns_of(definition, name)) if view.function is None else ():
        mistakes.add(
            line_at(view, each.offset),
            f'view "{view.name}": {no_column(each.name, each.known)}',
        )
    columns = columns_of(definition, view.name)
    watermark = view.watermark
    if columns is not None and watermark is not None and watermark.column.lower() not in columns:
        mistakes.add(view.line, f'view "{view.name}": watermark: {no_column(watermark.column, columns)}')


def _check_named(sink: Sink, columns: frozenset[str], mistakes: Mistakes) -> None:
    named = [("partition-by", name, sink.partition_line) for name in sink.partition_by]
    named += [("keys", name, sink.line) for name in sink.keys]
    named += [("order-by", name, sink.line) for name in (sink.order_by,) if name]
    for key, name, line in named:
        if name.lower() not in columns:
            mistakes.add(line, f'sink "{sink.name}": {key}: {no_column(name, columns)}')


def _check_known(definition: Definition, name: str, who: str, line: int, mistakes: Mistakes) -> None:
    known = [*definition.sources, *definition.views]
    if name.lower() not in [each.lower() for each in known]:
        mistakes.add(line, f'{who}: no source or view is called "{name}"{did_you_mean(name, known)}')


def _check_references(definition: Definition, sink: Sink, mistakes: Mistakes) -> None:
    if sink.origin:
        _check_known(definition, sink.origin, f'sink "{sink.name}"', sink.line, mistakes)
    for name in sink.after:
        if name not in definition.sinks:
            hint = did_you_mean(name, definition.sinks)
            mistakes.add(sink.line, f'sink "{sink.name}": after: no sink is called "{name}"{hint}')


def _has_circle_of_views(definition: Definition, mistakes: Mistakes) -> bool:
    found = False
    for view in definition.views.values():
        if view.name in views_of(definition, inputs_of(definition, view.name)):
            mistakes.add(view.line, f'view "{view.name}": is made from itself')
            found = True
    return found


def _check_query(definition: Definition, sink: Sink, mistakes: Mistakes) -> None:
    sources = sources_of(definition, sink.origin)
    if not any(source.is_stream for source in sources):
        names = " and ".join(f'"{source.name}"' for source in sources)
        mistakes.add(
            sink.line,
            f'sink "{sink.name}": {names} is a table, which never changes; write "as: stream" to read it as one',
        )
    views = views_of(definition, [sink.origin])
    groups = [name for name in views if _is_grouped(definition, name)]
    has_watermark = any(source.watermark for source in sources) or any(
        definition.views[name].watermark for name in views
    )
    if groups and sink.mode is Mode.APPEND and not has_watermark:
        reason = (
            f'view "{groups[0]}" groups a stream without a watermark, so in mode append nothing would come out; '
            'give its source a "watermark", or the sink "mode: update"'
        )
        mistakes.add(sink.line, f'sink "{sink.name}": {reason}')
    if sink.mode is Mode.COMPLETE and not groups:
        mistakes.add(sink.line, f'sink "{sink.name}": mode complete needs a view with GROUP BY')


def _is_grouped(definition: Definition, name: str) -> bool:
    statement = statement_of(definition.views[name])
    return statement is not None and statement.is_grouped


def _check_shared_queues(definition: Definition, mistakes: Mistakes) -> None:
    readers: dict[str, str] = {}
    for sink in definition.sinks.values():
        for queue in queues_read(definition, sink):
            if queue in readers:
                reason = (
                    f'the queue "{queue}" is read by sink "{readers[queue]}" already, and a queue gives each message '
                    "to one reader; read a stream, or the exchange with a key"
                )
                mistakes.add(sink.line, f'sink "{sink.name}": {reason}')
            readers.setdefault(queue, sink.name)


def _check_shared_places(definition: Definition, mistakes: Mistakes) -> None:
    writers: dict[str, str] = {}
    for sink in definition.sinks.values():
        if sink.kind not in (SinkKind.PARQUET, SinkKind.DELTA):
            continue
        place = definition.place_of(sink.place)
        if place in writers:
            mistakes.add(sink.line, f'sink "{sink.name}": sink "{writers[place]}" writes to {sink.place} already')
        writers[place] = sink.name


def _check_dead_letters(definition: Definition, mistakes: Mistakes) -> None:
    dead = definition.dead_letters
    for source in definition.sources.values():
        if not source.can_misfit or source.on_error is not OnError.DEAD_LETTER:
            continue
        if dead is None:
            reason = 'messages may not fit; say where they go with "dead-letters", or give "on-error: drop"'
            mistakes.add(source.line, f'source "{source.name}": {reason}')
        elif dead.kind.value == source.kind.value and dead.place == source.place:
            mistakes.add(dead.line, f'dead-letters: source "{source.name}" reads the {dead.kind.value} "{dead.place}"')
