"""A broker that tests fill and look into with a client that is not ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pika

_numbers = itertools.count()


@dataclass(frozen=True)
class BrokerUnderTest:
    uri: str
    is_warren: bool

    @contextmanager
    def channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.URLParameters(self.uri))
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def make(self, kind: str = "stream", **arguments: object) -> str:
        """A durable queue of this kind with a name of its own."""
        name = f"{kind}-{next(_numbers)}"
        self.declare(name, **{"x-queue-type": kind, **arguments})
        return name

    def declare(self, name: str, **arguments: object) -> None:
        with self.channel() as channel:
            channel.queue_declare(name, durable=True, arguments=arguments)

    def publish(self, queue: str, bodies: Sequence[bytes], properties: Any = None, exchange: str = "") -> None:
        """Returns when all are confirmed."""
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish(exchange, queue, body, properties)

    def get_all(self, queue: str) -> list[tuple[Any, Any, bytes]]:
        """Every message of a classic queue, removed from it."""
        found: list[tuple[Any, Any, bytes]] = []
        with self.channel() as channel:
            while True:
                method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return found
                found.append((method, properties, body))

    def count(self, queue: str) -> int:
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.message_count)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]
