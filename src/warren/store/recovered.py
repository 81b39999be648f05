"""What the log has of one queue (or of one priority level), until that queue asks for it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.message import NEVER
from warren.store.lane import Cursor, Lane, by_next_sequence
from warren.store.segment import ROW_SIZE, LaneRun, Segment, body_size_in, expiry_in, ordinal_in, sequence_in

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.store.log import LogStore

_LANE_FACTS: Final = struct.Struct(">IBBQ")


def watermarks_in(segment: Segment) -> dict[int, int]:
    """Of lanes by their number: how far this segment says that they were delivered."""
    marks: dict[int, int] = {}
    for number, payload in segment.lanes.items():
        marks[number] = RecoveredLane(payload).watermark
    for number, mark in segment.watermarks.items():
        marks[number] = max(mark, marks.get(number, 0))
    return marks


class RecoveredLane:
    def __init__(self, payload: bytes) -> None:
        self.number, self.level, durable, self.watermark = _LANE_FACTS.unpack(payload[: _LANE_FACTS.size])
        self.durable = durable != 0
        names: list[str] = []
        at = _LANE_FACTS.size
        while at < len(payload):
            size = payload[at]
            names.append(payload[at + 1 : at + 1 + size].decode("utf-8", "surrogateescape"))
            at += 1 + size
        self.vhost, self.name, self.incarnation = names
        self.runs: list[tuple[Segment, LaneRun]] = []
        # How often which sequence came back; also of some that are settled.
        self.returned: dict[int, int] = {}

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.vhost, self.name, self.incarnation, self.level)

    def count(self, store: LogStore) -> int:
        """How many messages wait in it."""
        waiting = 0
        for segment, run in self.runs:
            rows = store.read_rows(segment, run, 0, run.count)
            at: i64 = 0
            while at < len(rows):
                if not segment.is_settled(ordinal_in(rows, at)):
                    waiting += 1
                at += ROW_SIZE
        return waiting

    def lane_for(self, store: LogStore, queue: Queue) -> Lane:
        lane = Lane(store, self.number, queue, self.level)
        lane.has_entries = True
        lane.watermark = self.watermark
        for segment, run in self.runs:
            self._join(store, lane, segment, run)
        lane.cursors.sort(key=by_next_sequence)
        # What is published from now on was not delivered yet, however far ahead deliveries were noted.
        lane.recovered_watermark = min(self.watermark, lane.last_sequence)
        return lane

    def _join(self, store: LogStore, lane: Lane, segment: Segment, run: LaneRun) -> None:
        """A start waits for this, and there are millions of rows: none is made an object of."""
        rows = store.read_rows(segment, run, 0, run.count)
        size: i64 = len(rows)
        # Nothing in it is settled: nobody has to ask.
        is_full = segment.live == segment.entries
        waiting: i64 = 0
        body_bytes: i64 = 0
        at: i64 = 0
        while at < size:
            if is_full or not segment.is_settled(ordinal_in(rows, at)):
                if waiting == 0:
                    lane.cursors.append(Cursor(segment, run, at // ROW_SIZE, sequence_in(rows, at)))
                waiting += 1
                body_bytes += body_size_in(rows, at)
                if expiry_in(rows, at) != NEVER:
                    lane.has_expiring = True
                if self.returned:
                    self._note_return(lane, sequence_in(rows, at))
            at += ROW_SIZE
        if size > 0:
            # Rows of a run ascend.
            lane.last_sequence = max(lane.last_sequence, sequence_in(rows, size - ROW_SIZE))
        lane.paged += waiting
        lane.length += waiting
        lane.body_bytes += body_bytes

    def _note_return(self, lane: Lane, sequence: int) -> None:
        if sequence in self.returned:
            lane.returned[sequence] = self.returned[sequence]
