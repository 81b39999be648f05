"""Reads streams as a table: what lies between two offsets when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from warren.spark.archives.read import read_archived
from warren.spark.consume import open_client, read_range
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


def read_partition(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    # Spark puts a partition of its own in where a batch has none.
    if isinstance(partition, RangePartition):
        read = read_archived if partition.span.archive else read_range
        yield from read(options.target, partition.span, options.prefetch, options.timeout, options.fail_on_data_loss)
