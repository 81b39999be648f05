"""Destinations in the order in which they were bound, each with how many bindings lead to it."""

from __future__ import annotations

from warren.broker.exchanges.base import Destination


class Targets:
    def __init__(self) -> None:
        # Counted, because the same key with other arguments is a second binding to the same queue.
        self._counts: dict[Destination, int] = {}
        self._listed: list[Destination] | None = None

    def add(self, destination: Destination) -> None:
        self._counts[destination] = self._counts.get(destination, 0) + 1
        self._listed = None

    def discard(self, destination: Destination) -> None:
        left = self._counts.get(destination, 0) - 1
        if left > 0:
            self._counts[destination] = left
            return
        self._counts.pop(destination, None)
        self._listed = None

    def is_empty(self) -> bool:
        return not self._counts

    def listed(self) -> list[Destination]:
        """Every destination once. Shared between callers, who must not change it."""
        # Kept, because messages outnumber bindings; rebuilt on demand, because bindings come in bursts.
        listed = self._listed
        if listed is None:
            listed = list(self._counts)
            self._listed = listed
        return listed
