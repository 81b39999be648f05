"""Reads a classic queue as a stream of micro-batches: by sequence number on Warren, through a spool on other brokers.

Spark calls `commit` for a batch when it plans the next one, so for the last batch never. But whenever it asks for the
latest offset, all before the start that it names is in the checkpoint: that is settled there, the last batch included.

Beside the place where a batch ends, its offset holds a checksum of which messages are in it: after a crash some may
have expired, and a batch that is done again must be the same or be refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from warren.client.connection import Client, ConnectionLost
from warren.errors import WarrenError
from warren.spark.batch import read_partition
from warren.spark.consume import QueueRefused, open_client
from warren.spark.options import ReadOptions
from warren.spark.queue_browse import BrowsePlanner
from warren.spark.queue_spool import Spool, SpoolPartition, SpoolPlanner, read_spool

NO_LIMIT: Final = 1 << 62

# Where each queue's batch ends, by its name, and the checksum of the batch.
Offset = dict[str, int | str]


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._name = options.names[0]
        self._planner: BrowsePlanner | SpoolPlanner | None = None
        self._spool: Spool | None = None
        # Under AvailableNow: how many messages there were, less those of batches that are done. None: not counted yet.
        self._is_limited = False
        self._left: int | None = None
        # The batch that was planned last: where it ends, and how many messages are in it.
        self._planned = (-1, 0)
        self._checksum = f"{self._name} checksum"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_planner": None, "_spool": None}

    def initialOffset(self) -> Offset:
        return {self._name: self._connected().first()}

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_limited = True

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_offsets) if self._options.max_offsets else ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, int | str], limit: ReadLimit) -> Offset:
        place = self._place_of(start)
        most = 0 if isinstance(limit, ReadAllAvailable) else self._options.max_offsets
        try:
            end = self._available(place, most or NO_LIMIT)
        except (ConnectionLost, QueueRefused):
            # Since the last time, by a restart or for acknowledging too late. What is wrong for good is told now.
            self._leave()
            end = self._available(place, most or NO_LIMIT)
        if end == place:
            return dict(start)
        checksum = self._connected().checksum(place, end)
        return {self._name: end, self._checksum: checksum} if checksum else {self._name: end}

    def partitions(self, start: Mapping[str, int | str], end: Mapping[str, int | str]) -> Sequence[InputPartition]:
        # A checkpoint of an earlier release has none.
        checksum = str(end.get(self._checksum, ""))
        return self._connected().partitions(self._place_of(start), self._place_of(end), checksum)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SpoolPartition):
            return read_spool(partition)
        return read_partition(partition, self._options)

    def commit(self, end: Mapping[str, int | str]) -> None:
        self._connected().settle(self._place_of(end))

    def stop(self) -> None:
        """Spark ends the planner by a signal, which closes as much; this is for when Spark itself is gone."""
        self._leave()
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _leave(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def _place_of(self, offset: Mapping[str, int | str]) -> int:
        place = offset.get(self._name)
        if not isinstance(place, int):
            raise WarrenError(f"the checkpoint is of {', '.join(offset)} and not of the queue {self._name!r}")
        return place

    def _available(self, start: int, most: int) -> int:
        planner = self._connected()
        if self._is_limited:
            if self._left is None:
                self._left = planner.waiting(start)
            elif start == self._planned[0]:
                self._left -= self._planned[1]
            most = min(most, self._left)
        self._planned = planner.available(start, most)
        return self._planned[0]

    def _connected(self) -> BrowsePlanner | SpoolPlanner:
        if self._planner is None:
            client = open_client(self._options.target, self._options.timeout)
            try:
                self._planner = self._planner_on(client)
            except BaseException:
                # Its heartbeats would keep it open as long as the driver lives.
                client.abandon()
                raise
        return self._planner

    def _planner_on(self, client: Client) -> BrowsePlanner | SpoolPlanner:
        # Warren calls itself RabbitMQ, for clients that ask, and says here what it is.
        if "warren_version" in client.server_properties:
            if self._options.spool_dir:
                raise WarrenError("option spoolDir does not apply: Warren needs no spool")
            return BrowsePlanner(client, self._options)
        if not self._options.spool_dir:
            raise WarrenError(
                "option spoolDir is missing: a queue of RabbitMQ cannot be read twice, so messages are kept there, "
                "in a folder that all machines of the cluster share, until Spark is done with them"
            )
        if self._spool is None:
            self._spool = Spool(self._options.spool_dir, self._name)
        return SpoolPlanner(client, self._options, self._spool)
