"""A classic queue on Warren, read by sequence number: nothing is taken until Spark has committed it.

The planner keeps a browser on the queue, which is sent a copy of every message and of which it keeps the sequence
numbers. It is exclusive, which keeps others from taking messages meanwhile, and a second query from starting. Tasks
browse the range once more for the rows. What is committed is settled by number, and the broker answers when that is
durable.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from pyspark.sql.datasource import InputPartition

from warren.amqp.fields import Field
from warren.client.connection import Client
from warren.errors import AccessRefused
from warren.spark.consume import SEQUENCE, DataLoss, QueueRefused, Range, data_loss, open_client
from warren.spark.inbox import Inbox
from warren.spark.options import ReadOptions
from warren.spark.partitions import RangePartition

PREFETCH: Final = 20_000
# What others in the queue, such as the tasks of a query that was killed, get to go away.
LEASE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.2
_RECHECK_SECONDS: Final = 1.0


class BrowsePlanner:
    def __init__(self, client: Client, options: ReadOptions) -> None:
        self._options = options
        self._queue = options.names[0]
        self._client = client
        self._inbox = Inbox(client, self._queue, SEQUENCE)
        # Of what is ready and not committed, in order.
        self._sequences: array[int] = array("q")
        self._settled = 0
        self._is_leased = False

    def first(self) -> int:
        """Before the first message, whichever that is."""
        self._lease()
        return 0

    def waiting(self, start: int) -> int:
        """How many messages there are from `start` on."""
        self._lease()
        self._note()
        self.settle(start)
        return self._inbox.count_ready()

    def available(self, start: int, wanted: int) -> tuple[int, int]:
        """Where a batch of up to so many messages from `start` on ends, and how many are in it."""
        self._lease()
        self._note()
        self.settle(start)
        # Exact, because nobody else takes any: when so many have been seen, there is no other.
        while len(self._sequences) < min(wanted, ready := self._inbox.count_ready()):
            self._receive(min(wanted, ready))
        count = min(wanted, len(self._sequences))
        return (self._sequences[count - 1] + 1, count) if count else (start, 0)

    def checksum(self, start: int, end: int) -> str:
        """Of the numbers of the messages that are there from `start` up to `end`."""
        first, last = (bisect_left(self._sequences, place) for place in (start, end))
        return f"{crc32(self._sequences[first:last].tobytes()):08x}"

    def partitions(self, start: int, end: int, checksum: str) -> Sequence[InputPartition]:
        if end <= start:
            return []
        self._lease()
        # After a restart Spark begins with the batch that it had planned before.
        while not self._sequences or self._sequences[-1] < end - 1:
            ready = self._inbox.count_ready()
            if len(self._sequences) >= ready:
                break
            self._receive(ready)
        first, last = (bisect_left(self._sequences, place) for place in (start, end))
        if self._options.fail_on_data_loss:
            if first == last or self._sequences[last - 1] < end - 1:
                raise data_loss(self._queue, start, end)
            if checksum and checksum != self.checksum(start, end):
                raise changed(self._queue, last - first)
        elif first == last:
            return []
        span = Range(self._queue, start, self._sequences[last - 1] + 1, SEQUENCE, last - first)
        return [RangePartition(span)]

    def settle(self, end: int) -> None:
        """Everything before `end` is done with."""
        if end <= self._settled:
            return
        # Of its own, because a browser that settles begins behind what it has settled.
        with open_client(self._options.target, self._options.timeout) as client:
            inbox = Inbox(client, self._queue, SEQUENCE)
            tag = inbox.consume(1, {"x-browse": Field("t", True), "x-settle-to": Field("l", end - 1)}, False)
            inbox.cancel(tag)
        self._settled = end
        self._sequences = self._sequences[bisect_left(self._sequences, end) :]

    def close(self) -> None:
        self._client.leave()

    def _lease(self) -> None:
        deadline = time.monotonic() + LEASE_SECONDS
        while not self._is_leased:
            try:
                self._inbox.consume(PREFETCH, {"x-browse": Field("t", True)}, True)
            except QueueRefused as refused:
                if refused.code != AccessRefused.code or time.monotonic() > deadline:
                    raise
                # A refusal has closed the channel.
                self._client.abandon()
                time.sleep(_RETRY_SECONDS)
                self._client = open_client(self._options.target, self._options.timeout)
                self._inbox = Inbox(self._client, self._queue, SEQUENCE)
            else:
                self._is_leased = True

    def _receive(self, wanted: int) -> None:
        # Looked at again after a second: what has expired in the queue does not come.
        self._inbox.receive(min(max(1, wanted - len(self._sequences)), PREFETCH // 2), _RECHECK_SECONDS)
        self._note()

    def _note(self) -> None:
        """Keep the numbers, and let the copies go."""
        collected = self._inbox.empty()
        if not collected.count:
            return
        numbers = array("q")
        numbers.frombytes(collected.places.getvalue())
        self._sequences.extend(number for number in numbers if number >= self._settled)
        self._inbox.ack(collected.last_tag)


def changed(queue: str, count: int) -> DataLoss:
    return DataLoss(
        f"the {count} messages that {queue!r} holds of a batch that was begun are not those that were in it: some have "
        "expired, or somebody else had taken some; with option failOnDataLoss=false the query goes on with what is left"
    )
