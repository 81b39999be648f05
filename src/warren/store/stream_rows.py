"""Rows of a data frame from records of a stream, without the deliveries that a consumer would have got."""

from __future__ import annotations

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.amqp.constants import FRAME_OVERHEAD, FRAME_PREFIX, STREAM_OFFSET
from warren.amqp.deliveries import Deliveries
from warren.amqp.stream_run import RUN_HEAD_SIZE, RUN_SUFFIX, check_version, position_of, seed_of
from warren.store.format import RECORD_HEADER_SIZE, record_at
from warren.store.stream_format import FACTS_SIZE, STREAM_MESSAGE, claimed_size, offset_of, timestamp_of
from warren.store.walk import RecordWalk


class StreamRows(Deliveries):
    """Takes runs (amqp/stream_run.py) as well as deliveries, and whole files."""

    def __init__(self) -> None:
        super().__init__(STREAM_OFFSET)
        # It came in runs at all.
        self.has_runs = False
        # A record of a run, behind `last_place`, was not what was written; nothing was taken from there on.
        self.is_damaged = False

    def take_records(self, data: bytes, at: i64, seed: i64, most: i64, most_bytes: i64) -> i64:
        """Of a file: rows from `at` on, until there are so many more of them; damage is passed over."""
        enough = self.count + most
        self._begin(at)
        walk = RecordWalk(data, at, seed, at + most_bytes)
        while self.count < enough and walk.next():
            self._take_record(data, walk.at, walk.end)
        self._keep(data, self._kept, walk.end)
        return walk.end

    def _add(self, data: bytes, at: i64, header_at: i64, body_at: i64, after: i64) -> None:
        if not data.startswith(RUN_SUFFIX, header_at - len(RUN_SUFFIX)):
            super()._add(data, at, header_at, body_at, after)
            return
        self.last_tag = read_i64_be(data, header_at - len(RUN_SUFFIX) - 9)
        self.has_runs = True
        if not self.is_damaged:
            self._add_run(data, body_at + FRAME_PREFIX, after - 1)

    def _add_run(self, data: bytes, at: i64, total: i64) -> None:
        check_version(data, at)
        seed = seed_of(data, at)
        start = at + RUN_HEAD_SIZE
        base = position_of(data, at) - start
        at = start
        while at < total:
            end = record_at(data, at, seed, base + at)
            if end < 0 or end > total:
                # All but the last are whole, and it is no loss when that one is not.
                is_head_whole = total - at >= RECORD_HEADER_SIZE
                self.is_damaged = at == start or (is_head_whole and at + claimed_size(data, at) <= total)
                return
            self._take_record(data, at, end)
            at = end

    def _take_record(self, data: bytes, at: i64, end: i64) -> None:
        if data[at + 2] != STREAM_MESSAGE:
            return
        offset = offset_of(data, at)
        if self._is_left_out(offset):
            return
        facts_at: i64 = at + RECORD_HEADER_SIZE
        filter_size = max(i64(read_i32_be(data, facts_at + 20)), 0)
        suffix_at = facts_at + FACTS_SIZE + filter_size
        header_at = suffix_at + i64(read_i16_be(data, facts_at + 24))
        body_at = header_at + FRAME_OVERHEAD + i64(read_i32_be(data, header_at + 3))
        self.redelivered.append(0)
        self._time = timestamp_of(data, at)
        self._add_row(data, offset, suffix_at, header_at, body_at, end)
