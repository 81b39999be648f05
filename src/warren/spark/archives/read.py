"""Messages of a stream from its archive as far as that goes, and the rest from the broker: each offset once.

Retention may move on while a task reads: what the broker had when the batch was planned can be in the archive now.
So a task keeps the offset that comes next, and asks whoever has it.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warren.client.address import BrokerAddress
from warren.spark.archives.files import ArchiveFile, covering, files_in
from warren.spark.archives.write import SCHEMA, STORED_AT
from warren.spark.arrow_schema import ARROW
from warren.spark.consume import Range, data_loss
from warren.spark.followers import ReadRange

ReadFromBroker = Callable[[Range], Generator[pa.RecordBatch, None, None]]


def read_archived(
    read: ReadRange, target: BrokerAddress, span: Range, prefetch: int, timeout: float, fails: bool
) -> Iterator[pa.RecordBatch]:
    """What is not in the archive is `read` from the broker. With `fails`, messages that neither has raise; else they
    are passed over."""

    def from_broker(rest: Range) -> Generator[pa.RecordBatch, None, None]:
        # What the broker has lost may be in the archive, so that alone is no reason to fail.
        yield from read(target, rest, prefetch, timeout, False)

    return history_and_tail(span, from_broker, fails)


def history_and_tail(span: Range, from_broker: ReadFromBroker, fails: bool) -> Iterator[pa.RecordBatch]:
    place = span.start
    while place < span.end:
        file = covering(files_in(span.archive), place)
        rest = dataclasses.replace(span, start=place)
        # Where it goes on behind what is missing; the end of whoever is asked when nothing follows there.
        following = span.end if file is None else min(span.end, file.last + 1)
        with closing(from_broker(rest) if file is None else read_file(file, place, span.end)) as batches:
            for batch in batches:
                whole = _without_gap(batch, place)
                place += whole.num_rows
                if whole.num_rows:
                    yield whole
                if whole.num_rows < batch.num_rows:
                    following = int(batch.column("offset")[whole.num_rows].as_py())
                    break
        if place < following:
            place = _behind_gap(span, place, following, file, fails)


def _behind_gap(span: Range, place: int, following: int, asked: ArchiveFile | None, fails: bool) -> int:
    """Where to go on when the one that should have the message at `place` has not."""
    files = files_in(span.archive)
    if asked is None and covering(files, place) is not None:
        # It was archived after we looked.
        return place
    following = min([following, *(file.first for file in files if file.first > place)])
    if fails:
        raise data_loss(span.name, place, following)
    return following


def _without_gap(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    """Its beginning, as long as it goes on from `place` one by one."""
    offsets = batch.column("offset").to_numpy()
    fits = offsets == np.arange(place, place + len(offsets))
    return batch if fits.all() else batch.slice(0, int(fits.argmin()))


def read_file(file: ArchiveFile, start: int, end: int) -> Generator[pa.RecordBatch, None, None]:
    """Its messages from `start` up to and without `end`, as the source's columns."""
    with pq.ParquetFile(file.path) as parquet:
        groups = _groups(parquet, start, end)
        for batch in parquet.iter_batches(row_groups=groups, columns=SCHEMA.names) if groups else ():
            offsets = batch.column("offset")
            wanted = pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))
            kept = batch.filter(wanted).rename_columns(ARROW.names).cast(ARROW)
            if kept.num_rows:
                yield kept


def offset_since(files: list[ArchiveFile], milliseconds: int) -> int | None:
    """Of the first archived message that was stored then or later."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    at = bisect_left(files, moment, key=_stored_last)
    if at == len(files):
        return None
    with pq.ParquetFile(files[at].path) as parquet:
        stored = parquet.read(columns=["offset", STORED_AT])
    late = stored.filter(pc.greater_equal(stored.column(STORED_AT), pa.scalar(moment, stored.schema.field(1).type)))
    return int(late.column("offset")[0].as_py())


def _stored_last(file: ArchiveFile) -> datetime:
    with pq.ParquetFile(file.path) as parquet:
        group = parquet.metadata.row_group(parquet.num_row_groups - 1)
        found = _leaf(group, STORED_AT).statistics.max
    assert isinstance(found, datetime)
    return found


def _groups(parquet: pq.ParquetFile, start: int, end: int) -> list[int]:
    """The row groups that may have offsets from `start` up to and without `end`."""
    found = []
    for number in range(parquet.num_row_groups):
        statistics = _leaf(parquet.metadata.row_group(number), "offset").statistics
        if statistics.max >= start and statistics.min < end:
            found.append(number)
    return found


def _leaf(group: pq.RowGroupMetaData, name: str) -> pq.ColumnChunkMetaData:
    """By name: a struct counts as many columns as it has fields."""
    columns = [group.column(index) for index in range(group.num_columns)]
    return next(column for column in columns if column.path_in_schema == name)
