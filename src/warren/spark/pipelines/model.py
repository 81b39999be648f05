"""What a pipeline is: sources, views, sinks and how they are run. The file and the Python class both make this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.client.address import DEFAULT_URI
from warren.spark.places import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_MAX_ROWS: Final = 50_000
# Bodies whose fields are columns.
WITH_SCHEMA: Final = ("json", "avro")


class SourceKind(Enum):
    QUEUE = "queue"
    STREAM = "stream"
    SUPER_STREAM = "super-stream"
    EXCHANGE = "exchange"
    PIPELINE = "x-pipeline"
    PARQUET = "parquet"
    DELTA = "delta"
    FILES = "files"
    # Any other that Spark has: its name is the place.
    FORMAT = "format"

    @property
    def is_of_broker(self) -> bool:
        return self in _OF_BROKER


_OF_BROKER: Final = {
    SourceKind.QUEUE,
    SourceKind.STREAM,
    SourceKind.SUPER_STREAM,
    SourceKind.EXCHANGE,
    SourceKind.PIPELINE,
}


class SinkKind(Enum):
    EXCHANGE = "exchange"
    PIPELINE = "x-pipeline"
    STREAM = "stream"
    QUEUE = "queue"
    PARQUET = "parquet"
    DELTA = "delta"
    CONSOLE = "console"
    FORMAT = "format"

    @property
    def is_of_broker(self) -> bool:
        return self in (SinkKind.EXCHANGE, SinkKind.PIPELINE, SinkKind.STREAM, SinkKind.QUEUE)

    @property
    def is_exchange(self) -> bool:
        return self in (SinkKind.EXCHANGE, SinkKind.PIPELINE)


class OnError(Enum):
    """What becomes of a message that does not fit its source's schema."""

    DEAD_LETTER = "dead-letter"
    DROP = "drop"
    FAIL = "fail"


class Mode(Enum):
    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"
    # Rows replace those with the same keys.
    UPSERT = "upsert"


class SchemaChange(Enum):
    """What becomes of a table whose rows have other columns than those before."""

    ADD = "add"
    FAIL = "fail"


class Watermark(NamedTuple):
    column: str
    seconds: float


@dataclass(frozen=True)
class Source:
    name: str
    kind: SourceKind
    # The queue's, stream's or exchange's name, or the path of the table or files.
    place: str
    keys: tuple[str, ...] = ()
    body: str = "raw"
    # DDL, "infer" to look at the first messages, or an Avro schema; empty for raw bodies.
    schema: str = ""
    is_table: bool = False
    format: str = "parquet"
    # earliest, latest, an offset, offsets by name in JSON, or a time.
    start: str = "earliest"
    max_rows: int = DEFAULT_MAX_ROWS
    # 0: one for each stream.
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    watermark: Watermark | None = None
    on_error: OnError = OnError.DEAD_LETTER
    # Conditions in SQL that a row must meet, by name.
    expect: dict[str, str] = field(default_factory=dict)
    declare: bool = True
    # Of a format of Spark's.
    options: dict[str, str] = field(default_factory=dict)
    line: int = 0

    @property
    def is_stream(self) -> bool:
        return not self.is_table

    @property
    def can_misfit(self) -> bool:
        return self.kind.is_of_broker and (self.body in WITH_SCHEMA or bool(self.expect))


Step = Callable[..., "DataFrame"]


@dataclass(frozen=True)
class View:
    name: str
    sql: str = ""
    # In place of SQL: a function of the DataFrames that `inputs` name.
    function: Step | None = None
    inputs: tuple[str, ...] = ()
    watermark: Watermark | None = None
    line: int = 0


@dataclass(frozen=True)
class Sink:
    """A sink is a query of its own: its name is the query's."""

    name: str
    kind: SinkKind
    place: str
    origin: str
    routing_key: str = ""
    exchange_type: str = "topic"
    mode: Mode = Mode.APPEND
    partition_by: tuple[str, ...] = ()
    schema_change: SchemaChange = SchemaChange.ADD
    # Of upsert: what tells rows apart, the column by which the newest of them is known, and which of them delete.
    keys: tuple[str, ...] = ()
    order_by: str = ""
    delete_when: str = ""
    # None: as fast as possible.
    every_seconds: float | None = None
    # Empty: in the pipeline's own folder.
    checkpoint: str = ""
    after: tuple[str, ...] = ()
    mandatory: bool = False
    declare: bool = True
    # Of a format of Spark's.
    options: dict[str, str] = field(default_factory=dict)
    line: int = 0
    # Where partition_by stands.
    partition_line: int = 0


class DeadLetterPlace(NamedTuple):
    kind: SinkKind
    place: str
    routing_key: str = ""
    line: int = 0


@dataclass(frozen=True)
class Restart:
    """A query that fails is started again so often, after a pause that doubles each time."""

    attempts: int = 10
    seconds: float = 2.0


@dataclass(frozen=True)
class Definition:
    name: str
    # Where it stands: relative paths count from there.
    base: Path
    file: str = ""
    broker: str = DEFAULT_URI
    # The management API that statuses are sent to; empty: to none.
    api: str = ""
    # Of this machine: who runs it, and how it is doing.
    folder: Path = Path()
    # Where checkpoints are, if they are not in that folder: any address that Spark can name.
    storage: str = ""
    master: str = ""
    spark: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    dead_letters: DeadLetterPlace | None = None
    restart: Restart = field(default_factory=Restart)

    def at(self, line: int) -> str:
        """The beginning of a complaint about this line; nothing when there is no file."""
        return f"{self.file}:{line}: " if self.file and line else ""

    def place_of(self, place: str) -> str:
        """A path of this machine counts from where the file is; an address is what it is."""
        return absolute(place, self.base)

    def options_of(self, part: Source | Sink) -> dict[str, str]:
        path = part.options.get("path")
        return part.options if path is None else {**part.options, "path": self.place_of(path)}

    @property
    def home(self) -> str:
        return self.storage or str(self.folder)

    def checkpoint_of(self, sink: Sink) -> str:
        return sink.checkpoint or f"{self.home}/checkpoints/{sink.name}"
