"""Consuming one message after another, for callers to whom a message is worth an object.

Whoever takes millions uses amqp/deliveries.py instead.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from warren.amqp.constants import FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, FRAME_OVERHEAD
from warren.amqp.fields import Table
from warren.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    Method,
    decode_method,
)
from warren.amqp.properties import Properties, decode_properties
from warren.client.connection import Client, frame_of, refusal
from warren.errors import WarrenError

# Within a content header's payload: where the body's size and the property flags stand.
_SIZE_AT: Final = 4
_FLAGS_AT: Final = 12


@dataclass
class Received:
    method: BasicDeliver
    properties: Properties
    body: bytes


class Deliveries:
    """What comes to one consumer of a client that does nothing else."""

    def __init__(self, client: Client, queue: str, prefetch: int, arguments: Table | None = None) -> None:
        self._client = client
        self._queue = queue
        self._method: BasicDeliver | None = None
        self._properties = Properties()
        self._missing = 0
        self._body: list[bytes] = []
        client.call(BasicQos(prefetch_count=prefetch), BasicQosOk)
        consume = BasicConsume(queue=queue, arguments=arguments or {})
        self._tag = client.call(consume, BasicConsumeOk).consumer_tag

    def wait(self) -> list[Received]:
        """All that has come whole; waits for the first."""
        client = self._client
        found: list[Received] = []
        while True:
            # What is no whole frame yet stays with the client, who may be asked to close at any moment.
            client.put_back(self._cut(client.take_unread(), found))
            if found:
                return found
            received = client.receive()
            client.put_back(client.take_unread() + received)

    def ack(self, tag: int) -> None:
        """This one and all before it."""
        self._client.send([frame_of(BasicAck(delivery_tag=tag, multiple=True))])

    def finish(self, tag: int) -> None:
        """The same, and no more are wanted: told first, or the ack would let them come."""
        cancel = BasicCancel(consumer_tag=self._tag, no_wait=True)
        self._client.send([frame_of(cancel), frame_of(BasicAck(delivery_tag=tag, multiple=True))])

    def _cut(self, data: bytes, found: list[Received]) -> bytes:
        """Take in whole frames; what is left over."""
        at = 0
        while len(data) - at >= FRAME_OVERHEAD:
            kind, _, size = struct.unpack_from(">BHI", data, at)
            end = at + size + FRAME_OVERHEAD
            if end > len(data):
                break
            self._take(kind, data[at + 7 : end - 1], found)
            at = end
        return data[at:]

    def _take(self, kind: int, payload: bytes, found: list[Received]) -> None:
        if kind == FRAME_HEARTBEAT:
            return
        if kind == FRAME_METHOD:
            self._begin(decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload)))
            return
        if kind == FRAME_HEADER:
            self._missing = int.from_bytes(payload[_SIZE_AT:_FLAGS_AT], "big")
            self._properties = decode_properties(payload, _FLAGS_AT, len(payload))
        else:
            self._missing -= len(payload)
            self._body.append(payload)
        if self._missing == 0 and self._method is not None:
            found.append(Received(self._method, self._properties, b"".join(self._body)))
            self._method, self._body = None, []

    def _begin(self, method: Method) -> None:
        if isinstance(method, BasicCancel):
            raise WarrenError(
                f"the broker cancelled the consumer: queue '{self._queue}' is gone, or no longer readable"
            )
        if not isinstance(method, BasicDeliver):
            raise refusal(method)
        self._method = method
