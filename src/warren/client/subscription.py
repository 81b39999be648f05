"""Consuming one message after another, for callers to whom a message is worth an object.

Whoever takes millions uses amqp/deliveries.py instead.
"""

from __future__ import annotations

from warren.amqp import methods
from warren.client.connection import Client
from warren.client.session import Received, frame_of, refusal
from warren.errors import WarrenError


class Subscription:
    """What comes to one consumer of a client that does nothing else."""

    def __init__(self, client: Client, queue: str, prefetch: int) -> None:
        self._client = client
        self._queue = queue
        client.call(methods.BasicQos(prefetch_count=prefetch), methods.BasicQosOk)
        self._tag = client.call(methods.BasicConsume(queue=queue), methods.BasicConsumeOk).consumer_tag

    def wait(self) -> list[Received]:
        """All deliveries that have come whole; waits for the first."""
        found = [self._client.next()]
        while (received := self._client.session.take()) is not None:
            found.append(received)
        for each in found:
            self._check(each)
        return found

    def ack(self, tag: int) -> None:
        """This one and all before it."""
        self._client.send([frame_of(methods.BasicAck(delivery_tag=tag, multiple=True))])

    def finish(self, tag: int) -> None:
        """The same, and no more are wanted: told first, or the ack would let them come."""
        cancel = methods.BasicCancel(consumer_tag=self._tag, no_wait=True)
        self._client.send([frame_of(cancel), frame_of(methods.BasicAck(delivery_tag=tag, multiple=True))])

    def _check(self, received: Received) -> None:
        if isinstance(received.method, methods.BasicCancel):
            raise WarrenError(
                f"the broker cancelled the consumer: queue '{self._queue}' is gone, or no longer readable"
            )
        if not isinstance(received.method, methods.BasicDeliver):
            raise refusal(received.method)
