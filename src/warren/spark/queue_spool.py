"""A classic queue of another broker, which cannot be read twice: what is taken goes to files first, then is acked.

The planner consumes, writes Arrow files and syncs them, and only then acknowledges. Numbers of its own, in the names of
the files, are the offsets. A file is removed when Spark has committed all of it. Messages are read twice when the
planner dies between the sync and the acknowledgement, and never lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from warren.client.connection import Client
from warren.errors import WarrenError
from warren.spark.arrow_schema import ARROW
from warren.spark.columns import record_batch
from warren.spark.consume import DataLoss
from warren.spark.inbox import Inbox
from warren.spark.options import ReadOptions
from warren.spark.whole_files import whole_file
from warren.store.disk import sync_folder

# Of a file, and so of what is unacked at a time.
FILE_ROWS: Final = 20_000
_SUFFIX: Final = ".arrow"
# Of silence, before the queue is asked whether there is more.
_PAUSE_SECONDS: Final = 0.05
_OFFSET: Final = ARROW.get_field_index("offset")


@dataclass(frozen=True)
class SpoolFile:
    path: str
    start: int
    end: int


class SpoolPartition(InputPartition):
    def __init__(self, file: SpoolFile, start: int, end: int) -> None:
        super().__init__(file)
        self.file = file
        # Of its rows, those from here to there.
        self.start = start
        self.end = end


class Spool:
    """The files of one queue. Only one planner may have them at a time."""

    def __init__(self, folder: str, queue: str) -> None:
        self._folder = Path(folder, quote(queue, safe=""))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Held until it is closed, or the process ends.
            self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise WarrenError(f"option spoolDir is wrong: cannot use {folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise WarrenError(f"another query reads into the spool {self._folder}: give this one its own") from None
        # Left behind by a planner that died while it wrote: what is in there was not acked.
        for unfinished in self._folder.glob("*.new"):
            unfinished.unlink()

    def files(self) -> list[SpoolFile]:
        found = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            start, _, end = path.stem.partition("-")
            found.append(SpoolFile(str(path), int(start), int(end)))
        return sorted(found, key=lambda file: file.start)

    def write(self, batch: pa.RecordBatch, start: int) -> None:
        """Returns when it would survive the loss of power."""
        end = start + batch.num_rows
        path = self._folder / f"{start:020d}-{end:020d}{_SUFFIX}"
        with whole_file(path, path.with_suffix(".new")) as file, pa.ipc.new_file(file, ARROW) as writer:
            writer.write_batch(batch)
        sync_folder(self._folder)

    def remove_before(self, end: int) -> None:
        for file in self.files():
            if file.end <= end:
                Path(file.path).unlink()

    def close(self) -> None:
        os.close(self._lock)


class SpoolPlanner:
    def __init__(self, client: Client, options: ReadOptions, spool: Spool) -> None:
        self._queue = options.names[0]
        self._inbox = Inbox(client, self._queue, "")
        self._spool = spool
        files = spool.files()
        self._next = files[-1].end if files else 0

    def first(self) -> int:
        """What an earlier query has spooled and not read comes first."""
        files = self._spool.files()
        return files[0].start if files else 0

    def waiting(self, start: int) -> int:
        """How many messages there are from `start` on."""
        self._next = max(self._next, start)
        return self._next - start + self._inbox.count_ready() + self._inbox.deliveries.count

    def available(self, start: int, wanted: int) -> tuple[int, int]:
        """Where a batch of up to so many messages from `start` on ends, and how many are in it."""
        self._spool.remove_before(start)
        self._next = max(self._next, start)
        end = start + wanted
        if self._next < end:
            self._take_up_to(end)
        return min(self._next, end), min(self._next, end) - start

    def checksum(self, start: int, end: int) -> str:
        """None is needed: files stay as they are until their batch is done, and all numbers are there."""
        return ""

    def partitions(self, start: int, end: int, checksum: str) -> Sequence[InputPartition]:
        found = [
            SpoolPartition(file, max(start, file.start), min(end, file.end))
            for file in self._spool.files()
            if file.end > start and file.start < end
        ]
        covered = sum(partition.end - partition.start for partition in found)
        if covered < end - start:
            raise DataLoss(
                f"of messages {start} to {end - 1} of {self._queue!r} only {covered} are in the spool: "
                "its files were removed, or option spoolDir is another one than before"
            )
        return found

    def settle(self, end: int) -> None:
        self._spool.remove_before(end)

    def _take_up_to(self, end: int) -> None:
        """Consume only meanwhile: what lies unacknowledged for long, RabbitMQ takes back with the channel."""
        prefetch = min(FILE_ROWS, end - self._next)
        tag = self._inbox.consume(prefetch, {}, False)
        while self._next < end and self._spool_some(prefetch):
            continue
        # What has been sent until the consumer is gone is taken as well: it is read by the next batch.
        self._inbox.cancel(tag)
        self._write()

    def _spool_some(self, most: int) -> bool:
        """Take what is there, up to so many, to the disk, and only then from the queue. False when nothing is."""
        inbox = self._inbox
        while inbox.deliveries.count < most:
            before = inbox.deliveries.count
            inbox.receive(most, _PAUSE_SECONDS)
            # The answer is behind all that the queue had sent before it counted.
            if inbox.deliveries.count == before and not inbox.count_ready() and inbox.deliveries.count == before:
                break
        return self._write() > 0

    def _write(self) -> int:
        collected = self._inbox.empty()
        count = int(collected.count)
        if count:
            batch = record_batch(collected, self._queue)
            numbers = pa.array(range(self._next, self._next + count), pa.int64())
            self._spool.write(batch.set_column(_OFFSET, ARROW.field(_OFFSET), numbers), self._next)
            self._next += count
            self._inbox.ack(collected.last_tag)
        return count

    def close(self) -> None:
        self._inbox.client.leave()


def read_spool(partition: SpoolPartition) -> Iterator[pa.RecordBatch]:
    file = partition.file
    try:
        with pa.memory_map(file.path) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                if batch.num_columns < len(ARROW):
                    # Spooled before messages had all of these columns.
                    missing = [pa.nulls(batch.num_rows, field.type) for field in ARROW][batch.num_columns :]
                    batch = pa.RecordBatch.from_arrays([*batch.columns, *missing], schema=ARROW)
                yield batch.slice(partition.start - file.start, partition.end - partition.start)
    except FileNotFoundError as error:
        raise DataLoss(
            f"{file.path} is not there: option spoolDir must be a folder that all machines of the cluster share"
        ) from error
