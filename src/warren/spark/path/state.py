"""What one batch of a stream leaves for the next: the clock, and of each queue its counters, timers and memory.

The messages themselves are rows of their own (play.py); here is all that cannot be seen from them.
"""

from __future__ import annotations

import pickle
from typing import Any

from warren.broker.queue.fifo import FifoQueue
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule
from warren.broker.stream.stream import Stream
from warren.broker.timers import Timer
from warren.spark.path import events
from warren.spark.path.events import Event
from warren.spark.path.simulation import Simulation
from warren.spark.path.topology import Name, name_of_queue


def note_state(simulation: Simulation) -> None:
    """A row for every queue that is played."""
    ranks = {timer: rank for rank, timer in enumerate(simulation.node.timers.pending())}
    for queue in simulation.played_queues():
        if queue.deleted:
            continue
        saved = {
            "now": int(simulation.node.now),
            **_order(queue),
            # When each fires, and which of several first: at one moment the order is that of scheduling.
            "timers": [None if timer is None else (int(timer.due), ranks.get(timer, -1)) for timer in _timers(queue)],
            "seen": [] if queue.deduplication is None else queue.deduplication.remembered(),
            "appended": _appended(simulation, queue),
        }
        vhost, name = name_of_queue(queue)
        simulation.events.others.append(
            Event(
                events.STATE,
                vhost,
                name,
                place=0,
                component=simulation.component_of(queue),
                saved=pickle.dumps(saved),
            )
        )


def _order(queue: Queue) -> dict[str, Any]:
    if isinstance(queue, Schedule):
        return {"next_sequence": int(queue.next_sequence)}
    if not isinstance(queue, FifoQueue):
        return {}
    return {"next_sequence": int(queue.next_sequence), "has_expiring": queue.has_expiring}


def _timers(queue: Queue) -> tuple[Timer | None, ...]:
    if isinstance(queue, Schedule):
        return (queue.exact_expiry,)
    return (queue.expiry_timer(), queue.exact_expiry) if isinstance(queue, FifoQueue) else ()


def _appended(simulation: Simulation, queue: Queue) -> int:
    if not isinstance(queue, Stream):
        return 0
    return simulation.streams[queue].before + int(queue.log.next_offset)


class Memory:
    """What an earlier batch left behind: first what is known of each queue, then what is in them, in order."""

    def __init__(self) -> None:
        self._known: list[tuple[Name, dict[str, Any]]] = []
        self._queues: dict[Name, Queue] = {}

    def read(self, simulation: Simulation, name: Name, data: bytes) -> None:
        saved = pickle.loads(data)  # noqa: S301 - written by the batch before, into our own state
        if isinstance(saved, dict):
            self._known.append((name, saved))
            return
        self.recall(simulation)
        queue = self._queues[name]
        if not queue.deleted:
            simulation.restore(queue, saved)

    def recall(self, simulation: Simulation) -> None:
        """Once all that is known has been read: the clock first, then each queue, then the timers in their order."""
        if not self._known:
            return
        self._queues = {name_of_queue(queue): queue for queue in simulation.queues}
        simulation.advance(max(saved["now"] for _, saved in self._known))
        timers: list[tuple[int, int, Timer]] = []
        for name, saved in self._known:
            queue = self._queues[name]
            simulation.play(simulation.component_of(queue))
            if not queue.deleted:
                _recall_queue(simulation, queue, saved)
                timers.extend(_recall_timers(queue, saved))
        for _, due, timer in sorted(timers, key=lambda row: row[0]):
            simulation.node.timers.schedule(timer, due)
        self._known = []


def _recall_queue(simulation: Simulation, queue: Queue, saved: dict[str, Any]) -> None:
    if isinstance(queue, FifoQueue | Schedule):
        queue.next_sequence = saved["next_sequence"]
    if isinstance(queue, FifoQueue):
        queue.has_expiring = saved["has_expiring"]
    if queue.deduplication is not None:
        queue.deduplication.remember(saved["seen"])
    if isinstance(queue, Stream):
        simulation.streams[queue].before = saved["appended"]


def _recall_timers(queue: Queue, saved: dict[str, Any]) -> list[tuple[int, int, Timer]]:
    """(rank, when, timer) of those that were set."""
    pairs = zip(_timers(queue), saved["timers"], strict=True)
    return [
        (known[1], known[0], timer)
        for timer, known in pairs
        if timer is not None and known is not None and known[0] >= 0
    ]
