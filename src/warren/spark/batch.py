"""Reads streams as a table: what lies between two offsets when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from warren.spark.consume import open_client, read_range
from warren.spark.ends import Ends, ranges_between
from warren.spark.followers import ReadRange, reader_at, stream_ports
from warren.spark.options import ReadOptions
from warren.spark.partitions import RangePartition, shared_out, split
from warren.spark.worker_memory import keep_modules


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with open_client(options.target, options.timeout) as client:
            ranges = ranges_between(Ends(client, options), options)
            ports = stream_ports(client, options)
        return shared_out(split(ranges, options.min_partitions), ports)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)


def read_partition(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    # Spark puts a partition of its own in where a batch has none.
    if isinstance(partition, RangePartition):
        read = reader_at(partition.port) if partition.port else read_range
        if partition.span.archive:
            read = _with_archive(read)
        yield from read(options.target, partition.span, options.prefetch, options.timeout, options.fail_on_data_loss)
    keep_modules()


def _with_archive(read: ReadRange) -> ReadRange:
    # Loaded only now: every task of every query would wait for it otherwise, and few streams have an archive.
    from warren.spark.archives.read import read_archived

    return partial(read_archived, read)
