"""`warren redrive`: dead letters back to the queue that they first died in, which x-death names, or to the one that a
pipeline put them aside from.

A letter is published, confirmed, and only then acknowledged: killed anywhere, none is lost. Those that the filter
leaves out stay where they are. The filter is SQL and runs in Spark; without one there is no need of Spark.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from warren.amqp.constants import DEDUPLICATION_HEADER
from warren.amqp.deliveries import Deliveries
from warren.amqp.methods import BasicAck, QueueDeclare, QueueDeclareOk
from warren.amqp.tables import decode_table
from warren.broker.publish.x_death import origin_queue
from warren.client.address import DEFAULT_URI, parse_uri
from warren.client.connection import Client
from warren.client.session import Refused, frame_of
from warren.errors import WarrenError
from warren.spark.columns import record_batch
from warren.spark.consume import READ_BYTES, consume, open_client, take_deliveries
from warren.spark.encode import Encoder
from warren.spark.jobs.job import Progress, Summary, Watcher, ignore
from warren.spark.options import MISFIT_PREFIX, WriteOptions
from warren.spark.publish import ConfirmedPublisher
from warren.spark.spark_errors import told_in_one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUDIT: Final = "x-redrive"
COUNT: Final = "x-redrive-count"
CHUNK: Final = 2000
_TIMEOUT: Final = 60.0
_HEADERS: Final = pa.map_(pa.string(), pa.string())
_NO_DEATH: Final = "no x-death header"
_GONE: Final = "its queue is gone"
_NOT_CHOSEN: Final = "not chosen by the filter"


@dataclass
class Redrive:
    queue: str
    broker: str = DEFAULT_URI
    where: str = ""
    # In place of the queue that x-death names.
    to: str = ""
    limit: int = 0
    is_dry: bool = False
    targets: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    _known: dict[str, bool] = field(default_factory=dict)

    def run(self, spark: SparkSession | None = None, master: str | None = None, watch: Watcher = ignore) -> Summary:
        started = time.monotonic()
        own = None
        if self.where and spark is None:
            from warren.spark.spark_session import session

            own = spark = session("warren redrive", master, **{"spark.ui.enabled": "false"})
        try:
            self._work(spark, watch)
        finally:
            if own is not None:
                own.stop()
        moved = self.targets.total()
        verb = "would go" if self.is_dry else "went"
        places = ", ".join(f"{name} ({count:,})" for name, count in self.targets.most_common())
        text = f"{moved:,} dead letters of {self.queue} {verb} back" + (f": {places}" if places else "")
        if self.left:
            text += f"; {self.left.total():,} stay: " + ", ".join(
                f"{why} ({n:,})" for why, n in self.left.most_common()
            )
        details = {"dry_run": self.is_dry, "targets": dict(self.targets), "left": dict(self.left)}
        return Summary("redrive", moved, round(time.monotonic() - started, 3), text, details)

    def _work(self, spark: SparkSession | None, watch: Watcher) -> None:
        target = parse_uri(self.broker)
        reader = open_client(target, _TIMEOUT)
        try:
            waiting = self._waiting(reader)
            total = min(waiting, self.limit) if self.limit else waiting
            letters = _Letters(reader, self.queue)
            seen = 0
            # What came after the start may be one of those just sent, dead again: it waits for the next time.
            while seen < waiting and (not self.limit or self.targets.total() < self.limit):
                batch = letters.take(min(CHUNK, waiting - seen))
                seen += batch.num_rows
                self._redrive(target, reader, batch, letters.first_tag(batch), spark)
                watch(Progress(min(seen, total), total))
        finally:
            # What was not acknowledged goes back to its place.
            reader.leave()

    def _waiting(self, reader: Client) -> int:
        try:
            return reader.call(QueueDeclare(queue=self.queue, passive=True), QueueDeclareOk).message_count
        except Refused as error:
            raise WarrenError(f"cannot read {self.queue}: {error.text}") from error

    def _redrive(
        self, target: Any, reader: Client, batch: pa.RecordBatch, first_tag: int, spark: SparkSession | None
    ) -> None:
        chosen = self._chosen(batch, spark)
        queues = self._queues(batch)
        rows: list[int] = []
        for row in chosen:
            if self.limit and self.targets.total() + len(rows) >= self.limit:
                break
            if queues[row] is None:
                self.left[_NO_DEATH] += 1
            elif not self._exists(target, str(queues[row])):
                self.left[f"{_GONE}: {queues[row]}"] += 1
            else:
                rows.append(row)
        if not self.is_dry and rows:
            self._send(target, batch, rows, queues)
            reader.send([frame_of(BasicAck(first_tag + row, False)) for row in rows])
        self.targets.update(str(queues[row]) for row in rows)

    def _chosen(self, batch: pa.RecordBatch, spark: SparkSession | None) -> list[int]:
        rows = range(batch.num_rows)
        if not self.where:
            return list(rows)
        assert spark is not None
        numbered = pa.Table.from_batches([batch]).append_column("_row", pa.array(rows, pa.int64()))
        with told_in_one_line("--where"):
            found = {row[0] for row in spark.createDataFrame(numbered).where(self.where).select("_row").collect()}
        if len(found) < batch.num_rows:
            self.left[_NOT_CHOSEN] += batch.num_rows - len(found)
        return [row for row in rows if row in found]

    def _queues(self, batch: pa.RecordBatch) -> list[str | None]:
        return [self.to or _origin(headers) for headers in batch.column("headers_raw").to_pylist()]

    def _exists(self, target: Any, queue: str) -> bool:
        if queue not in self._known:
            with open_client(target, _TIMEOUT) as client:
                try:
                    client.call(QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
                    self._known[queue] = True
                except Refused:
                    self._known[queue] = False
        return self._known[queue]

    def _send(self, target: Any, batch: pa.RecordBatch, rows: list[int], queues: list[str | None]) -> None:
        letters = batch.take(pa.array(rows, pa.int64()))
        headers = pa.array([self._audited(each) for each in letters.to_pylist()], _HEADERS)
        letters = letters.set_column(letters.schema.get_field_index("headers"), "headers", headers)
        keys = pa.array([queues[row] for row in rows], pa.string())
        letters = letters.set_column(letters.schema.get_field_index("routing_key"), "routing_key", keys)
        client = open_client(target, _TIMEOUT)
        try:
            publisher = ConfirmedPublisher(client, CHUNK, _refuse_return)
            options = WriteOptions(target, "", None, mandatory=True, persistent=True, deduplication_header="")
            Encoder(options, client.frame_max, "redrive").publish(letters, publisher)
            publisher.finish()
        except BaseException:
            client.abandon()
            raise
        client.leave()

    def _audited(self, letter: dict[str, Any]) -> list[tuple[str, str | None]]:
        """When, from where, and how often. The id is that of this death: the next one has another."""
        headers = letter["headers"] or []
        kept = [
            (name, value)
            for name, value in headers
            # Of a misfit no more: when it dies once more, it is by another death.
            if name not in (AUDIT, COUNT, DEDUPLICATION_HEADER) and not name.startswith(MISFIT_PREFIX)
        ]
        count = int(dict(headers).get(COUNT) or 0) + 1
        audit = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "from": self.queue})
        death = hashlib.sha256((letter["headers_raw"] or b"") + b"|" + (letter["body"] or b"")).hexdigest()[:32]
        return [*kept, (AUDIT, audit), (COUNT, str(count)), (DEDUPLICATION_HEADER, f"redrive/{death}")]


def _origin(headers: bytes | None) -> str | None:
    """`headers` is the table as it is on the wire, behind its length."""
    if headers is None:
        return None
    table = decode_table(headers, 4, len(headers))
    misfit = table.get(f"{MISFIT_PREFIX}queue")
    return str(misfit.value) if misfit is not None else origin_queue(table)


def _refuse_return(method: Any, content: bytes) -> None:
    raise WarrenError(f"the queue {method.routing_key} is gone; its letters stay where they are")


class _Letters:
    """Consumes without acknowledging, as many as are asked for at a time."""

    def __init__(self, client: Client, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._last_tag = 0
        consume(client, queue, 0, {})

    def take(self, count: int) -> pa.RecordBatch:
        deliveries = Deliveries("")
        while deliveries.count < count:
            take_deliveries(self._client, deliveries, count - deliveries.count, self._queue)
            if deliveries.count < count:
                self._client.receive(READ_BYTES)
        self._last_tag = deliveries.last_tag
        return record_batch(deliveries, self._queue)

    def first_tag(self, batch: pa.RecordBatch) -> int:
        return self._last_tag - int(batch.num_rows) + 1
