"""Publishes the rows of a DataFrame as a step of its plan, under ids that are the same in every attempt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from warren.spark.arrow_values import array_of
from warren.spark.options import WriteOptions
from warren.spark.sink import batch_of_query, publish_task

SUMMARY: Final = "messages LONG"


@dataclass(frozen=True)
class PublishStep:
    """Of a batch that its maker can name; what is left of a partition is how many it published."""

    options: WriteOptions
    # What ids and numbers begin with, before partition and row.
    query: str
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = publish_task(self.options, self.query, self.batch, batches)
        yield pa.RecordBatch.from_arrays([array_of(np.array([done.messages]), pa.int64())], ["messages"])


@dataclass(frozen=True)
class StreamPublishStep:
    """The same in a streaming query, which says itself what it is called and how far it is. As a sink of Python's Spark
    would have two more Python processes plan and commit each batch, which takes longer than to publish a few rows."""

    options: WriteOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return PublishStep(self.options, *batch_of_query())(batches)
