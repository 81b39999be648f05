"""The Arrow function of the check and route stage: a batch of publishes in, what the broker says to each out.

Columns are dictionary-encoded and equal rows are asked about once; what was asked in one batch is remembered for the
next, so that a worker asks the broker about each distinct publish once. It needs no Spark.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from warren.errors import SyntaxRefused
from warren.spark.arrow_schema import struct_of
from warren.spark.path.accounts import name_of
from warren.spark.path.collecting import without_collecting
from warren.spark.path.components import known_components
from warren.spark.path.consumers import Crew
from warren.spark.path.interception import CHANGED_TYPE, Interception
from warren.spark.path.matcher import Matcher, Question, Verdict
from warren.spark.path.properties import NO_PROPERTIES, BadTable, encoded_properties
from warren.spark.path.topology import Topology

ROUTE_TYPE: Final = pa.struct(
    [
        *struct_of("code int, text string, scope string, returned boolean, may_refuse boolean"),
        ("queues", pa.list_(struct_of("queue int, via int"))),
        ("components", pa.list_(pa.int32())),
    ]
)
# With what an interceptor has made of the row; null where it was not asked or refused.
INTERCEPTED_TYPE: Final = pa.struct([*ROUTE_TYPE, ("changed", CHANGED_TYPE)])
# Beyond this the codes of the columns, multiplied, might not fit a machine integer.
_CODES_MAX: Final = 2**62
# What is remembered: of how many frames (all of a publish but its key) at most, and how many keys in all.
_FRAMES_MAX: Final = 64
_KEYS_MAX: Final = 1_000_000


def route_type(topology: Topology) -> pa.StructType:
    return INTERCEPTED_TYPE if topology.intercepts else ROUTE_TYPE


class Router:
    """Says to a batch what its Matcher says to each distinct row."""

    def __init__(self, topology: Topology, crew: Crew | None = None) -> None:
        consumed = frozenset() if crew is None else crew.queues
        self._topology = topology
        self._crew = crew
        self._components = known_components(topology, consumed)
        self._interception = Interception(topology) if topology.intercepts else None
        self._matchers: dict[int, Matcher] = {}
        # Frame -> routing key -> number of the verdict.
        self._known: dict[tuple[Any, ...], dict[str, int]] = {}
        self._verdicts = Verdicts()

    def route(self, rows: pa.StructArray) -> pa.StructArray:
        """A field per column; those that cannot matter may be left out (columns.py)."""
        with without_collecting():
            return self._answer(rows)

    def _answer(self, rows: pa.StructArray) -> pa.StructArray:
        count = len(rows)
        if count == 0:
            return pa.array([], ROUTE_TYPE if self._interception is None else INTERCEPTED_TYPE)
        columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
        encoded = encoded_properties(
            columns.pop("properties", None), columns.pop("headers", None), columns.pop("headers_raw", None), count
        )
        if self._interception is None:
            return self._route(columns, encoded, count)
        intercepted = self._interception.change(columns, encoded, count)
        routes = self._route(intercepted.columns, intercepted.encoded, count)
        return pa.StructArray.from_arrays([*routes.flatten(), intercepted.changed], fields=list(INTERCEPTED_TYPE))

    def _route(self, columns: dict[str, Any], encoded: list[bytes | BadTable] | None, count: int) -> pa.StructArray:
        self._forget_if_much()
        if encoded is not None:
            columns["encoded"] = pa.array([_wire(value) for value in encoded], pa.binary())
        key_codes, keys = _codes(columns.pop("routing_key"))
        places, frame_of = distinct_rows(list(columns.values()), count)
        frames = Frames(columns, places, encoded)
        pairs, inverse = distinct_pairs(frame_of, key_codes, len(keys))
        if len(places) <= _FRAMES_MAX:
            numbers = self._known_numbers(frames, keys, pairs)
        else:
            numbers = [self._number(frames, frame, keys[key]) for frame, key in pairs]
        return self._verdicts.array().take(pa.array(np.array(numbers, np.int64)[inverse]))

    def _forget_if_much(self) -> None:
        keys = sum(map(len, self._known.values()))
        if len(self._known) > _FRAMES_MAX or keys > _KEYS_MAX or len(self._verdicts) > _KEYS_MAX:
            self._known.clear()
            self._verdicts = Verdicts()

    def _known_numbers(self, frames: Frames, keys: list[Any], pairs: list[tuple[int, int]]) -> list[int]:
        """Keys are looked up in a dict for each frame: the common case, and the one that must be fast."""
        tables = [self._known.setdefault(frames.identity(frame), {}) for frame in range(len(frames))]
        if len(tables) == 1 and len(pairs) == len(keys):
            numbers = list(map(tables[0].get, keys))
        else:
            numbers = [tables[frame].get(keys[key]) for frame, key in pairs]
        if None in numbers:
            for at, (frame, key) in enumerate(pairs):
                if numbers[at] is None:
                    numbers[at] = tables[frame][keys[key]] = self._number(frames, frame, keys[key])
        return cast("list[int]", numbers)

    def _number(self, frames: Frames, frame: int, key: Any) -> int:
        return self._verdicts.number(self._verdict(frames, frame, key))

    def _verdict(self, frames: Frames, frame: int, key: Any) -> Verdict:
        problem = frames.value("problem", frame, None)
        if problem is not None:
            return Verdict(SyntaxRefused.code, f"SYNTAX_ERROR - {problem}", "row")
        refusal = frames.value("refused_code", frame, 0)
        if refusal:
            return Verdict(
                refusal, frames.value("refused_text", frame, None), frames.value("refused_scope", frame, None)
            )
        bad_table = frames.bad_table(frame)
        if bad_table is not None:
            return Verdict(bad_table.error.code, bad_table.error.reply_text, "connection")
        matcher = self._matcher(frames.value("starts_at", frame, 0))
        subject = b""
        if self._topology.draws:
            subject = name_of(frames.value("publisher", frame, ""), frames.value("sequence", frame, 0))
        return matcher.resolve(
            Question(
                frames.value("vhost", frame, ""),
                frames.value("user", frame, ""),
                frames.value("exchange", frame, ""),
                key,
                frames.value("mandatory", frame, False),
                frames.value("oversize", frame, 0),
                frames.value("encoded", frame, NO_PROPERTIES),
                matcher.epoch_start(frames.value("at", frame, 0)),
                subject,
            )
        )

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


class Frames:
    """The distinct rows of a batch without their keys."""

    def __init__(self, columns: dict[str, Any], places: pa.Array, encoded: list[bytes | BadTable] | None) -> None:
        self._values = {name: column.take(places).to_pylist() for name, column in columns.items()}
        self._tables = None if encoded is None else [encoded[place] for place in places.to_pylist()]
        self._count = len(places)

    def __len__(self) -> int:
        return self._count

    def identity(self, frame: int) -> tuple[Any, ...]:
        return tuple((name, values[frame]) for name, values in self._values.items() if values[frame] is not None)

    def value(self, name: str, frame: int, default: Any) -> Any:
        values = self._values.get(name)
        found = None if values is None else values[frame]
        return default if found is None else found

    def bad_table(self, frame: int) -> BadTable | None:
        table = None if self._tables is None else self._tables[frame]
        return table if isinstance(table, BadTable) else None


class Verdicts:
    """All verdicts of a worker, numbered, and as Arrow has them: few, however many rows there are."""

    def __init__(self) -> None:
        self._numbers: dict[Verdict, int] = {}
        self._array: pa.StructArray = verdict_array([])

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, verdict: Verdict) -> int:
        return self._numbers.setdefault(verdict, len(self._numbers))

    def array(self) -> pa.StructArray:
        if len(self._array) < len(self._numbers):
            fresh = list(self._numbers)[len(self._array) :]
            self._array = pa.concat_arrays([self._array, verdict_array(fresh)])
        return self._array


def _wire(value: bytes | BadTable) -> bytes:
    # Never asked about: it only keeps rows with different mistakes apart.
    return value if isinstance(value, bytes) else str(value).encode()


def _codes(column: Any) -> tuple[Any, list[Any]]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def distinct_rows(columns: list[Any], count: int) -> tuple[pa.Array, Any]:
    """Where each distinct row first stands, and for every row which distinct one it is."""
    codes = np.zeros(count, np.int64)
    size = 1
    for column in columns:
        if column.null_count == count:
            continue
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
        return pa.array([0]), codes
    encoded = pa.array(codes).dictionary_encode()
    inverse = encoded.indices.to_numpy(zero_copy_only=False)
    first = np.zeros(len(encoded.dictionary), np.int64)
    first[inverse[::-1]] = np.arange(count - 1, -1, -1)
    return pa.array(first), inverse


def distinct_pairs(frame_of: Any, key_codes: Any, keys: int) -> tuple[list[tuple[int, int]], Any]:
    """Each distinct (frame, key), and for every row which of them it is."""
    if not frame_of.any():
        return [(0, key) for key in range(keys)], key_codes
    encoded = pa.array(frame_of.astype(np.int64) * keys + key_codes).dictionary_encode()
    pairs = [divmod(code, keys) for code in encoded.dictionary.to_pylist()]
    return pairs, encoded.indices.to_numpy(zero_copy_only=False)


def verdict_array(verdicts: list[Verdict]) -> pa.StructArray:
    queues = [number for verdict in verdicts for number, _ in verdict.queues]
    via = [number for verdict in verdicts for _, number in verdict.queues]
    pairs = pa.StructArray.from_arrays([pa.array(queues, pa.int32()), pa.array(via, pa.int32())], ["queue", "via"])
    components = pa.array([number for verdict in verdicts for number in verdict.components], pa.int32())
    return pa.StructArray.from_arrays(
        [
            pa.array([verdict.code for verdict in verdicts], pa.int32()),
            pa.array([verdict.text for verdict in verdicts], pa.string()),
            pa.array([verdict.scope for verdict in verdicts], pa.string()),
            pa.array([verdict.returned for verdict in verdicts], pa.bool_()),
            pa.array([verdict.may_refuse for verdict in verdicts], pa.bool_()),
            pa.ListArray.from_arrays(_offsets([len(verdict.queues) for verdict in verdicts]), pairs),
            pa.ListArray.from_arrays(_offsets([len(verdict.components) for verdict in verdicts]), components),
        ],
        fields=list(ROUTE_TYPE),
    )


def _offsets(lengths: list[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
