"""The Arrow function of the queue stage: rows of some components in order in, events out.

It is what `mapInArrow` calls on a sorted partition, and needs no Spark. Rows stream through, events leave as they
come; only what waits in queues is held (spill.py). In a stream the rows of the last batch's state come first.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from warren.amqp.fields import plain
from warren.amqp.frames import body_of
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule
from warren.broker.stream.stream import Stream
from warren.spark.path.accounts import Publish, named, taken_out
from warren.spark.path.collecting import without_collecting
from warren.spark.path.components import known_components
from warren.spark.path.consumers import Crew
from warren.spark.path.properties import NO_PROPERTIES, BadTable, encoded_properties
from warren.spark.path.simulation import Simulation
from warren.spark.path.spill import IN_MEMORY, row_of
from warren.spark.path.state import Memory, note_state
from warren.spark.path.topology import Topology

# Rows after which it is looked whether events have come to a batch.
_LOOK_EVERY: Final = 100


@dataclass(frozen=True)
class Player:
    topology: Topology
    crew: Crew | None = None
    in_memory: int = IN_MEMORY
    # Whether what is left is told in full, so that a next batch can go on from there.
    keeps_state: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with without_collecting():
            yield from self._play(batches)

    def _play(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        simulation: Simulation | None = None
        memory = Memory()
        ends_at = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            rows = Rows(batch)
            if simulation is None:
                ends_at = rows.ends_at
                simulation = self._simulation(rows.starts_at)
            for at in range(batch.num_rows):
                if rows.saved is not None and rows.saved[at] is not None:
                    memory.read(simulation, (rows.value("vhost", at), rows.queue_at(at)), rows.saved[at] or b"")
                    continue
                memory.recall(simulation)
                simulation.publish(rows.publish(at))
                if at % _LOOK_EVERY == 0 and simulation.events.are_many:
                    yield from simulation.events.batches()
        if simulation is None:
            return
        memory.recall(simulation)
        simulation.advance(max(ends_at, simulation.node.now))
        yield from self._contents(simulation)

    def _simulation(self, starts_at: int) -> Simulation:
        crew = self.crew
        consumed = frozenset() if crew is None else crew.queues
        components = known_components(self.topology, consumed)
        return Simulation(self.topology, components, crew, starts_at, self.in_memory)

    def _contents(self, simulation: Simulation) -> Iterator[pa.RecordBatch]:
        simulation.check()
        for entry in simulation.unacked():
            note_kept(simulation, entry.queue, entry, "unacked", 0, False)
        for entry in simulation.waiting():
            note_kept(simulation, entry.queue, entry, "waiting", 0, False)
        if self.keeps_state:
            note_state(simulation)
        for queue in simulation.played_queues():
            if queue.deleted or isinstance(queue, Stream):
                continue
            outcome = "scheduled" if isinstance(queue, Schedule) else "ready"
            for place, entry in enumerate(taken_out(queue), 1):
                note_kept(simulation, queue, entry, outcome, place, self.keeps_state)
                if simulation.events.are_many:
                    yield from simulation.events.batches()
        simulation.store.close()
        yield from simulation.events.batches()


class Rows:
    """The columns of a batch, as Python sees them."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._columns = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
        self._count = batch.num_rows
        self.starts_at: int = self._columns["starts_at"][0].as_py()
        self.ends_at: int = self._columns["ends_at"][0].as_py()
        self.saved: list[bytes | None] | None = self._listed("saved") if "saved" in self._columns else None
        self._properties = self._encoded()
        self._plain = list(zip(*[self._listed(name) for name in _PLAIN], strict=True))
        via = self._columns["via"]
        self._offsets = via.offsets.to_pylist()
        queues, exchanges = via.values.flatten()
        self._queues, self._exchanges = queues.to_pylist(), exchanges.to_pylist()

    def _encoded(self) -> list[bytes | BadTable] | None:
        if "encoded" in self._columns:
            # As an interceptor left them; null in rows of state.
            return [value or NO_PROPERTIES for value in self._listed("encoded")]
        columns = self._columns
        return encoded_properties(
            columns.get("properties"), columns.get("headers"), columns.get("headers_raw"), self._count
        )

    def _listed(self, name: str) -> list[Any]:
        values: list[Any] = self._columns[name].to_pylist()
        return values

    def value(self, name: str, at: int) -> Any:
        return self._columns[name][at].as_py()

    def queue_at(self, at: int) -> str:
        name: str = self.value("queue", at)
        return name

    def publish(self, at: int) -> Publish:
        component, message, vhost, publisher, sequence, user, exchange, key, mandatory, size, time, may_refuse = (
            self._plain[at]
        )
        properties = NO_PROPERTIES if self._properties is None else self._properties[at]
        assert not isinstance(properties, BadTable), "refused rows go to no queue"
        start, end = self._offsets[at], self._offsets[at + 1]
        if end - start == 1:
            via = {self._queues[start]: self._exchanges[start]}
        else:
            via = dict(zip(self._queues[start:end], self._exchanges[start:end], strict=True))
        return Publish(
            component, message, vhost, publisher, sequence, user, exchange, key, mandatory, properties, size, time,
            may_refuse, via,
        )  # fmt: skip


_PLAIN: Final = (
    "component", "message", "vhost", "publisher", "sequence", "user", "exchange", "routing_key", "mandatory",
    "body_size", "at", "may_refuse",
)  # fmt: skip


def note_kept(simulation: Simulation, queue: Queue, entry: Any, outcome: str, place: int, in_full: bool) -> None:
    message = entry.message
    vhost, name = simulation.name_of(queue)
    publisher, sequence = named(body_of(message.content))
    deaths = (message.properties().headers or {}).get("x-death") if b"x-death" in message.content else None
    origin = message.origin
    simulation.events.kept.append((
        vhost, name, entry.sequence, publisher, sequence, origin.exchange, origin.keys[0],
        None if deaths is None else json.dumps(plain(deaths)), entry.redelivered, entry.expires_at, message.body_size,
        outcome, place, simulation.component_of(queue) if in_full else None,
        pickle.dumps(row_of(entry)) if in_full else None,
    ))  # fmt: skip
