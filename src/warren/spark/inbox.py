"""What a planner is sent by the consumer that it keeps on a queue, between the answers to its calls."""

from __future__ import annotations

import time
from typing import Final, TypeVar

from warren.amqp.deliveries import Deliveries
from warren.amqp.fields import Table
from warren.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.client.connection import Client
from warren.client.session import frame_of
from warren.spark.consume import READ_BYTES, reading, take_deliveries, told

M = TypeVar("M", bound=Method)
_ALL: Final = 1 << 30


class Inbox:
    def __init__(self, client: Client, queue: str, place_header: str) -> None:
        self.client = client
        self._queue = queue
        self._place_header = place_header
        self.deliveries = Deliveries(place_header)

    def consume(self, prefetch: int, arguments: Table, exclusive: bool) -> str:
        self.call(BasicQos(0, prefetch, False), BasicQosOk)
        return self.call(
            BasicConsume(queue=self._queue, exclusive=exclusive, arguments=arguments), BasicConsumeOk
        ).consumer_tag

    def count_ready(self) -> int:
        return self.call(QueueDeclare(queue=self._queue, passive=True), QueueDeclareOk).message_count

    def ack(self, tag: int) -> None:
        self.client.send([frame_of(BasicAck(tag, True))])

    def cancel(self, tag: str) -> None:
        self.call(BasicCancel(tag), BasicCancelOk)

    def call(self, method: Method, answer: type[M]) -> M:
        """What is delivered before the answer is taken in."""
        self.client.send([frame_of(method)])
        while (received := self.client.session.take_deliveries(self.deliveries, _ALL)) is None:
            self.client.receive(READ_BYTES)
        found = received.method
        with reading(self._queue):
            if not isinstance(found, answer):
                raise told(found, self._queue)
            return found

    def receive(self, most: int, timeout: float) -> None:
        """Take in more, until there are `most` or nothing comes for so long."""
        deadline = time.monotonic() + timeout
        while self.deliveries.count < most:
            before = self.deliveries.count
            with reading(self._queue):
                take_deliveries(self.client, self.deliveries, _ALL, self._queue)
            if self.deliveries.count > before:
                deadline = time.monotonic() + timeout
            elif not self.client.receive_within(deadline - time.monotonic(), READ_BYTES):
                return

    def empty(self) -> Deliveries:
        """All that has come; from now on collected anew."""
        full, self.deliveries = self.deliveries, Deliveries(self._place_header)
        return full
