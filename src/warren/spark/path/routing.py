"""The Arrow function of the check and route stage: a batch of publishes in, what the broker says to each out.

Columns are dictionary-encoded and equal rows are asked about once; what was asked in one batch is remembered for the
next, so that a worker asks the broker about each distinct publish once. It needs no Spark.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from warren.spark.path.components import components_of
from warren.spark.path.consumers import Crew
from warren.spark.path.matcher import SYNTAX_ERROR, Matcher, Question, Verdict
from warren.spark.path.properties import NO_PROPERTIES, BadTable, encoded_properties
from warren.spark.path.simulation import name_of
from warren.spark.path.topology import Topology

ARROW_TYPE: Final = pa.struct(
    [
        ("code", pa.int32()),
        ("text", pa.string()),
        ("scope", pa.string()),
        ("returned", pa.bool_()),
        ("may_refuse", pa.bool_()),
        ("queues", pa.list_(pa.struct([("queue", pa.int32()), ("via", pa.int32())]))),
        ("components", pa.list_(pa.int32())),
    ]
)
SPARK_TYPE: Final = (
    "struct<code: int, text: string, scope: string, returned: boolean, may_refuse: boolean, "
    "queues: array<struct<queue: int, via: int>>, components: array<int>>"
)
# Beyond this the codes of the columns, multiplied, might not fit a machine integer.
_CODES_MAX: Final = 2**62
_PLAIN: Final = ("vhost", "user", "exchange", "routing_key", "mandatory")


class Router:
    """Says to a batch what its Matcher says to each distinct row."""

    def __init__(self, topology: Topology, crew: Crew | None = None) -> None:
        consumed = frozenset() if crew is None else crew.queues
        self._topology = topology
        self._crew = crew
        self._components = components_of(topology.sample, consumed)
        self._matchers: dict[int, Matcher] = {}

    def route(self, rows: pa.StructArray) -> pa.StructArray:
        """A field per column; those that cannot matter may be left out (columns.py)."""
        columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
        count = len(rows)
        if count == 0:
            return pa.array([], ARROW_TYPE)
        encoded = encoded_properties(
            columns.pop("properties", None), columns.pop("headers", None), columns.pop("headers_raw", None), count
        )
        columns = {name: column for name, column in columns.items() if name == "problem" or column.null_count < count}
        if encoded is not None:
            columns["encoded"] = pa.array([_wire(value) for value in encoded], pa.binary())
        places, inverse = distinct_rows(list(columns.values()), count)
        distinct = {name: column.take(places).to_pylist() for name, column in columns.items()}
        bad = None if encoded is None else [encoded[place] for place in places.to_pylist()]
        verdicts = [self._verdict(distinct, bad, at) for at in range(len(places))]
        return verdict_array(verdicts).take(inverse)

    def _verdict(self, columns: dict[str, list[Any]], bad: list[bytes | BadTable] | None, at: int) -> Verdict:
        problem = columns["problem"][at]
        if problem is not None:
            return Verdict(SYNTAX_ERROR, f"SYNTAX_ERROR - {problem}", "row")
        if bad is not None:
            table = bad[at]
            if isinstance(table, BadTable):
                return Verdict(table.error.code, table.error.reply_text, "connection")
        return self._ask(columns, at)

    def _ask(self, columns: dict[str, list[Any]], at: int) -> Verdict:
        vhost, user, exchange, key, mandatory = (columns[name][at] for name in _PLAIN)
        properties = columns["encoded"][at] if "encoded" in columns else NO_PROPERTIES
        size = columns["oversize"][at] or 0 if "oversize" in columns else 0
        time = columns["at"][at] if "at" in columns else 0
        matcher = self._matcher(columns["starts_at"][at] if "starts_at" in columns else 0)
        subject = name_of(columns["publisher"][at], columns["sequence"][at]) if self._topology.draws else b""
        time = matcher.epoch_start(time)
        return matcher.resolve(Question(vhost, user, exchange, key, mandatory, size, properties, time, subject))

    def _matcher(self, starts_at: int) -> Matcher:
        matcher = self._matchers.get(starts_at)
        if matcher is None:
            seed = 0 if self._crew is None else self._crew.seed
            matcher = Matcher(self._topology, self._components, self._crew, starts_at, seed)
            self._matchers[starts_at] = matcher
        return matcher


@lru_cache(maxsize=4)
def router_of(topology: Topology, crew: Crew | None) -> Router:
    """One for each worker process, however many batches and tasks it sees."""
    return Router(topology, crew)


def _wire(value: bytes | BadTable) -> bytes:
    # Never asked about: it only keeps rows with different mistakes apart.
    return value if isinstance(value, bytes) else str(value).encode()


def distinct_rows(columns: list[Any], count: int) -> tuple[pa.Array, pa.Array]:
    """Where each distinct row first stands, and for every row which distinct one it is."""
    codes = np.zeros(count, np.int64)
    size = 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        values = len(encoded.dictionary)
        if values <= 1:
            continue
        if size * values >= _CODES_MAX:
            _, codes = np.unique(codes, return_inverse=True)
            size = int(codes.max()) + 1
        codes = codes * values + encoded.indices.to_numpy(zero_copy_only=False)
        size *= values
    if size == 1:
        return pa.array([0]), pa.array(np.zeros(count, np.int64))
    encoded = pa.array(codes).dictionary_encode()
    inverse = encoded.indices.to_numpy(zero_copy_only=False)
    # Codes are handed out in the order in which they are met, so first places only rise.
    first = np.zeros(len(encoded.dictionary), np.int64)
    first[inverse[::-1]] = np.arange(count - 1, -1, -1)
    return pa.array(first), pa.array(inverse)


def verdict_array(verdicts: list[Verdict]) -> pa.StructArray:
    """Equal verdicts are built once: keys are many, but the sets of queues that they lead to are few."""
    numbers: dict[int, int] = {}
    distinct: list[Verdict] = []
    places: list[int] = []
    for verdict in verdicts:
        # By identity: the matcher hands out the same object for the same question.
        place = numbers.get(id(verdict))
        if place is None:
            place = len(distinct)
            numbers[id(verdict)] = place
            distinct.append(verdict)
        places.append(place)
    queues = [number for verdict in distinct for number, _ in verdict.queues]
    via = [number for verdict in distinct for _, number in verdict.queues]
    pairs = pa.StructArray.from_arrays([pa.array(queues, pa.int32()), pa.array(via, pa.int32())], ["queue", "via"])
    components = pa.array([number for verdict in distinct for number in verdict.components], pa.int32())
    built = pa.StructArray.from_arrays(
        [
            pa.array([verdict.code for verdict in distinct], pa.int32()),
            pa.array([verdict.text for verdict in distinct], pa.string()),
            pa.array([verdict.scope for verdict in distinct], pa.string()),
            pa.array([verdict.returned for verdict in distinct], pa.bool_()),
            pa.array([verdict.may_refuse for verdict in distinct], pa.bool_()),
            pa.ListArray.from_arrays(_offsets([len(verdict.queues) for verdict in distinct]), pairs),
            pa.ListArray.from_arrays(_offsets([len(verdict.components) for verdict in distinct]), components),
        ],
        fields=list(ARROW_TYPE),
    )
    return built.take(pa.array(places, pa.int64()))


def _offsets(lengths: list[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
