"""The source under test, with points at which its driver can be killed, and ways to break it on purpose."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from warren.spark.queue import QueueReader
from warren.spark.source import WarrenSource
from warren.spark.stream import StreamReader

# In the order in which a batch passes them.
POINTS: Final = ("before-offsets", "after-offsets", "during-sink", "after-sink", "during-commit")
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


class HookedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, reader: StreamReader | QueueReader) -> None:
        self._reader = reader

    def initialOffset(self) -> dict[str, int]:
        return self._reader.initialOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        self._reader.prepareForTriggerAvailableNow()

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._reader.getDefaultReadLimit()

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        end = self._reader.latestOffset(start, limit)
        if end != start:
            strike("before-offsets")
        if os.environ.get(SABOTAGE) == "settle-early" and isinstance(self._reader, QueueReader):
            # As connectors do that ack on receipt.
            self._reader.commit(end)
        return end

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        strike("after-offsets")
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def commit(self, end: Mapping[str, int]) -> None:
        strike("during-commit")
        self._reader.commit(end)


class HookedSource(WarrenSource):
    @classmethod
    def name(cls) -> str:
        return "hooked"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader = super().streamReader(schema)
        assert isinstance(reader, StreamReader | QueueReader)
        return HookedReader(reader)
