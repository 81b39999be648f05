"""What the log has of one queue (or of one priority level), until that queue asks for it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from warren.broker.message import NEVER
from warren.store.lane import Cursor, Lane, by_next_sequence
from warren.store.segment import ROW_SIZE, LaneRun, Row, Segment

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
            for at in range(0, len(rows), ROW_SIZE):
                if not segment.is_settled(Row(rows, at).ordinal):
                    waiting += 1
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
        rows = store.read_rows(segment, run, 0, run.count)
        first = True
        for at in range(0, len(rows), ROW_SIZE):
            row = Row(rows, at)
            lane.last_sequence = max(lane.last_sequence, row.sequence)
            if segment.is_settled(row.ordinal):
                continue
            lane.paged += 1
            lane.length += 1
            lane.body_bytes += row.body_size
            if row.sequence in self.returned:
                lane.returned[row.sequence] = self.returned[row.sequence]
            if row.expires_at != NEVER:
                lane.has_expiring = True
            if first:
                first = False
                lane.cursors.append(Cursor(segment, run, at // ROW_SIZE, row.sequence))
