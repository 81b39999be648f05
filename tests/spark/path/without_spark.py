"""The path without Spark: the same Arrow functions, with lists where Spark has partitions, shuffles and sorts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tests.spark.path.outcome import Outcome
from tests.spark.path.traffic import Sent
from warren.broker.stream.stream import Stream
from warren.spark.path import events
from warren.spark.path.components import components_of
from warren.spark.path.consumers import Crew
from warren.spark.path.play import Player
from warren.spark.path.properties import NUMBERS
from warren.spark.path.routing import Router
from warren.spark.path.topology import Topology, name_of_queue, queues_of, read_topology
from warren.spark.schema import PROPERTY_NAMES

PROPERTIES = pa.struct(
    [(name, pa.int64() if name in (*NUMBERS, "timestamp") else pa.string()) for name in PROPERTY_NAMES]
)
ROUTE_TYPE = pa.struct(
    [
        ("problem", pa.string()), ("vhost", pa.string()), ("user", pa.string()), ("exchange", pa.string()),
        ("routing_key", pa.string()), ("mandatory", pa.bool_()), ("oversize", pa.int64()), ("at", pa.int64()),
        ("starts_at", pa.int64()), ("publisher", pa.string()), ("sequence", pa.int64()), ("properties", PROPERTIES),
        ("headers_raw", pa.binary()),
    ]
)  # fmt: skip
# What an interceptor is shown beside it.
INTERCEPTED_TYPE = pa.struct([*ROUTE_TYPE, ("body", pa.binary()), ("body_size", pa.int64())])
VIA = pa.list_(pa.struct([("queue", pa.int32()), ("via", pa.int32())]))
PLAY_SCHEMA = pa.schema(
    [
        ("component", pa.int32()), ("message", pa.int64()), ("vhost", pa.string()), ("publisher", pa.string()),
        ("sequence", pa.int64()), ("user", pa.string()), ("exchange", pa.string()), ("routing_key", pa.string()),
        ("mandatory", pa.bool_()), ("properties", PROPERTIES), ("headers_raw", pa.binary()),
        ("body_size", pa.int64()), ("at", pa.int64()), ("may_refuse", pa.bool_()), ("via", VIA),
        ("starts_at", pa.int64()), ("ends_at", pa.int64()), ("queue", pa.string()), ("saved", pa.binary()),
    ]
)  # fmt: skip
INTERCEPTED_SCHEMA = PLAY_SCHEMA.append(pa.field("encoded", pa.binary()))


class AnyDeaths:
    """What a stream says of x-death is not among the events: it equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


ANY_DEATHS = AnyDeaths()


