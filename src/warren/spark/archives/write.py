"""One file of a stream as one Parquet file: the columns of the source, and when the broker stored each message.

Runs in a thread of the broker. Half of the time it waits, so that whoever publishes and consumes comes first: Python
runs one thread at a time, and compiled code does not let go by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from warren.errors import WarrenError
from warren.spark.archives.files import UNFINISHED, file_name, make_durable
from warren.spark.arrow_schema import ARROW
from warren.spark.columns import record_batch
from warren.spark.whole_files import whole_file
from warren.store.stream_archive import ArchiveJob
from warren.store.stream_rows import StreamRows
from warren.store.whole_files import read_start

STORED_AT: Final = "stored_at"
# The last column by the name that it had before the source had it.
SCHEMA: Final = pa.schema([*list(ARROW)[:-1], (STORED_AT, pa.timestamp("ms", tz="UTC"))])
# Of one step, between which others get their turn: a millisecond or so.
STEP_ROWS: Final = 512
STEP_BYTES: Final = 1 << 20
# Of one row group: whoever looks for an offset or a time reads no more than one in vain.
GROUP_ROWS: Final = 16_384
GROUP_BYTES: Final = 8 << 20


def write_segment(job: ArchiveJob, is_wanted: Callable[[], bool]) -> None:
    """Returns when the file is durable under its name. One that is there was made so before a crash."""
    root = Path(job.root)
    folder = root / job.folder
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name(job.first_offset, job.end_offset - 1)
    if not (folder / name).exists():
        with (
            whole_file(folder / name, folder / (UNFINISHED + name)) as file,
            pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer,
        ):
            for batch in _batches(job, is_wanted):
                writer.write_batch(batch, row_group_size=GROUP_ROWS)
    make_durable(root, folder)


def _batches(job: ArchiveJob, is_wanted: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    data = read_start(job.log.logs.disk, job.source, job.size)
    at, collected = job.header_size, StreamRows()
    while at < len(data):
        begun = time.monotonic()
        at = collected.take_records(data, at, job.seed, STEP_ROWS, STEP_BYTES)
        if not is_wanted():
            raise WarrenError("given up: the broker stops, or the stream was deleted")
        if collected.count >= GROUP_ROWS or collected.size >= GROUP_BYTES:
            yield record_batch(collected, job.stream).rename_columns(SCHEMA.names).cast(SCHEMA)
            collected = StreamRows()
        time.sleep(time.monotonic() - begun)
    if collected.count:
        yield record_batch(collected, job.stream).rename_columns(SCHEMA.names).cast(SCHEMA)
