"""A table of publishes becomes the columns that the path works on: defaults for what is missing, a word for each
row that no client could have sent. docs/message-path.md lists the columns and their defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as kinds

from warren.errors import WarrenError
from warren.spark.path.properties import HASHED_NAMES, NUMBERS, ROUTING_NAMES, TIMES
from warren.spark.path.topology import Topology
from warren.spark.schema import PROPERTY_NAMES

# What `warren archive` and the Spark source call these.
_ALIASES: Final = {"sequence": "offset", "published_at": "timestamp", "body": "value"}
_SHORT_MAX: Final = 255
_ORDER: Final = "order_"


@dataclass(frozen=True)
class Defaults:
    user: str
    vhost: str = "/"


class PublishTable:
    """The input, column by column."""

    def __init__(
        self,
        publishes: DataFrame,
        defaults: Defaults,
        order_by: str | Sequence[str] | None,
        batch_id: int = 0,
        with_bodies: bool = False,
    ) -> None:
        self._frame = publishes.withColumn("message_", sf.monotonically_increasing_id())
        self._types = {field.name: field.dataType for field in publishes.schema}
        self._defaults = defaults
        self._batch_id = batch_id
        # Only an interceptor looks at them.
        self._with_bodies = with_bodies
        self._problems: list[Column] = []
        self.order_by = [order_by] if isinstance(order_by, str) else list(order_by or [])
        for name in ("exchange", "routing_key"):
            if name not in self._types:
                raise WarrenError(f"publishes have no column {name}; they have {', '.join(self._types) or 'none'}")
        for name in self.order_by:
            if name not in self._types:
                raise WarrenError(f"publishes have no column {name} to be ordered by")

    @property
    def has_time(self) -> bool:
        return self._source("published_at") is not None

    @property
    def has_size(self) -> bool:
        return self._source("body") is not None or "body_size" in self._types

    @property
    def property_names(self) -> list[str]:
        kind = self._types.get("properties")
        return [] if not isinstance(kind, kinds.StructType) else [name for name in kind.names if name in PROPERTY_NAMES]

    @property
    def has_headers(self) -> bool:
        return "headers" in self._types

    @property
    def has_raw_headers(self) -> bool:
        return "headers_raw" in self._types

    def _source(self, name: str) -> str | None:
        """The input's column for it, if there is one."""
        if name in self._types:
            return name
        alias = _ALIASES.get(name, "")
        if alias not in self._types or (name == "published_at" and not self._is_time(alias)):
            return None
        return alias

    def _is_time(self, name: str) -> bool:
        return isinstance(self._types[name], kinds.TimestampType)

    def frame(self) -> DataFrame:
        """One row per publish: all columns there are, and `problem`, null where a row is as it should be."""
        columns = [
            sf.col("message_").alias("message"),
            self._text("exchange", None).alias("exchange"),
            self._text("routing_key", None).alias("routing_key"),
            self._text("vhost", self._defaults.vhost).alias("vhost"),
            self._text("user", self._defaults.user).alias("user"),
            self._text("publisher", "").alias("publisher"),
            self._sequence().alias("sequence"),
            self._flag("mandatory").alias("mandatory"),
            self._size().alias("body_size"),
            self._time().alias("at"),
        ]
        if self.property_names:
            columns.append(self._properties().alias("properties"))
        if self.has_headers:
            columns.append(self._headers().alias("headers"))
        if self.has_raw_headers:
            columns.append(self._typed("headers_raw", "binary").alias("headers_raw"))
        if self._with_bodies:
            columns.append(self._body().alias("body"))
        columns += [sf.col(name).alias(f"{_ORDER}{at}") for at, name in enumerate(self.order_by)]
        columns += [self._micros().alias("micros")]
        problem = sf.coalesce(*self._problems) if self._problems else sf.lit(None)
        return self._frame.select(*columns, problem.cast("string").alias("problem"))

    def order_columns(self) -> list[str]:
        if self.order_by:
            return [f"{_ORDER}{at}" for at in range(len(self.order_by))] + ["message"]
        return ["micros", "publisher", "sequence", "message"]

    # -- one column each ---------------------------------------------------------------------------------------------

    def _complain(self, when: Column, what: str) -> None:
        self._problems.append(sf.when(when, sf.lit(what)))

    def _typed(self, name: str, kind: str) -> Column:
        """As this type; a value that cannot be is a mistake of its row."""
        if self._types[name].simpleString() == kind:
            return sf.col(name)
        if isinstance(self._types[name], (kinds.StructType, kinds.ArrayType, kinds.MapType)):
            raise WarrenError(f"publishes: column {name} is {self._types[name].simpleString()}, must be {kind}")
        cast = sf.col(name).try_cast(kind)
        self._complain(sf.col(name).isNotNull() & cast.isNull(), f"{name} is no {kind}")
        return cast

    def _text(self, name: str, default: str | None) -> Column:
        if name not in self._types:
            return sf.lit(default)
        value = self._typed(name, "string")
        if default is None:
            self._complain(value.isNull(), f"{name} is null")
        else:
            value = sf.coalesce(value, sf.lit(default))
        self._complain(sf.octet_length(value) > _SHORT_MAX, f"{name} is longer than {_SHORT_MAX} bytes")
        return value

    def _sequence(self) -> Column:
        name = self._source("sequence")
        # 45 bits for the rows of a batch: 33 for those of a partition, as Spark numbers them.
        own = sf.col("message_") + sf.lit(self._batch_id << 45)
        return own if name is None else sf.coalesce(self._typed(name, "bigint"), own)

    def _flag(self, name: str) -> Column:
        if name not in self._types:
            return sf.lit(False)
        return sf.coalesce(self._typed(name, "boolean"), sf.lit(False))

    def _size(self) -> Column:
        sizes: list[Column] = []
        name = self._source("body")
        if name is not None:
            sizes.append(sf.octet_length(sf.col(name)))
        if "body_size" in self._types:
            size = self._typed("body_size", "bigint")
            self._complain(size < 0, "body_size is below 0")
            sizes.append(size)
        return sf.coalesce(*sizes, sf.lit(0)).cast("bigint")

    def _body(self) -> Column:
        name = self._source("body")
        return sf.lit(None).cast("binary") if name is None else sf.col(name).cast("binary")

    def _time(self) -> Column:
        """In milliseconds since 1970."""
        return sf.floor(self._micros(complain=True) / 1000).cast("bigint")

    def _micros(self, complain: bool = False) -> Column:
        name = self._source("published_at")
        if name is None:
            return sf.lit(0).cast("bigint")
        if isinstance(self._types[name], (kinds.LongType, kinds.IntegerType)):
            micros = sf.col(name).cast("bigint") * 1000
        else:
            time = sf.col(name) if self._is_time(name) else sf.col(name).try_cast("timestamp")
            micros = sf.unix_micros(time)
        if complain:
            self._complain(micros.isNull(), f"{name} is null or no timestamp")
            self._complain(micros < 0, f"{name} is before 1970")
        return micros

    def _properties(self) -> Column:
        kind = self._types["properties"]
        assert isinstance(kind, kinds.StructType)
        unknown = [name for name in kind.names if name not in (*PROPERTY_NAMES, "headers")]
        if unknown:
            raise WarrenError(f"publishes: properties.{unknown[0]}: no such property; there are {PROPERTY_NAMES}")
        fields = [self._property(name, kind[name].dataType).alias(name) for name in self.property_names]
        return sf.when(sf.col("properties").isNotNull(), sf.struct(*fields))

    def _property(self, name: str, kind: kinds.DataType) -> Column:
        value = sf.col("properties")[name]
        if name in NUMBERS:
            number = value.try_cast("int")
            self._complain(value.isNotNull() & number.isNull(), f"properties.{name} is no number")
            self._complain((number < 0) | (number > 255), f"properties.{name} is not from 0 to 255")
            return number
        if name in TIMES:
            seconds = sf.unix_seconds(value) if isinstance(kind, kinds.TimestampType) else value.try_cast("bigint")
            self._complain(value.isNotNull() & (seconds.isNull() | (seconds < 0)), f"properties.{name} is no time")
            return seconds
        text = value.cast("string")
        self._complain(sf.octet_length(text) > _SHORT_MAX, f"properties.{name} is longer than {_SHORT_MAX} bytes")
        return text

    def _headers(self) -> Column:
        kind = self._types["headers"]
        if not isinstance(kind, kinds.MapType):
            raise WarrenError(f"publishes: column headers is {kind.simpleString()}, must be map<string,string>")
        headers = sf.col("headers").cast("map<string,string>")
        too_long = sf.exists(sf.map_keys(headers), lambda key: sf.octet_length(key) > 128)
        self._complain(headers.isNotNull() & too_long, "headers: a name is longer than 128 bytes")
        return headers


