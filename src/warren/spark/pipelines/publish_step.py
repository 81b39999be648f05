"""Publishes the rows of a DataFrame as a step of its plan, under ids that are the same in every attempt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from warren.spark.options import WriteOptions
from warren.spark.sink import publish_task


@dataclass(frozen=True)
class PublishStep:
    options: WriteOptions
    # What ids and numbers begin with, before partition and row.
    query: str
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = publish_task(self.options, self.query, self.batch, batches)
        yield pa.RecordBatch.from_pydict({"messages": [done.messages]})
