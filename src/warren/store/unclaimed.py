"""What the files had when they were opened, until the queues come to fetch it; and giving up what none comes for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.queue.errands import Budget
from warren.store.recovered import RecoveredLane

if TYPE_CHECKING:
    from warren.store.log import LogStore


class Unclaimed:
    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.lanes: dict[tuple[str, str, str, int], RecoveredLane] = {}
        # The incarnations of queues of which the definitions say that they were deleted.
        self.deleted: dict[str, bool] = {}

    def lines(self) -> list[str]:
        """Told a line each where it is more than nothing."""
        lines: list[str] = []
        for lane in self.lanes.values():
            count = lane.count(self._store)
            if count > 0:
                lines.append(f"{count} messages of queue '{lane.name}' in vhost '{lane.vhost}'")
        for stream in self._store.streams.recovered.values():
            if stream.count() > 0:
                lines.append(f"{stream.count()} messages of stream '{stream.name}' in vhost '{stream.vhost}'")
        return lines

    def incarnations(self) -> list[str]:
        return [*{lane.incarnation: True for lane in self.lanes.values()}, *self._store.streams.recovered]

    def forget(self, incarnations: list[str]) -> None:
        """Their queues are gone for good."""
        store = self._store
        gone = [key for key, lane in self.lanes.items() if lane.incarnation in incarnations]
        removal = store.forget_lanes({int(self.lanes.pop(key).number): True for key in gone})
        # Nobody is served yet, or an operator waits for it: all of it at once.
        while not removal.step(Budget()):
            pass
        store.streams.forget(incarnations)
        for segment in list(store.segments.values()):
            store.upkeep.consider(segment)

    def forget_deleted(self) -> None:
        """What the crash did not leave time for. Others stay, until somebody who has their definition asks for them."""
        self.forget([incarnation for incarnation in self.incarnations() if incarnation in self.deleted])
        self._store.seen.forget_all_but(self.incarnations())
        self.deleted = {}
