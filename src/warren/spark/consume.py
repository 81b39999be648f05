"""Reads a range of a stream, or of a queue on Warren, as Arrow record batches: one connection, in bulk.

Acknowledgements are credit only. No more of it is given than the range needs, so that a task that has read its last
message leaves nothing on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from warren.amqp.deliveries import Deliveries, without_heartbeats
from warren.amqp.fields import Field, Table
from warren.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    Method,
)
from warren.client.address import Target
from warren.client.connection import Client, ConnectionLost, Refused, first_method, frame_of, refusal
from warren.errors import WarrenError
from warren.spark.columns import record_batch

PRODUCT: Final = "warren spark"
HEARTBEAT: Final = 30
READ_BYTES: Final = 1 << 18
# Of one record batch: large enough that its own cost does not show, small enough for any executor's memory.
BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 8 << 20

STREAM_OFFSET: Final = "x-stream-offset"
SEQUENCE: Final = "x-sequence"


@dataclass(frozen=True)
class Range:
    """Messages of `name` from `start` up to and without `end`."""

    name: str
    start: int
    end: int
    place_header: str = STREAM_OFFSET
    # How many messages are in it, of a queue, where numbers may be missing; of a stream every number is there.
    expected: int = 0
    # The folder with what retention took from the stream; empty when there is none.
    archive: str = ""

    @property
    def is_of_queue(self) -> bool:
        return self.place_header == SEQUENCE

    def arguments(self) -> Table:
        if self.is_of_queue:
            return {"x-browse": Field("t", True), "x-browse-from": Field("l", self.start)}
        return {STREAM_OFFSET: Field("l", self.start)}


class DataLoss(WarrenError):
    """Messages that a query was to read are not there any more."""


def open_client(target: Target, timeout: float) -> Client:
    return Client(target, PRODUCT, HEARTBEAT, timeout)


def consume(client: Client, queue: str, prefetch: int, arguments: Table, exclusive: bool = False) -> str:
    """Returns the consumer's tag."""
    client.call(BasicQos(0, prefetch, False), BasicQosOk)
    try:
        asked = BasicConsume(queue=queue, exclusive=exclusive, arguments=arguments)
        return client.call(asked, BasicConsumeOk).consumer_tag
    except Refused as error:
        raise WarrenError(f"cannot read {queue!r}: {error.text}") from error


def read_range(target: Target, span: Range, prefetch: int, timeout: float, fails: bool) -> Iterator[pa.RecordBatch]:
    """With `fails`, messages that are gone from the range raise; else what is left of it is read."""
    client = open_client(target, timeout)
    try:
        yield from RangeReader(client, span, prefetch, fails).batches()
    except BaseException:
        client.abandon()
        raise
    client.leave()


class RangeReader:
    def __init__(self, client: Client, span: Range, prefetch: int, fails: bool) -> None:
        self._client = client
        self._span = span
        self._fails = fails
        self._prefetch = max(1, min(prefetch, span.end - span.start))
        self._unread = b""
        self._acked = 0
        self._last_place = span.start - 1
        self._is_first = True
        self._read = 0
        self._deliveries = self._collector()

    def batches(self) -> Iterator[pa.RecordBatch]:
        span = self._span
        if span.end <= span.start:
            return
        consume(self._client, span.name, self._prefetch, span.arguments())
        self._unread = self._client.take_unread()
        while self._last_place < span.end - 1:
            self._take()
            collected = self._deliveries
            if collected.count >= BATCH_ROWS or collected.size >= BATCH_BYTES:
                self._deliveries = self._collector()
                self._read += collected.count
                yield record_batch(collected, span.name)
        # The next frame may have begun to come, and whoever reads on must begin with it.
        self._client.put_back(self._unread)
        self._check_count(self._read + self._deliveries.count)
        if self._deliveries.count:
            yield record_batch(self._deliveries, span.name)

    def _collector(self) -> Deliveries:
        deliveries = Deliveries(self._span.place_header)
        deliveries.limit(self._span.start, self._span.end)
        return deliveries

    def _take(self) -> None:
        """As much as one record batch holds of what is there, or else wait for more."""
        deliveries, before = self._deliveries, self._deliveries.count
        end = deliveries.take(self._unread, 0, BATCH_ROWS - before)
        if end:
            self._note(deliveries)
            self._unread = self._unread[end:]
        elif deliveries.is_interrupted and (rest := settle_interruption(self._unread, self._span.name)) is not None:
            self._unread = rest
        else:
            self._unread += self._receive()

    def _receive(self) -> bytes:
        try:
            return self._client.receive(READ_BYTES)
        except ConnectionLost as lost:
            if self._span.is_of_queue and isinstance(lost.__cause__, TimeoutError):
                # The last message of the range was there when the batch was planned.
                raise data_loss(self._span.name, self._last_place + 1, self._span.end) from lost
            raise

    def _note(self, deliveries: Deliveries) -> None:
        if deliveries.last_place < 0:
            raise WarrenError(f"{self._span.name!r} is no stream: its messages have no {self._span.place_header}")
        if self._is_first:
            self._is_first = False
            self._check_start(deliveries)
        self._last_place = deliveries.last_place
        self._give_credit(deliveries.last_tag)

    def _check_start(self, deliveries: Deliveries) -> None:
        first = deliveries.first_place
        if first > self._span.start and self._fails and not self._span.is_of_queue:
            raise data_loss(self._span.name, self._span.start, min(first, self._span.end))

    def _check_count(self, count: int) -> None:
        missing = self._span.expected - count
        if missing > 0 and self._fails:
            raise DataLoss(
                f"{missing} messages of {self._span.name!r} are gone before they were read: they have expired, or "
                "somebody else took them; with option failOnDataLoss=false the query goes on with what is left"
            )

    def _give_credit(self, last_tag: int) -> None:
        unacked = last_tag - self._acked
        missing = self._span.end - 1 - self._last_place
        if unacked * 2 >= self._prefetch and missing > self._prefetch - unacked:
            self._client.send([frame_of(BasicAck(last_tag, True))])
            self._acked = last_tag


def data_loss(name: str, start: int, end: int) -> DataLoss:
    return DataLoss(
        f"messages {start} to {end - 1} of {name!r} are gone before they were read; "
        "with option failOnDataLoss=false the query goes on with what is left"
    )


def settle_interruption(data: bytes, name: str) -> bytes | None:
    """Without heartbeats; None when it takes more bytes to tell. Whatever else comes means that no more messages do."""
    rest = without_heartbeats(data, 0)
    if len(rest) < len(data):
        return rest
    method = first_other_method(rest)
    if method is None:
        return None
    if isinstance(method, BasicCancel):
        raise WarrenError(f"the broker cancelled the consumer of {name!r}: it was deleted")
    raise refusal(method)


def first_other_method(data: bytes) -> Method | None:
    """The first method that is not a delivery, also where it stands within a content."""
    at = 0
    while len(data) - at >= 8:
        size = int.from_bytes(data[at + 3 : at + 7], "big")
        if data[at] == 1:
            method = first_method(data[at:])
            if method is not None and method.name != "basic.deliver":
                return method
        at += size + 8
    return None
