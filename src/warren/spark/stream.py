"""Reads streams as a stream of micro-batches: offsets in Spark's checkpoint, `{"name": next offset}`.

Spark keeps one of these in a process of its own that plans, and sends copies to the tasks that read. With the query it
ends that process, by a signal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from warren.client.connection import Client, ConnectionLost
from warren.spark.batch import read_partition
from warren.spark.consume import DataLoss, Range, open_client
from warren.spark.ends import Ends, place_of
from warren.spark.followers import stream_ports
from warren.spark.options import ReadOptions
from warren.spark.partitions import limit_rows, shared_out, split

T = TypeVar("T")
_IF_MEANT: Final = "with option failOnDataLoss=false the query goes on with what there is"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client: Client | None = None
        self._ends: Ends | None = None
        self._names: tuple[str, ...] = ()
        # Where the newest message was when it was last looked for.
        self._latest: dict[str, int] = {}
        # Under AvailableNow: how far to go and not further.
        self._target: dict[str, int] | None = None

    def __getstate__(self) -> dict[str, object]:
        """What tasks need: a connection stays where it was made."""
        return {**self.__dict__, "_client": None, "_ends": None}

    def initialOffset(self) -> dict[str, int]:
        return self._ask(self._find_start)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ask(self._find_ends)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets:
            return ReadMaxRows(self._options.max_offsets)
        return ReadMaxBytes(self._options.max_bytes) if self._options.max_bytes else ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        ends = self._target or self._ask(self._find_ends)
        self._check_not_behind(start, ends)
        # A stream that is new to the query begins with the oldest message there is now. That is put into the checkpoint
        # by a batch without any of its messages: later, retention may have taken some, and a batch must stay the same.
        added = self._find_firsts([name for name in ends if name not in start])
        known = {name: min(start[name], end) for name, end in ends.items() if name in start}
        return {**self._limit(known, {name: ends[name] for name in known}, limit), **added}

    def reportLatestOffset(self) -> dict[str, int] | None:
        return self._latest or None

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        ranges = []
        archives = self._ask(self._find_archives)
        added = self._find_firsts([name for name in end if name not in start])
        for name, after in end.items():
            before = start[name] if name in start else min(added[name], after)
            # Behind its own end a stream was made anew, which is only let through where that may be: from its start.
            start_of_range = before if before <= after else 0
            ranges.append(Range(name, start_of_range, after, archive=archives.get(name, "")))
        return shared_out(split(ranges, self._options.min_partitions), self._ask(self._find_stream_ports))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)

    def commit(self, end: Mapping[str, int]) -> None:
        """A stream keeps what was read."""

    def stop(self) -> None:
        if self._client is not None:
            self._client.leave()
        self._client = self._ends = None

    def _find_start(self, ends: Ends) -> dict[str, int]:
        found = {}
        for name in self._all_names(ends):
            first, after = ends.first(name) or 0, ends.next(name) or 0
            found[name] = place_of(ends, name, self._options.start, first, after)
        return found

    def _find_firsts(self, names: Sequence[str]) -> dict[str, int]:
        return self._ask(lambda ends: {name: ends.first(name) or 0 for name in names}) if names else {}

    def _find_ends(self, ends: Ends) -> dict[str, int]:
        self._latest = {name: ends.next(name) or 0 for name in self._all_names(ends)}
        return dict(self._latest)

    def _find_archives(self, ends: Ends) -> dict[str, str]:
        return {name: ends.archive(name) for name in self._all_names(ends)}

    def _find_stream_ports(self, ends: Ends) -> list[str]:
        return stream_ports(ends.client, self._options)

    def _all_names(self, ends: Ends) -> tuple[str, ...]:
        # Once: the partitions of a super stream that are added later are read from the next start of the query on.
        if not self._names:
            self._names = ends.names()
        return self._names

    def _check_not_behind(self, start: Mapping[str, int], ends: Mapping[str, int]) -> None:
        for name, place in start.items():
            if name not in ends:
                if self._options.fail_on_data_loss:
                    raise DataLoss(f"{name!r} is in the checkpoint and is not read any more; {_IF_MEANT}")
            elif place > ends[name] and self._options.fail_on_data_loss:
                raise DataLoss(
                    f"the checkpoint stands at offset {place} of {name!r}, which ends at {ends[name]}: "
                    f"it was deleted and declared again, or the checkpoint is of another one; {_IF_MEANT}"
                )

    def _limit(self, start: Mapping[str, int], ends: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        options = self._options
        most = []
        # Both limits may have been asked for, and Spark hands over only one.
        if not isinstance(limit, ReadAllAvailable) and options.max_offsets:
            most.append(options.max_offsets)
        if not isinstance(limit, ReadAllAvailable) and options.max_bytes:
            each = self._ends.bytes_each if self._ends is not None else 0.0
            most.append(max(1, int(options.max_bytes / max(each, 1.0))))
        return limit_rows(start, ends, min(most)) if most else dict(ends)

    def _ask(self, question: Callable[[Ends], T]) -> T:
        """On a connection that is kept; one that was lost since the last time is made anew."""
        if self._ends is not None:
            try:
                return question(self._ends)
            except ConnectionLost:
                self.stop()
        self._client = open_client(self._options.target, self._options.timeout)
        self._ends = Ends(self._client, self._options)
        try:
            return question(self._ends)
        except BaseException:
            self.stop()
            raise
