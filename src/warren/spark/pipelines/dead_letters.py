"""Writes the dead letters of one task: published and confirmed, or a Parquet file; the message, and why it is one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext

from warren.amqp.constants import DEDUPLICATION_HEADER
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.spark.encode import Encoder
from warren.spark.folders import write_parquet
from warren.spark.options import MISFIT_PREFIX, WriteOptions
from warren.spark.pipelines.model import SinkKind
from warren.spark.publish import ConfirmedPublisher

if TYPE_CHECKING:
    from warren.spark.pipelines.misfits import Aside

_IN_FLIGHT: Final = 1000
_HEADERS: Final = pa.map_(pa.string(), pa.string())


class DeadLetterWriter:
    """Connects with the first misfit: most tasks never meet one."""

    def __init__(self, aside: Aside) -> None:
        self._aside = aside
        self._client: Client | None = None
        self._publisher: ConfirmedPublisher | None = None
        self._encoder: Encoder | None = None
        self._kept: list[pa.RecordBatch] = []
        self.watermark = aside.lateness.watermark(_batch()) if aside.lateness is not None else 0

    def add_late(self, envelopes: pa.StructArray) -> None:
        assert self._aside.lateness is not None
        query = self._aside.lateness.query
        closed_at = datetime.fromtimestamp(self.watermark / 1_000_000, UTC)
        reason = f'comes too late for "{query}": its window was closed, the watermark is {closed_at:%Y-%m-%dT%H:%M:%SZ}'
        if len(envelopes):
            self.add(envelopes, [reason] * len(envelopes), f"late/{self._aside.pipeline}/{query}")

    def add(self, envelopes: pa.StructArray, reasons: list[str], identity: str = "") -> None:
        letters = self._letters(envelopes, reasons, identity or f"misfit/{self._aside.pipeline}")
        if self._aside.dead_letters.kind is SinkKind.PARQUET:
            self._kept.append(letters)
            return
        if self._publisher is None:
            self._connect()
        assert self._publisher is not None
        assert self._encoder is not None
        self._encoder.publish(letters, self._publisher)

    def finish(self) -> None:
        if self._publisher is not None and self._client is not None:
            self._publisher.finish()
            self._client.leave()
        if self._kept:
            self._write_file()

    def _connect(self) -> None:
        dead = self._aside.dead_letters
        target = parse_uri(self._aside.broker)
        exchange, key = (dead.place, dead.routing_key) if dead.kind is SinkKind.EXCHANGE else ("", dead.place)
        self._client = Client(target, f"pipeline {self._aside.pipeline}")
        # Whatever the message was: it would be gone when the broker restarts, and nobody has seen it yet.
        options = WriteOptions(target, exchange, key, persistent=True)
        self._encoder = Encoder(options, self._client.frame_max, f"misfit/{self._aside.pipeline}")
        self._publisher = ConfirmedPublisher(self._client, _IN_FLIGHT, lambda method, content: None)

    def _letters(self, envelopes: pa.StructArray, reasons: list[str], identity: str) -> pa.RecordBatch:
        names = [field.name for field in envelopes.type]
        columns: dict[str, Any] = dict(zip(names, envelopes.flatten(), strict=True))
        headers = [
            self._headers(envelope, reason, identity)
            for envelope, reason in zip(envelopes.to_pylist(), reasons, strict=True)
        ]
        columns["headers"] = pa.array(headers, _HEADERS)
        if self._aside.dead_letters.kind is SinkKind.PARQUET:
            columns["reason"] = pa.array(reasons, pa.string())
        return pa.RecordBatch.from_pydict(columns)

    def _headers(self, envelope: dict[str, Any], reason: str, identity: str) -> list[tuple[str, str | None]]:
        """Those of the message, with where it was; the same message gets the same id in every attempt."""
        aside = self._aside
        kept: list[tuple[str, str | None]] = [
            (name, value)
            for name, value in envelope["headers"] or []
            if not name.startswith(MISFIT_PREFIX) and name != DEDUPLICATION_HEADER
        ]
        return [
            *kept,
            (f"{MISFIT_PREFIX}reason", reason),
            (f"{MISFIT_PREFIX}pipeline", aside.pipeline),
            (f"{MISFIT_PREFIX}source", aside.source),
            (f"{MISFIT_PREFIX}queue", envelope["queue"]),
            (f"{MISFIT_PREFIX}offset", str(envelope["offset"])),
            (f"{MISFIT_PREFIX}exchange", envelope["exchange"]),
            (f"{MISFIT_PREFIX}routing-key", envelope["routing_key"]),
            (DEDUPLICATION_HEADER, f"{identity}/{aside.source}/{envelope['queue']}/{envelope['offset']}"),
        ]

    def _write_file(self) -> None:
        context = TaskContext.get()
        assert context is not None
        query = str(context.getLocalProperty("sql.streaming.queryId"))[:8]
        assert self._aside.share is not None
        self._aside.share.check()
        name = f"{query}-{_batch():09d}.{context.partitionId():05d}.parquet"
        write_parquet(self._aside.share.place, name, pa.Table.from_batches(self._kept))


def _batch() -> int:
    context = TaskContext.get()
    return int((context and context.getLocalProperty("streaming.sql.batchId")) or 0)