class Run:
    """One run over one set of definitions; may be continued batch by batch, as a stream is."""

    def __init__(
        self,
        definitions: dict[str, Any],
        max_message_size: int,
        starts_at: int,
        crew: Crew | None = None,
        partitions: int = 3,
        in_memory: int = 200_000,
        **extensions: Any,
    ) -> None:
        self.topology: Topology = read_topology(definitions, max_message_size, **extensions)
        streams = (queue for queue in queues_of(self.topology.sample) if isinstance(queue, Stream))
        self._streams = {name_of_queue(stream) for stream in streams}
        self.crew = crew
        self.starts_at = starts_at
        self.partitions = partitions
        self.in_memory = in_memory
        self.outcome = Outcome()
        self.state: list[dict[str, Any]] = []
        self._last: list[dict[str, Any]] = []
        self._appended: dict[tuple[str, str], list[tuple[str, str, str, Any]]] = {}
        self._router = Router(self.topology, crew)
        self.components = components_of(self.topology.sample, frozenset() if crew is None else crew.queues)

    def batch(self, publishes: list[Sent], ends_at: int, keeps_state: bool = False) -> None:
        rows = [sent.row() | {"message": number, "body": sent.body} for number, sent in enumerate(publishes)]
        parts: list[list[dict[str, Any]]] = [[] for _ in range(self.partitions)]
        for saved in sorted(self.state, key=lambda row: (row["stage"], row["sequence"] or 0)):
            parts[saved["component"] % self.partitions].append(
                saved | {"starts_at": self.starts_at, "ends_at": ends_at}
            )
        for row, verdict in zip(rows, self._route(rows), strict=True):
            self._note(row, verdict)
            row |= verdict.get("changed") or {}
            for component in verdict["components"]:
                parts[component % self.partitions].append(
                    row | {"component": component, "may_refuse": verdict["may_refuse"], "via": verdict["queues"],
                           "starts_at": self.starts_at, "ends_at": ends_at}
                )  # fmt: skip
        player = Player(self.topology, self.crew, self.in_memory, keeps_state)
        told = [event for part in parts for event in _play(player, part)]
        self._hear(told)

    def _route(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        limit = self.topology.max_message_size
        asked = [
            row | {"problem": None, "starts_at": self.starts_at,
                   "oversize": row["body_size"] if row["body_size"] > limit else None}
            for row in rows
        ]  # fmt: skip
        found: list[dict[str, Any]] = []
        # Batches of an odd size, so that what one batch has learned serves the next.
        for start in range(0, len(asked), 97):
            kind = INTERCEPTED_TYPE if self.topology.intercepts else ROUTE_TYPE
            part = [{field.name: row.get(field.name) for field in kind} for row in asked[start : start + 97]]
            found.extend(self._router.route(pa.array(part, kind)).to_pylist())
        return found

    def _note(self, row: dict[str, Any], verdict: dict[str, Any]) -> None:
        name = f"{row['publisher']}:{row['sequence']}"
        if verdict["code"]:
            self.outcome.refusals[name] = (verdict["code"], verdict["text"])
            return
        if verdict["returned"]:
            self.outcome.returns.append(name)
        self.outcome.confirms[name] = "ack"

    def _hear(self, told: list[dict[str, Any]]) -> None:
        self._last = [event for event in told if event["kind"] == events.KEPT]
        self.state = [_saved(event) for event in told if event["kind"] in (events.KEPT, events.STATE)]
        for event in told:
            name = f"{event['publisher']}:{event['sequence']}"
            queue = (event["vhost"], event["queue"])
            if event["kind"] == events.ENTERED and queue in self._streams:
                row = (name, event["exchange"], event["routing_key"], ANY_DEATHS)
                self._appended.setdefault(queue, []).append(row)
            if event["kind"] == events.ENTERED:
                self.outcome.entered.setdefault(queue, []).append(name)
            elif event["kind"] == events.DEAD_LETTERED:
                self.outcome.dead_lettered.setdefault(queue, []).append(f"{name} {event['reason']}")
            elif event["kind"] == events.CONFIRMED and event["outcome"] == "nack":
                self.outcome.confirms[name] = "nack"

    def finish(self) -> Outcome:
        for stream in self._streams:
            if stream in self.outcome.entered:
                self.outcome.contents[stream] = self._appended[stream]
        for event in sorted(self._last, key=lambda event: event["place"] or 0):
            if event["outcome"] in ("ready", "scheduled"):
                name = f"{event['publisher']}:{event['sequence']}"
                deaths = None if event["x_death"] is None else json.loads(event["x_death"])
                self.outcome.contents.setdefault((event["vhost"], event["queue"]), []).append(
                    (name, event["exchange"], event["routing_key"], deaths)
                )
        return self.outcome


def _play(player: Player, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    schema = INTERCEPTED_SCHEMA if player.topology.intercepts else PLAY_SCHEMA
    batches = [
        pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names} for row in part], schema)
        for part in (rows[start : start + 61] for start in range(0, len(rows), 61))
    ]
    for batch in player(iter(batches)):
        yield from batch.to_pylist()


def _saved(event: dict[str, Any]) -> dict[str, Any]:
    """A row of state, as the next batch reads it."""
    return {
        "stage": 0 if event["kind"] == events.STATE else 1,
        "component": event["component"],
        "vhost": event["vhost"],
        "queue": event["queue"],
        "sequence": event["place"],
        "saved": event["saved"],
    }
