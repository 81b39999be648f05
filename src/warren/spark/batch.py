"""Reads streams as a table: what lies between two offsets when the query is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from warren.client.address import BrokerAddress
from warren.spark.consume import Range, open_client, read_range
from warren.spark.ends import Ends, ranges_between
from warren.spark.options import ReadOptions
from warren.spark.partitions import RangePartition, split


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with open_client(options.target, options.timeout) as client:
            ranges = ranges_between(Ends(client, options), options)
        return [RangePartition(span) for span in split(ranges, options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)


def _reader_of(span: Range) -> Callable[[BrokerAddress, Range, int, float, bool], Iterator[pa.RecordBatch]]:
    if not span.archive:
        return read_range
    # Loaded only now: every task of every query would wait for it otherwise, and few streams have an archive.
    from warren.spark.archives.read import read_archived

    return read_archived


def read_partition(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    # Spark puts a partition of its own in where a batch has none.
    if isinstance(partition, RangePartition):
        yield from _reader_of(partition.span)(
            options.target, partition.span, options.prefetch, options.timeout, options.fail_on_data_loss
        )
