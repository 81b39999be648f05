"""What has happened since the log was last written, as records: the bytes of the next write.

A message is one record, however many queues it went to one after another, so the record of the last one stays open.
Settled entries are gathered too: one record for all of a batch.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.broker.message import Message
from warren.broker.queue.entry import Entry
from warren.store.format import (
    DELIVERED,
    LANE_OPENED,
    PLACES_MAX,
    RETURNED,
    SEEN,
    SETTLED,
    SYNCED,
    TOGETHER,
    write_message,
    write_place,
    write_record,
)
from warren.store.lane import Lane
from warren.store.returned import Returned, encode_returned, note
from warren.store.seen import write_note
from warren.store.segment import LaneRun, Segment

# Room that stays for the next write: to grow anew, a buffer is copied at every step.
_KEPT_BYTES: Final[i64] = 1024 * 1024


class PendingRecords:
    def __init__(self, segment: Segment) -> None:
        # The segment that it will be written to.
        self.segment = segment
        # The record being made: one message and its places.
        self._message: Message | None = None
        self._places = BytesWriter()
        self._place_lanes: list[Lane] = []
        self._place_entries: list[Entry] = []
        # While a piece of a segment is moved: the runs of each lane that it joins, and whose entries it moved.
        self._moved_runs: dict[Lane, list[LaneRun]] | None = None
        self._moved_lanes: dict[Lane, bool] = {}
        self._out = BytesWriter()
        self._settled = BytesWriter()
        self._watermarks: dict[Lane, bool] = {}
        self.returned: Returned = {}
        # A TOGETHER record is in the file, or will be, and its SEEN is not.
        self.is_together = False
        self._seen = BytesWriter()
        # Said again at the end of the batch: a segment that is damaged in one place still knows whose its messages are.
        self._announced: list[bytes] = []

    def place(self, lane: Lane, entry: Entry, moved_from: i64) -> i64:
        """A message takes a place in a lane. Gives how many changes of the log that makes."""
        if entry.message is not self._message or len(self._place_lanes) >= PLACES_MAX:
            self.finish_record()
            self._message = entry.message
        segment = self.segment
        changes: i64 = 1
        if lane.announced_in != segment.number:
            self._announce(lane)
            changes = 2
        entry.address = segment.number << 32 | segment.new_entry()
        write_place(self._places, lane.number, entry.sequence, entry.expires_at, moved_from)
        self._place_lanes.append(lane)
        self._place_entries.append(entry)
        return changes

    def begin_moving(self, runs: dict[Lane, list[LaneRun]]) -> None:
        """What comes until end_moving joins these runs of the same segment, and not those of what is published."""
        self.finish_record()
        self._moved_runs = runs

    def move(self, lane: Lane, entry: Entry, moved_from: i64) -> i64:
        """Compaction: the same place in the lane at another address."""
        self._moved_lanes[lane] = True
        changes = self.place(lane, entry, moved_from)
        # The move settles the old place, for whoever reads this segment's index instead of its records.
        write_i64_be(self.segment.settled_here, moved_from)
        return changes

    def end_moving(self) -> list[Lane]:
        """Whose entries were moved."""
        self.finish_record()
        self._moved_runs = None
        lanes = list(self._moved_lanes)
        self._moved_lanes.clear()
        return lanes

    def _run_of(self, lane: Lane, sequence: i64) -> LaneRun:
        if self._moved_runs is None:
            return self.segment.open_run(lane.number)
        runs = self._moved_runs.setdefault(lane, [])
        # Rows of a run ascend: where the sequence falls back, another begins.
        if not runs or sequence < runs[-1].last_sequence:
            run = LaneRun(lane.number)
            self.segment.runs.append(run)
            runs.append(run)
        return runs[-1]

    def _announce(self, lane: Lane) -> None:
        """Every segment says itself whose lanes are in it."""
        lane.announced_in = self.segment.number
        lane.has_entries = True
        payload = lane.payload()
        self.segment.lanes[lane.number] = payload
        self.add_record(LANE_OPENED, payload)
        self._announced.append(payload)

    def finish_record(self) -> None:
        message = self._message
        if message is None:
            return
        self._message = None
        segment = self.segment
        offset = segment.size + len(self._out)
        places = self._places.getvalue()
        self._places.truncate(0)
        count: i64 = len(self._place_lanes)
        ordinal = self._place_entries[0].address & 0xFFFFFFFF
        size = write_message(self._out, places, count, ordinal, message, segment.number, offset)
        transient = not message.persistent
        for index in range(count):
            lane = self._place_lanes[index]
            entry = self._place_entries[index]
            self._run_of(lane, entry.sequence).add(
                entry.sequence,
                entry.expires_at,
                offset,
                size,
                entry.address & 0xFFFFFFFF,
                message.body_size,
                transient or not lane.durable,
            )
        self._place_lanes.clear()
        self._place_entries.clear()

    def settle(self, address: i64) -> None:
        write_i64_be(self._settled, address)

    def note_watermark(self, lane: Lane) -> None:
        self._watermarks[lane] = True

    def has_watermark(self, lane: Lane) -> bool:
        return lane in self._watermarks

    def forget_watermark(self, lane: Lane) -> None:
        self._watermarks.pop(lane, None)

    def note_return(self, lane: int, sequence: int, times: int) -> None:
        note(self.returned, lane, sequence, times)

    def begin_together(self) -> None:
        """Before the record of the message, which is still open or not yet begun."""
        if not self.is_together:
            self.is_together = True
            self.add_record(TOGETHER, b"")

    def remember(self, lane: Lane, key: bytes, number: i64) -> None:
        if lane.announced_in != self.segment.number:
            self._announce(lane)
        write_note(self._seen, lane.number, key, number)

    def end_together(self) -> None:
        """The turn is over: all that has happened since the first of them is one whole."""
        self.finish_record()
        self.add_record(SEEN, self._seen.getvalue())
        self._seen.truncate(0)
        self.segment.has_seen = True
        self.is_together = False

    def add_record(self, kind: i64, payload: bytes) -> None:
        write_record(self._out, kind, payload, self.segment.number, self.segment.size + len(self._out))

    def take(self, mark: bytes) -> bytes:
        """All of it, with the mark up to where the log is known to be durable; empty when nothing has happened."""
        self.finish_record()
        if len(self._settled) > 0:
            payload = self._settled.getvalue()
            self._settled.truncate(0)
            self.segment.settled_here.write(payload)
            self.add_record(SETTLED, payload)
        if self.returned:
            payload = encode_returned(self.returned)
            self.segment.returned.append(payload)
            self.add_record(RETURNED, payload)
            self.returned = {}
        if self._watermarks:
            for lane in self._watermarks:
                if lane.has_entries:
                    self.segment.watermarks[lane.number] = lane.watermark
                    self.add_record(DELIVERED, struct.pack(">IQ", lane.number, lane.watermark))
            self._watermarks.clear()
        if self._announced:
            for payload in self._announced:
                self.add_record(LANE_OPENED, payload)
            self._announced.clear()
        if len(self._out) == 0:
            return b""
        if mark:
            self.add_record(SYNCED, mark)
        data = self._out.getvalue()
        if len(data) <= _KEPT_BYTES:
            self._out.truncate(0)
        else:
            self._out = BytesWriter()
        return data
