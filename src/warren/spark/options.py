"""What may be asked of the format `warren`: every option by name, refused on the driver when it cannot be meant so.

Names are Kafka's where Kafka has one, and case does not matter. Values are plain, so that they travel to the executors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeVar

from warren.amqp.constants import DEDUPLICATION_HEADER
from warren.client.address import BrokerAddress, parse_uri
from warren.errors import WarrenError

E = TypeVar("E", bound=Enum)

READ_NAMES: Final = (
    "uri",
    "stream",
    "superStream",
    "queue",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "prefetch",
    "spoolDir",
    "archive",
    "readFrom",
    "timeout",
)
WRITE_NAMES: Final = (
    "uri",
    "exchange",
    "routingKey",
    "mandatory",
    "onReturn",
    "returnsPath",
    "maxInFlight",
    "persistent",
    "deduplicationHeader",
    "newIds",
    "publisher",
    "timeout",
)
# Spark's own, which it hands to every sink.
_SPARKS_OWN: Final = ("checkpointLocation", "queryName")
# Known elsewhere, meaningless here: a better answer than "unknown".
_HINTS: Final = {
    "includeheaders": "headers are always there, in the columns headers and headers_raw",
    "subscribe": "name what to read with stream, superStream or queue",
    "kafka.bootstrap.servers": "name the broker with uri, as in amqp://guest:guest@localhost:5672/%2F",
    "path": "load() and save() take no path; name what to read with stream, superStream or queue",
}

EARLIEST: Final = -2
LATEST: Final = -1
TIMEOUT_SECONDS: Final = 60.0
# Many enough that a stream flows, few enough that a task that ends early leaves little on the way.
PREFETCH: Final = 10_000
PREFETCH_MAX: Final = 65_535
IN_FLIGHT: Final = 5_000
_SHORT_MAX: Final = 255
# Query and partition join it, and all of it has at most 255.
_PUBLISHER_MAX: Final = 128
# Of the headers with which a pipeline puts a message aside.
MISFIT_PREFIX: Final = "x-misfit-"


class ReadKind(Enum):
    STREAM = "stream"
    SUPER_STREAM = "superStream"
    QUEUE = "queue"


class ReadFrom(Enum):
    """Which nodes of a cluster."""

    LEADER = "leader"
    FOLLOWERS = "followers"


class OnReturn(Enum):
    FAIL = "fail"
    IGNORE = "ignore"
    COLLECT = "collect"


@dataclass(frozen=True)
class Position:
    """Where to begin or to end: at an edge, at an offset for each stream by name, or at a time."""

    edge: int = EARLIEST
    offsets: tuple[tuple[str, int], ...] = ()
    # Milliseconds since 1970.
    timestamp: int | None = None

    def offset_of(self, name: str) -> int:
        return dict(self.offsets).get(name, self.edge)


@dataclass(frozen=True)
class ReadOptions:
    target: BrokerAddress
    kind: ReadKind
    names: tuple[str, ...]
    start: Position
    end: Position
    max_offsets: int = 0
    max_bytes: int = 0
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    prefetch: int = PREFETCH
    spool_dir: str = ""
    # The folder of all archives, where it is not found under the broker's name for it; or none.
    archive: str = ""
    timeout: float = TIMEOUT_SECONDS
    read_from: ReadFrom = ReadFrom.LEADER


@dataclass(frozen=True)
class WriteOptions:
    target: BrokerAddress
    # None is "from the column".
    exchange: str | None = None
    routing_key: str | None = None
    mandatory: bool = False
    on_return: OnReturn = OnReturn.FAIL
    returns_path: str = ""
    max_in_flight: int = IN_FLIGHT
    # None: persistent, unless the row says what it is.
    persistent: bool | None = None
    deduplication_header: str = DEDUPLICATION_HEADER
    # Also for a row that has one already: that of the message it was made of, which others may be made of as well.
    new_ids: bool = False
    # What the name of a publisher begins with whose messages are numbered; empty: they are not.
    publisher: str = ""
    timeout: float = TIMEOUT_SECONDS


def read_options(given: Mapping[str, str], is_streaming: bool) -> ReadOptions:
    options = _Options(given, READ_NAMES)
    kind = options.one_of((ReadKind.STREAM, ReadKind.SUPER_STREAM, ReadKind.QUEUE))
    names = options.names(kind.value)
    if kind is ReadKind.QUEUE:
        options.refuse(("startingOffsets", "endingOffsets", "startingTimestamp"), "a queue is read from its head")
        options.refuse(("minPartitions",), "a queue is read in order, as one partition")
        options.refuse(("archive",), "only a stream has one")
        options.refuse(("readFrom",), "only streams are read from followers")
    else:
        options.refuse(("spoolDir",), "only a classic queue of RabbitMQ is spooled")
    if is_streaming:
        options.refuse(("endingOffsets",), "a streaming query has no end; use read instead of readStream")
    else:
        options.refuse(("maxOffsetsPerTrigger", "maxBytesPerTrigger"), "only a streaming query has triggers")
    return ReadOptions(
        options.target(),
        kind,
        names,
        options.start(LATEST if is_streaming else EARLIEST, names, kind),
        options.position("endingOffsets", LATEST, names, kind),
        options.number("maxOffsetsPerTrigger", 0, 1),
        options.number("maxBytesPerTrigger", 0, 1),
        options.number("minPartitions", 0, 1),
        options.flag("failOnDataLoss", True),
        options.number("prefetch", PREFETCH, 1, PREFETCH_MAX),
        options.text("spoolDir") or "",
        options.text("archive") or "",
        options.number("timeout", int(TIMEOUT_SECONDS), 1),
        options.choice("readFrom", ReadFrom) or ReadFrom.LEADER,
    )


def write_options(given: Mapping[str, str], columns: Iterable[str]) -> WriteOptions:
    options = _Options(given, (*WRITE_NAMES, *_SPARKS_OWN))
    on_return = options.choice("onReturn", OnReturn)
    mandatory = options.flag("mandatory", False)
    if on_return is not None and not mandatory:
        raise WarrenError("option onReturn means nothing without mandatory=true: nothing is returned then")
    returns_path = options.text("returnsPath") or ""
    if (on_return is OnReturn.COLLECT) != bool(returns_path):
        raise WarrenError("options onReturn=collect and returnsPath=FOLDER go together: it is where returns are put")
    exchange, routing_key = options.text("exchange"), options.text("routingKey")
    if len((options.text("publisher") or "").encode()) > _PUBLISHER_MAX:
        raise WarrenError(f"option publisher is wrong: it has at most {_PUBLISHER_MAX} bytes")
    there = set(columns)
    if exchange is None and "exchange" not in there:
        raise WarrenError("option exchange is missing, and there is no column exchange ('' is the default exchange)")
    if routing_key is None and "routing_key" not in there:
        raise WarrenError("option routingKey is missing, and there is no column routing_key")
    return WriteOptions(
        options.target(),
        exchange,
        routing_key,
        mandatory,
        on_return or OnReturn.FAIL,
        returns_path,
        options.number("maxInFlight", IN_FLIGHT, 1, 1_000_000),
        options.flag("persistent", True) if options.text("persistent") else None,
        options.header("deduplicationHeader"),
        options.flag("newIds", False),
        options.text("publisher") or "",
        options.number("timeout", int(TIMEOUT_SECONDS), 1),
    )


class _Options:
    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        by_name = {name.lower(): name for name in known}
        self._given: dict[str, str] = {}
        for key, value in given.items():
            name = by_name.get(key.lower())
            if name is None:
                raise WarrenError(f"option {key} is unknown: {_hint(key, known)}")
            self._given[name] = value

    def text(self, name: str) -> str | None:
        return self._given.get(name)

    def header(self, name: str) -> str:
        value = self._given.get(name, DEDUPLICATION_HEADER)
        if len(value.encode()) > _SHORT_MAX:
            raise WarrenError(f"option {name} is wrong: the name of a header has at most {_SHORT_MAX} bytes")
        # For those who do not want any.
        return "" if value.lower() == "none" else value

    def refuse(self, names: tuple[str, ...], reason: str) -> None:
        for name in names:
            if name in self._given:
                raise WarrenError(f"option {name} does not apply: {reason}")

    def target(self) -> BrokerAddress:
        uri = self._given.get("uri")
        if uri is None:
            raise WarrenError("option uri is missing: the broker, as in amqp://guest:guest@localhost:5672/%2F")
        try:
            return parse_uri(uri)
        except WarrenError as error:
            raise WarrenError(f"option uri is wrong: {error}") from error

    def one_of(self, kinds: tuple[ReadKind, ...]) -> ReadKind:
        found = [kind for kind in kinds if kind.value in self._given]
        if len(found) != 1:
            names = ", ".join(kind.value for kind in found)
            raise WarrenError(
                f"options {names} contradict each other: give one of them"
                if found
                else "option stream, superStream or queue is missing: the name of what to read"
            )
        return found[0]

    def names(self, option: str) -> tuple[str, ...]:
        """One name, or a JSON list of names. Not a list with commas, because names may hold commas."""
        value = self._given[option]
        names = _json_list(option, value) if value.startswith("[") else [value]
        if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            raise WarrenError(f"option {option} is wrong: {value!r} is not a name, nor a JSON list of different names")
        if len(names) > 1 and option != ReadKind.STREAM.value:
            raise WarrenError(f"option {option} is wrong: only one can be read at a time")
        return tuple(str(name) for name in names)

    def number(self, name: str, default: int, least: int, most: int = 1 << 62) -> int:
        value = self._given.get(name)
        if value is None:
            return default
        if not value.isdecimal() or not least <= int(value) <= most:
            limits = f"{least} to {most}" if most < 1 << 62 else f"{least} or more"
            raise WarrenError(f"option {name} is wrong: {value!r} is not a number ({limits})")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._given.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise WarrenError(f"option {name} is wrong: {value!r} is neither true nor false")
        return value.lower() == "true"

    def choice(self, name: str, choices: type[E]) -> E | None:
        value = self._given.get(name)
        if value is None:
            return None
        for choice in choices:
            if choice.value == value.lower():
                return choice
        names = ", ".join(choice.value for choice in choices)
        raise WarrenError(f"option {name} is wrong: {value!r} is none of {names}")

    def start(self, edge: int, names: tuple[str, ...], kind: ReadKind) -> Position:
        if "startingTimestamp" not in self._given:
            return self.position("startingOffsets", edge, names, kind)
        if "startingOffsets" in self._given:
            raise WarrenError("options startingOffsets and startingTimestamp contradict each other: give one of them")
        return Position(timestamp=_milliseconds("startingTimestamp", self._given["startingTimestamp"]))

    def position(self, name: str, edge: int, names: tuple[str, ...], kind: ReadKind) -> Position:
        value = self._given.get(name)
        if value is None:
            return Position(edge)
        if value.lower() in ("earliest", "latest"):
            return Position(EARLIEST if value.lower() == "earliest" else LATEST)
        offsets = _json_offsets(name, value)
        for stream in offsets:
            if kind is not ReadKind.SUPER_STREAM and stream not in names:
                raise WarrenError(f"option {name} is wrong: {stream!r} is not among what is read")
        return Position(edge, tuple(sorted(offsets.items())))


def _hint(key: str, known: tuple[str, ...]) -> str:
    return _HINTS.get(key.lower(), f"there are {', '.join(known)}")


def _json_list(name: str, value: str) -> list[object]:
    parsed = _parse(value)
    if not isinstance(parsed, list):
        raise WarrenError(f'option {name} is wrong: {value!r} is neither a name nor JSON like ["one", "two"]')
    return parsed


def _json_offsets(name: str, value: str) -> dict[str, int]:
    parsed = _parse(value)
    if not isinstance(parsed, dict):
        raise WarrenError(
            f'option {name} is wrong: {value!r} is neither earliest nor latest nor JSON like {{"name": 12}}'
        )
    for offset in parsed.values():
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST:
            raise WarrenError(f"option {name} is wrong: {offset!r} is not an offset (-2 earliest, -1 latest, 0...)")
    return parsed


def _parse(value: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        return None


def _milliseconds(name: str, value: str) -> int:
    if value.isdecimal():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise WarrenError(
            f"option {name} is wrong: {value!r} is neither milliseconds since 1970 nor a time like 2026-05-01T12:00Z"
        ) from None
    # A time without a zone would mean another moment on every machine.
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
