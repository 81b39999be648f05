"""x-random and x-local-random: one binding, picked by the number that the envelope brings; the core draws none."""

from __future__ import annotations

from warren.broker.exchanges.base import Binding, Destination, Envelope, PickingExchange
from warren.errors import PreconditionFailed


class RandomExchange(PickingExchange):
    def __init__(self, vhost: str, name: str, type: str = "x-random") -> None:
        super().__init__(vhost, name, type)
        self.looks_beyond_keys = True

    def list_destinations(self) -> list[Destination]:
        # One entry per binding: a queue bound twice is drawn twice as often.
        return [binding.destination for binding in self.bindings.values()]

    def match(self, envelope: Envelope) -> list[Destination]:
        drawn = self.destinations()
        return [drawn[envelope.draw % len(drawn)]] if drawn else []


class LocalRandomExchange(RandomExchange):
    """Prefers queues of the node that was published to. On one node that is all of them; its bindings are stricter."""

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name, "x-local-random")

    def check_binding(self, binding: Binding) -> None:
        if binding.routing_key:
            raise PreconditionFailed(f"Non empty binding '{binding.routing_key}' key not permitted")
        if binding.destination.is_exchange:
            raise PreconditionFailed("Destination not found")