def question(publishes: PublishTable, topology: Topology) -> Column:
    """What checks and routing may ask about, as one struct: columns that cannot matter stay out of Python."""
    fields = [sf.col(name) for name in ("problem", "vhost", "user", "exchange", "routing_key", "mandatory")]
    if topology.intercepts:
        fields += [sf.col("body"), sf.col("body_size"), *([] if topology.changes else [sf.col("at")])]
    elif publishes.has_size:
        too_big = sf.col("body_size") > topology.max_message_size
        fields.append(sf.when(too_big, sf.col("body_size")).alias("oversize"))
    if topology.changes:
        fields += [sf.col("at"), sf.col("starts_at")]
    if topology.draws:
        fields += [sf.col("publisher"), sf.col("sequence")]
    asked = [*ROUTING_NAMES, *(HASHED_NAMES if topology.looks_beyond_keys else ())]
    names = [name for name in publishes.property_names if topology.intercepts or name in asked]
    if names:
        fields.append(sf.struct(*[sf.col("properties")[name].alias(name) for name in names]).alias("properties"))
    if publishes.has_headers:
        headers = sf.col("headers")
        if not topology.looks_beyond_keys and not topology.intercepts:
            has_keys = sf.map_contains_key(headers, "CC") | sf.map_contains_key(headers, "BCC")
            headers = sf.when(has_keys, headers)
        fields.append(headers.alias("headers"))
    if publishes.has_raw_headers:
        fields.append(sf.col("headers_raw"))
    return sf.struct(*fields)
