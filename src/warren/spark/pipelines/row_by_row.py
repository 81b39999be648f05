"""Which sinks get the same rows in the same order whenever a batch is done again: those may be numbered.

Spark reads a batch again from the same offsets in the same partitions. As long as every row is made of one row alone,
what comes out of a partition has an order, too. Behind a shuffle it has none: what is tenth today is twelfth tomorrow,
and a number would be taken for another row's.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Final

from warren.spark.pipelines.graph import inputs_of, sources_of, views_of
from warren.spark.pipelines.model import Definition, Mode, Sink, SourceKind
from warren.spark.pipelines.sql_text import SqlError, tokens_of

# What brings rows together, and what may be otherwise the next time. A column of such a name costs the promise only.
_OF_MANY_ROWS: Final = {
    "group",
    "join",
    "distinct",
    "union",
    "intersect",
    "except",
    "minus",
    "over",
    "order",
    "sort",
    "cluster",
    "distribute",
    "limit",
    "with",
    "tablesample",
    "rand",
    "randn",
    "random",
    "randstr",
    "uniform",
    "uuid",
    "shuffle",
    "monotonically_increasing_id",
    "spark_partition_id",
    "reflect",
    "java_method",
}
_DIGITS: Final = 12


def is_row_by_row(definition: Definition, sink: Sink) -> bool:
    sources = sources_of(definition, sink.origin)
    if sink.mode is not Mode.APPEND or len(sources) != 1:
        return False
    source = sources[0]
    # Of a queue messages may be gone that were there, expired or taken; all else is cut by Spark as it sees fit.
    can_repeat = source.kind.is_of_broker and source.kind is not SourceKind.QUEUE and source.fail_on_data_loss
    return can_repeat and all(_is_plain(definition, name) for name in views_of(definition, [sink.origin]))


def _is_plain(definition: Definition, name: str) -> bool:
    view = definition.views[name]
    if view.function is not None or view.watermark is not None or len(inputs_of(definition, name)) != 1:
        return False
    try:
        words = [token.word for token in tokens_of(view.sql)]
    except SqlError:
        return False
    return words.count("select") == 1 and not _OF_MANY_ROWS.intersection(words)


def publisher_of(definition: Definition, sink: Sink) -> str:
    """Changes with whatever makes the rows: a batch that was begun before such a change is published again."""
    views = [definition.views[name].sql for name in views_of(definition, [sink.origin])]
    sources = [replace(source, line=0, max_rows=0) for source in sources_of(definition, sink.origin)]
    return sha256(repr((views, sources)).encode()).hexdigest()[:_DIGITS]
