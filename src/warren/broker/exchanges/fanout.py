"""Fanout: everything bound, whatever the keys."""

from __future__ import annotations

from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.targets import Targets


class FanoutExchange(Exchange):
    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name, "fanout")
        self._targets = Targets()

    def add(self, binding: Binding) -> None:
        self._targets.add(binding.destination)

    def remove(self, binding: Binding) -> None:
        self._targets.discard(binding.destination)

    def match(self, envelope: Envelope) -> list[Destination]:
        return self._targets.listed()
