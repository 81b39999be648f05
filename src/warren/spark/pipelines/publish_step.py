"""Publishes the rows of a DataFrame as a step of its plan, under ids that are the same in every attempt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from warren.spark.options import WriteOptions
from warren.spark.sink import publish_rows


@dataclass(frozen=True)
class PublishStep:
    options: WriteOptions
    # What ids begin with, before partition and row.
    identity: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        done = publish_rows(self.options, f"{self.identity}/{context.partitionId()}", batches)
        yield pa.RecordBatch.from_pydict({"messages": [done.messages]})
