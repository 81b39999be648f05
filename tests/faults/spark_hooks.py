"""The source under test, with points at which its driver can be killed, and ways to break it on purpose."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from warren.spark.partitions import RangePartition
from warren.spark.pipelines.publish_step import PublishStep, StreamPublishStep
from warren.spark.pipelines.writers import MessageBatches
from warren.spark.queue import Offset, QueueReader
from warren.spark.sink import Published, StreamWriter
from warren.spark.source import WarrenSource
from warren.spark.stream import StreamReader

# In the order in which a batch passes them; the last two are of a batch that is published.
POINTS: Final = (
    "before-offsets",
    "after-offsets",
    "during-sink",
    "after-sink",
    "during-commit",
    "during-publish",
    "after-publish",
)
# POINT:NTH, and the file with the processes to kill.
STRIKE: Final = "TEST_STRIKE"
VICTIMS: Final = "TEST_VICTIMS"
SABOTAGE: Final = "TEST_SABOTAGE"

_passed: dict[str, int] = {}


def strike(point: str) -> None:
    """Kill the driver with its JVM if this is the time and the place."""
    wanted, _, number = os.environ.get(STRIKE, "").partition(":")
    if wanted != point:
        return
    _passed[point] = _passed.get(point, 0) + 1
    if _passed[point] == int(number):
        for pid in Path(os.environ[VICTIMS]).read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def settles_early() -> bool:
    return os.environ.get(SABOTAGE) == "settle-early"


def mark(name: str) -> Path:
    """A file by which processes tell each other what they have done."""
    return Path(os.environ[VICTIMS]).with_name(name)


def await_file(path: Path, seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return path.exists()


class HookedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, reader: StreamReader | QueueReader) -> None:
        # Their offsets differ in type, and each is given its own back.
        self._reader: Any = reader

    def initialOffset(self) -> Offset:
        return dict(self._reader.initialOffset())

    def prepareForTriggerAvailableNow(self) -> None:
        self._reader.prepareForTriggerAvailableNow()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit: ReadLimit = self._reader.getDefaultReadLimit()
        return limit

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        end: Offset = self._reader.latestOffset(start, limit)
        if end != start:
            strike("before-offsets")
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        strike("after-offsets")
        if settles_early() and isinstance(self._reader, QueueReader):
            threading.Thread(target=self._settle_when_read, args=(end,), daemon=True).start()
        partitions: Sequence[InputPartition] = self._reader.partitions(start, end)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._reader.read(partition)
        if settles_early() and isinstance(partition, RangePartition):
            mark(f"read-{partition.span.name}-{partition.span.end}").touch()

    def _settle_when_read(self, end: Offset) -> None:
        """As connectors do that acknowledge on receipt, long before anybody has done anything with it."""
        name, number = next(iter(end.items()))
        if await_file(mark(f"read-{name}-{number}")):
            self._reader.commit(end)
            mark(f"settled-{number}").touch()

    def commit(self, end: Offset) -> None:
        strike("during-commit")
        self._reader.commit(end)


class HookedWriter(StreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        published = super().write(iterator)
        if published.messages:
            # Of the tasks of a batch, some are done and some are not.
            strike("during-publish")
        return published

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks are done, and Spark has not noted it yet."""
        super().commit(messages, batchId)
        strike("after-publish")


def _struck(steps: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for done in steps:
        if done["messages"][0].as_py():
            strike("during-publish")
        yield done


class HookedStep(PublishStep):
    """The same for rows that are sorted first."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _struck(super().__call__(batches))


class HookedStreamStep(StreamPublishStep):
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _struck(super().__call__(batches))


class HookedBatches(MessageBatches):
    _step = HookedStep


class HookedSource(WarrenSource):
    @classmethod
    def name(cls) -> str:
        return "hooked"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader = super().streamReader(schema)
        assert isinstance(reader, StreamReader | QueueReader)
        return HookedReader(reader)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return HookedWriter(self._write_options(schema, overwrite))


class NowhereWriter(DataSourceStreamArrowWriter):
    """For queries whose steps have published all."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        return Published(sum(batch.num_rows for batch in iterator), 0)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        strike("after-publish")


class HookedNowhere(DataSource):
    @classmethod
    def name(cls) -> str:
        return "hooked-nowhere"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return NowhereWriter()
