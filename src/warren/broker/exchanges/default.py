"""The default exchange: every queue is reachable by its name, and no binding is consulted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from warren.broker.exchanges.base import Destination, Envelope, Exchange


class DefaultExchange(Exchange):
    def __init__(self, vhost: str, queues: Mapping[str, Destination]) -> None:
        super().__init__(vhost, "", "direct")
        # The vhost's own dict, read only here: naming it a dict makes the compiled lookup direct.
        self._queues = cast("dict[str, Destination]", queues)

    def match(self, envelope: Envelope) -> list[Destination]:
        found: list[Destination] = []
        for key in envelope.keys:
            queue = self._queues.get(key)
            if queue is not None:
                found.append(queue)
        return found
