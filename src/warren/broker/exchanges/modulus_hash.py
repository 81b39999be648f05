"""x-modulus-hash: the hash of the keys modulo the number of bindings picks one. Made for a fixed set of queues."""

from __future__ import annotations

from mypy_extensions import i64

from warren.broker.exchanges.base import Destination, Envelope, PickingExchange
from warren.broker.exchanges.key_hashing import hash_text, mix


class ModulusHashExchange(PickingExchange):
    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name, "x-modulus-hash")

    def list_destinations(self) -> list[Destination]:
        # By name, so that a restart, which may recover bindings in another order, moves no key.
        return [self.bindings[identity].destination for identity in sorted(self.bindings)]

    def match(self, envelope: Envelope) -> list[Destination]:
        ordered = self.destinations()
        if not ordered:
            return []
        place: i64 = 0
        for key in envelope.keys:
            place = mix(place ^ hash_text(key))
        return [ordered[place % len(ordered)]]
