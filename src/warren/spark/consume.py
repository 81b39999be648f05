"""Reads a range of a stream, or of a queue on Warren, as Arrow record batches: one connection, in bulk.

Acknowledgements are credit only. No more of it is given than the range needs, so that a task that has read its last
message leaves nothing on the way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.deliveries import Deliveries
from warren.amqp.fields import Field, Table
from warren.amqp.methods import BasicAck, BasicCancel, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk, Method
from warren.amqp.stream_run import RUNS_ARGUMENT
from warren.client.address import BrokerAddress
from warren.client.connection import Client, ConnectionLost
from warren.client.session import Refused, frame_of, refusal
from warren.errors import WarrenError
from warren.spark.columns import record_batch
from warren.store.stream_rows import StreamRows

PRODUCT: Final = "warren spark"
HEARTBEAT: Final = 30
READ_BYTES: Final = 1 << 20
# Of one record batch: large enough that its own cost does not show, small enough for any executor's memory, and for
# the processor's cache to be of use.
BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 4 << 20

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
    # Many messages of a stream in one delivery, from a broker that knows how.
    in_runs: bool = True

    @property
    def is_of_queue(self) -> bool:
        return self.place_header == SEQUENCE

    def arguments(self) -> Table:
        if self.is_of_queue:
            return {"x-browse": Field("t", True), "x-browse-from": Field("l", self.start)}
        # Warren sends many messages at once then; RabbitMQ takes no notice.
        return {STREAM_OFFSET: Field("l", self.start), RUNS_ARGUMENT: Field("t", self.in_runs)}


class DataLoss(WarrenError):
    """Messages that a query was to read are not there any more."""


def open_client(target: BrokerAddress, timeout: float, publisher: tuple[str, int] | None = None) -> Client:
    return Client(target, PRODUCT, HEARTBEAT, timeout, publisher)


def consume(client: Client, queue: str, prefetch: int, arguments: Table) -> str:
    """Returns the consumer's tag."""
    client.call(BasicQos(0, prefetch, False), BasicQosOk)
    with reading(queue):
        return client.call(BasicConsume(queue=queue, arguments=arguments), BasicConsumeOk).consumer_tag


@contextlib.contextmanager
def reading(queue: str) -> Iterator[None]:
    """Tells a refusal as what it means to whoever wants to read."""
    try:
        yield
    except Refused as error:
        raise QueueRefused(error.code, f"cannot read {queue!r}: {error.text}") from error


class QueueRefused(WarrenError):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def read_range(
    target: BrokerAddress, span: Range, prefetch: int, timeout: float, fails: bool
) -> Iterator[pa.RecordBatch]:
    """With `fails`, messages that are gone from the range raise; else what is left of it is read."""
    client = open_client(target, timeout)
    reader = RangeReader(client, span, prefetch, fails)
    try:
        yield from reader.batches()
    except BaseException:
        client.abandon()
        raise
    if reader.is_done:
        client.leave()
        return
    # Damage in a run. The broker passes over it, in a way that is the same for all, when it sends one by one.
    client.abandon()
    rest = replace(span, start=reader.next_place, in_runs=False)
    yield from read_range(target, rest, prefetch, timeout, fails)


