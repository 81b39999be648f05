"""Direct: the binding key equals one of the message's keys."""

from __future__ import annotations

from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.targets import Targets


class DirectExchange(Exchange):
    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name, "direct")
        self._by_key: dict[str, Targets] = {}

    def add(self, binding: Binding) -> None:
        targets = self._by_key.get(binding.routing_key)
        if targets is None:
            targets = Targets()
            self._by_key[binding.routing_key] = targets
        targets.add(binding.destination)

    def remove(self, binding: Binding) -> None:
        targets = self._by_key[binding.routing_key]
        targets.discard(binding.destination)
        if targets.is_empty():
            del self._by_key[binding.routing_key]

    def match(self, envelope: Envelope) -> list[Destination]:
        keys = envelope.keys
        if len(keys) == 1:
            return self._match_key(keys[0])
        found: list[Destination] = []
        for key in keys:
            found.extend(self._match_key(key))
        return found

    def _match_key(self, key: str) -> list[Destination]:
        # get(), not [..]: an unbound key must not leave an entry behind for ever.
        targets = self._by_key.get(key)
        return [] if targets is None else targets.listed()
