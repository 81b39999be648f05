"""What a planner is sent by the consumer that it keeps on a queue, between the answers to its calls."""

from __future__ import annotations

import time
from typing import TypeVar

from warren.amqp.deliveries import Deliveries
from warren.amqp.fields import Table
from warren.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.client.connection import Client, ConnectionLost, Refused, first_method, frame_of, refusal
from warren.errors import WarrenError
from warren.spark.consume import READ_BYTES, settle_interruption

M = TypeVar("M", bound=Method)
_FRAME_OVERHEAD = 8


class Inbox:
    def __init__(self, client: Client, queue: str, place_header: str) -> None:
        self.client = client
        self._queue = queue
        self._place_header = place_header
        self.deliveries = Deliveries(place_header)
        self._unread = b""

    def consume(self, prefetch: int, arguments: Table, exclusive: bool) -> str:
        self.call(BasicQos(0, prefetch, False), BasicQosOk)
        return self.call(
            BasicConsume(queue=self._queue, exclusive=exclusive, arguments=arguments), BasicConsumeOk
        ).consumer_tag

    def count_ready(self) -> int:
        return self.call(QueueDeclare(queue=self._queue, passive=True), QueueDeclareOk).message_count

    def ack(self, tag: int) -> None:
        self.client.send([frame_of(BasicAck(tag, True))])

    def cancel(self, tag: str, answer: type[M]) -> None:
        self.call(BasicCancel(tag), answer)

    def call(self, method: Method, answer: type[M]) -> M:
        """What is delivered before the answer is taken in."""
        self.client.send([frame_of(method)])
        while True:
            found = self._next_answer()
            if found is None:
                self._unread += self.client.receive(READ_BYTES)
            elif isinstance(found, answer):
                return found
            else:
                raise self._told(found)

    def receive(self, most: int, timeout: float) -> None:
        """Take in more, until there are `most` or nothing comes for so long."""
        deadline = time.monotonic() + timeout
        while self.deliveries.count < most:
            before = self.deliveries.count
            found = self._next_answer()
            if found is not None:
                raise self._told(found)
            if self.deliveries.count > before:
                deadline = time.monotonic() + timeout
                continue
            left = deadline - time.monotonic()
            if left <= 0 or not self._wait(left):
                return

    def empty(self) -> Deliveries:
        """All that has come; from now on collected anew."""
        full, self.deliveries = self.deliveries, Deliveries(self._place_header)
        return full

    def _wait(self, seconds: float) -> bool:
        self.client.socket.settimeout(seconds)
        try:
            self._unread += self.client.receive(READ_BYTES)
        except ConnectionLost as lost:
            if isinstance(lost.__cause__, TimeoutError):
                return False
            raise
        finally:
            self.client.socket.settimeout(self.client.timeout)
        return True

    def _next_answer(self) -> Method | None:
        """Take all whole deliveries up to the next method of another kind, and that method when it is all there."""
        self._unread += self.client.take_unread()
        while True:
            at = self.deliveries.take(self._unread, 0, 1 << 30)
            self._unread = self._unread[at:]
            if not self.deliveries.is_interrupted:
                return None
            method = None if self._unread[0] != 1 else first_method(self._unread)
            if method is not None and method.name != "basic.deliver":
                size = int.from_bytes(self._unread[3:7], "big") + _FRAME_OVERHEAD
                self._unread = self._unread[size:]
                return method
            rest = settle_interruption(self._unread, self._queue)
            if rest is None:
                return None
            self._unread = rest

    def _told(self, method: Method) -> WarrenError:
        error = refusal(method)
        if isinstance(error, Refused):
            return QueueRefused(error.code, f"cannot read {self._queue!r}: {error.text}")
        if isinstance(method, BasicCancel):
            return WarrenError(f"the broker cancelled the consumer of {self._queue!r}: it was deleted")
        return error


class QueueRefused(WarrenError):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