class RangeReader:
    def __init__(self, client: Client, span: Range, prefetch: int, fails: bool) -> None:
        self._client = client
        self._span = span
        self._fails = fails
        self._prefetch = max(1, min(prefetch, span.end - span.start))
        self._acked = 0
        self.next_place = span.start
        self._is_first = True
        self._read = 0
        self.has_runs = False
        self._rows = self._collector()
        # Of numpy because it is not filled with zeros.
        self._rows.use(np.empty(BATCH_BYTES + 2 * READ_BYTES, np.uint8).data)

    @property
    def is_done(self) -> bool:
        return self.next_place >= self._span.end

    def batches(self) -> Iterator[pa.RecordBatch]:
        span = self._span
        if self.is_done:
            return
        consume(self._client, span.name, self._prefetch, span.arguments())
        while not self.is_done and not self._is_damaged():
            self._take()
            collected = self._rows
            if collected.count >= BATCH_ROWS or collected.size >= BATCH_BYTES:
                batch = record_batch(collected, span.name)
                self._read += collected.count
                self._rows = self._collector()
                self._rows.use(collected.give_up())
                yield batch
        self._check_count(self._read + self._rows.count)
        if self._rows.count:
            yield record_batch(self._rows, span.name)

    def _collector(self) -> StreamRows | Deliveries:
        rows = Deliveries(SEQUENCE) if self._span.is_of_queue else StreamRows()
        rows.limit(self._span.start, self._span.end)
        return rows

    def _is_damaged(self) -> bool:
        damaged = isinstance(self._rows, StreamRows) and self._rows.is_damaged
        if damaged and self._fails:
            raise data_loss(self._span.name, self.next_place, self.next_place + 1)
        return damaged

    def _take(self) -> None:
        """As much as one record batch holds of what is there, or else wait for more."""
        rows, before = self._rows, self._rows.last_tag
        take_deliveries(self._client, rows, BATCH_ROWS - rows.count, self._span.name)
        if rows.last_tag != before:
            self._note(rows)
        else:
            self._receive()

    def _receive(self) -> None:
        try:
            self._client.receive(READ_BYTES)
        except ConnectionLost as lost:
            if self._span.is_of_queue and isinstance(lost.__cause__, TimeoutError):
                # The last message of the range was there when the batch was planned.
                raise data_loss(self._span.name, self.next_place, self._span.end) from lost
            raise

    def _note(self, rows: Deliveries) -> None:
        if isinstance(rows, StreamRows):
            self.has_runs = self.has_runs or rows.has_runs
            if rows.is_damaged and rows.last_place < 0:
                return
        if rows.last_place < 0:
            raise WarrenError(f"{self._span.name!r} is no stream: its messages have no {self._span.place_header}")
        if self._is_first:
            self._is_first = False
            self._check_start(rows)
            self._acked = 0 if self._span.is_of_queue else rows.first_place - 1
        self.next_place = rows.last_place + 1
        # A run has one tag for many messages, and a queue has sequences without a message.
        self._give_credit(rows.last_tag, rows.last_tag if self._span.is_of_queue else rows.last_place)

    def _check_start(self, rows: Deliveries) -> None:
        first = rows.first_place
        if first > self._span.start and self._fails and not self._span.is_of_queue:
            raise data_loss(self._span.name, self._span.start, min(first, self._span.end))

    def _check_count(self, count: int) -> None:
        span = self._span
        # A stream of RabbitMQ has offsets that stand for no message.
        missing = (span.end - span.start if self.has_runs else span.expected) - count
        if missing < 0 and span.is_of_queue and self._fails:
            raise DataLoss(
                f"{-missing} messages have come back to {span.name!r} between those of a batch that was begun: "
                "somebody else had taken them; with option failOnDataLoss=false the query goes on with what is there"
            )
        if missing > 0 and self._fails:
            raise DataLoss(
                f"{missing} messages of {span.name!r} are gone before they were read: "
                f"{'their file is damaged' if self.has_runs else 'they have expired, or somebody else took them'}; "
                "with option failOnDataLoss=false the query goes on with what is left"
            )

    def _give_credit(self, tag: int, position: int) -> None:
        unacked = position - self._acked
        missing = self._span.end - self.next_place
        if unacked * 2 >= self._prefetch and missing > self._prefetch - unacked:
            self._client.send([frame_of(BasicAck(tag, True))])
            self._acked = position


def data_loss(name: str, start: int, end: int) -> DataLoss:
    return DataLoss(
        f"messages {start} to {end - 1} of {name!r} are gone before they were read; "
        "with option failOnDataLoss=false the query goes on with what is left"
    )


def take_deliveries(client: Client, rows: Deliveries, most: int, name: str) -> None:
    """Of what has been received. Whatever else came means that no more messages do."""
    received = client.session.take_deliveries(rows, most)
    if received is not None:
        raise told(received.method, name)


def told(method: Method, name: str) -> WarrenError:
    """Why no more of `name` can be read."""
    if isinstance(method, BasicCancel):
        return WarrenError(f"the broker cancelled the consumer of {name!r}: it was deleted")
    return refusal(method)
