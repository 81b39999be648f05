"""What a batch that is done again may be trusted in, and so whether the messages made of it can be numbered.

Spark reads a batch again from the same offsets or files. As long as every row is made of one row alone, the same rows
come out. Of messages they come in the same order, too. Files are cut into partitions by the number of cores, so their
rows must be sorted first. Behind a shuffle not even the rows are sure: what is tenth today is twelfth tomorrow, a sum
of fractions differs in its last digit, and a number would be taken for another row's.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from warren.spark.pipelines.graph import inputs_of, sources_of, views_of
from warren.spark.pipelines.model import Definition, Mode, Sink, Source, SourceKind
from warren.spark.pipelines.sql_text import SqlError, tokens_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
# Of rows that are sorted. Not by the number of cores, because numbers are a partition's own; whoever changes it must
# change the names of publishers, too.
_PARTITIONS: Final = 4


class RowOrder(Enum):
    """Of a batch that is done again."""

    SAME = "the same rows in the same order"
    SORTED = "the same rows, and the same order when they are sorted"
    UNSURE = "perhaps other rows"

    @property
    def can_be_numbered(self) -> bool:
        return self is not RowOrder.UNSURE


def row_order(definition: Definition, sink: Sink) -> RowOrder:
    sources = sources_of(definition, sink.origin)
    if sink.mode is not Mode.APPEND or len(sources) != 1:
        return RowOrder.UNSURE
    if not all(_is_plain(definition, name) for name in views_of(definition, [sink.origin])):
        return RowOrder.UNSURE
    return _order_of_source(sources[0])


def _order_of_source(source: Source) -> RowOrder:
    if source.kind.is_of_broker:
        # A queue's offsets say which messages a batch had; one that has lost some is refused unless the file says so.
        return RowOrder.SAME if source.fail_on_data_loss else RowOrder.UNSURE
    if source.kind in (SourceKind.FILES, SourceKind.PARQUET) and source.watermark is None:
        return RowOrder.SORTED
    # Only whoever made the format knows.
    return RowOrder.UNSURE


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


def in_one_order(frame: DataFrame) -> DataFrame:
    """The same rows in any order become the same partitions in the same order; equal rows may change places."""
    columns = _comparable(frame)
    return frame.repartition(_PARTITIONS, *columns).sortWithinPartitions(*columns)


def in_order_of_partitions(frame: DataFrame) -> DataFrame:
    """For rows that are unsure: as like each other as can be, so that ids are the same where rows are."""
    return frame.sortWithinPartitions(*_comparable(frame))


def _comparable(frame: DataFrame) -> list[Column]:
    from pyspark.sql import functions as f
    from pyspark.sql.types import MapType

    names = [(f.col(f"`{field.name}`"), field.dataType) for field in frame.schema.fields]
    return [f.map_entries(column) if isinstance(kind, MapType) else column for column, kind in names]
