"""The durable store: one append-only log in segments, for all queues.

A message is one record, however many queues it went to; settling it is eight bytes. The loop fills a buffer, `write`
hands it to the operating system before anything that speaks of it goes out on a socket, and a thread outside makes it
durable: whatever was written while it synced is the next batch. Files are deleted when nothing in them lives, and
rewritten (compaction.py) when little does.
"""

from __future__ import annotations

import struct
from errno import EIO
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.broker.backing import Backing
from warren.broker.entry import Entry
from warren.broker.message import Message
from warren.broker.store import Store
from warren.store.chores import Chore, DeleteChore, IndexChore, SegmentChore, SettledChore, SyncJob
from warren.store.disk import Disk
from warren.store.format import (
    DELIVERED,
    LANE_DELETED,
    LANE_OPENED,
    PLACES_MAX,
    SETTLED,
    SYNCED,
    file_header,
    write_message,
    write_place,
    write_record,
)
from warren.store.index import encode_index, encode_settled
from warren.store.lane import Lane
from warren.store.recovered import RecoveredLane
from warren.store.segment import ROW_SIZE, SPARSE, Row, Run, Segment, index_name, segment_name
from warren.store.streams import StreamLogs

if TYPE_CHECKING:
    from warren.broker.queue import Queue
    from warren.broker.stream_log import StreamLog

SEGMENT_BYTES: Final[i64] = 32 * 1024 * 1024
# What one queue keeps in memory, and how many messages are read back at once.
HEAD_ENTRIES: Final[i64] = 8192
LOAD_ROWS: Final[i64] = 1024
# All heads together; above it queues keep less each.
HEAD_BYTES_MAX: Final[i64] = 64 * 1024 * 1024
# Changes that may wait for the disk before queues stop granting credit (RabbitMQ's msg_store_credit_disc_bound).
BEHIND_CHANGES: Final[i64] = 50_000
_OPEN_FILES_MAX: Final = 256
# A queue would have to get a million messages every second for twelve days before its sequences reach the next life's.
_LIFE_BITS: Final[i64] = 40


class LogStore(Store):
    def __init__(self, disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> None:
        super().__init__()
        self.disk = disk
        self.segment_bytes: i64 = segment_bytes
        self.segments: dict[int, Segment] = {}
        self.head_entries: i64 = HEAD_ENTRIES
        self.load_rows: i64 = LOAD_ROWS
        self.head_bytes: i64 = 0
        self.head_bytes_max: i64 = HEAD_BYTES_MAX
        self.lanes: dict[int, Lane] = {}
        self.next_lane: i64 = 1
        # Sequences of this life of the store are above it, and those of all earlier lives below: none is given twice.
        self.sequence_base: i64 = 0
        # What the log had when it was opened, until the queues come to fetch it.
        self.recovered: dict[tuple[str, str, str, int], RecoveredLane] = {}
        self.log_lines: list[str] = []
        # The record being made: one message and its places.
        self._message: Message | None = None
        self._places = BytesWriter()
        self._place_lanes: list[Lane] = []
        self._place_entries: list[Entry] = []
        # While a segment is compacted: where the moved entries of each lane go.
        self._moved_runs: dict[Lane, list[Run]] = {}
        # Bytes not yet handed to the operating system.
        self._out = BytesWriter()
        self._settled = BytesWriter()
        self._watermarks: dict[Lane, bool] = {}
        # Said again at the end of the batch: a segment that is damaged in one place still knows whose its messages are.
        self._announced: list[bytes] = []
        self.written: i64 = 0
        # The disk is nearly full: files go as soon as they can, whatever that costs.
        self.short_of_space = False
        # Once set, what was handed to the disk is in doubt, so nothing is written or called durable any more.
        self.failure: OSError | None = None
        self._syncing = False
        self._unsynced: list[Segment] = []
        self._new_names = False
        # The name of the active segment is durable. No other is begun before that: a crash then takes the last
        # segment or none, and a gap in the numbers is one that was deleted.
        self.is_named = False
        self._mark = b""
        self._chores: list[Chore] = []
        # Entries that compaction moved while somebody holds them: old address to new.
        self.moved: dict[int, int] = {}
        self._open_for_reading: dict[int, Segment] = {}
        self.active = Segment(0)
        # Streams have files of their own, which are written and synced together with the log.
        self.streams = StreamLogs(self, disk)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def open(self, queue: Queue, level: i64) -> Backing:
        recovered = self.recovered.pop((queue.vhost, queue.name, queue.incarnation, level), None)
        if recovered is not None:
            lane = recovered.lane_for(self, queue)
        else:
            lane = Lane(self, self.next_lane, queue, level)
            self.next_lane += 1
        self.lanes[lane.number] = lane
        lane.last_sequence = max(lane.last_sequence, self.sequence_base)
        return lane

    def open_stream(self, queue: Queue) -> StreamLog:
        return self.streams.open(queue)

    def take_committed(self) -> list[Queue]:
        return self.streams.take_committed()

    def release(self, queue: Queue) -> None:
        self._finish_record()
        for lane in [lane for lane in self.lanes.values() if lane.queue is queue]:
            del self.lanes[lane.number]
            self._watermarks.pop(lane, None)
            lane.release_head()
            if lane.has_entries:
                again = RecoveredLane(lane.payload())
                for segment in [segment for segment in self.segments.values() if segment.live > 0]:
                    again.runs += [(segment, run) for run in segment.runs if run.lane == lane.number]
                self.recovered[again.key] = again

    def delete(self, queue: Queue) -> None:
        for lane in [lane for lane in self.lanes.values() if lane.queue is queue]:
            self.delete_lane(lane)
        self.streams.delete(queue)

    def delete_lane(self, lane: Lane) -> None:
        del self.lanes[lane.number]
        self._watermarks.pop(lane, None)
        lane.release_head()
        if lane.has_entries:
            self.forget_lane(lane.number)

    def forget_lane(self, number: i64) -> None:
        """Everything a lane had is settled at one stroke."""
        self._finish_record()
        self._append(LANE_DELETED, struct.pack(">I", number))
        self.active.deleted_lanes.append(number)
        for segment in list(self.segments.values()):
            if self.settle_lane(segment, number) and segment is not self.active:
                self.active.settles[segment.number] = True
                self.consider(segment)

    def settle_lane(self, segment: Segment, number: i64) -> bool:
        if segment.live == 0:
            # Its files may be going at this moment.
            return False
        found = False
        for run in segment.runs:
            if run.lane != number:
                continue
            rows = self.read_rows(segment, run, 0, run.count)
            for at in range(0, len(rows), ROW_SIZE):
                if segment.settle(Row(rows, at).ordinal):
                    found = True
        return found

    # -- what happens to messages ----------------------------------------------------------------------------------

    def add(self, lane: Lane, entry: Entry) -> None:
        """A message takes its place in a lane. The same message in several lanes, one after another, is one record."""
        if entry.message is not self._message or len(self._place_lanes) >= PLACES_MAX:
            self._finish_record()
            self._message = entry.message
        self._place(lane, entry, 0)

    def _place(self, lane: Lane, entry: Entry, moved_from: i64) -> None:
        segment = self.active
        if lane.announced_in != segment.number:
            self._announce(lane)
        entry.address = segment.number << 32 | segment.new_entry()
        write_place(self._places, lane.number, entry.sequence, entry.expires_at, moved_from)
        self._place_lanes.append(lane)
        self._place_entries.append(entry)
        self.position += 1

    def begin_moving(self) -> None:
        self._finish_record()
        self._moved_runs = {}

    def move(self, lane: Lane, entry: Entry, moved_from: i64) -> None:
        """Compaction: the same place in the lane at another address."""
        if entry.message is not self._message:
            self._finish_record()
            self._message = entry.message
        if lane not in self._moved_runs:
            self._moved_runs[lane] = []
        self._place(lane, entry, moved_from)
        # The move settles the old place, for whoever reads this segment's index instead of its records.
        write_i64_be(self.active.settled_here, moved_from)

    def _moved_run(self, lane: Lane, sequence: i64) -> Run:
        """Rows of a run ascend: where the sequence falls back, another begins."""
        runs = self._moved_runs[lane]
        if not runs or sequence < runs[-1].last_sequence:
            run = Run(lane.number)
            self.active.runs.append(run)
            runs.append(run)
        return runs[-1]

    def end_moving(self) -> dict[Lane, list[Run]]:
        self._finish_record()
        moved, self._moved_runs = self._moved_runs, {}
        return moved

    def _announce(self, lane: Lane) -> None:
        """Every segment says itself whose lanes are in it."""
        lane.announced_in = self.active.number
        lane.has_entries = True
        payload = lane.payload()
        self.active.lanes[lane.number] = payload
        self._append(LANE_OPENED, payload)
        self._announced.append(payload)

    def _finish_record(self) -> None:
        message = self._message
        if message is None:
            return
        self._message = None
        segment = self.active
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
            run = self._moved_run(lane, entry.sequence) if self._moved_runs else segment.open_run(lane.number)
            run.add(
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
        """It never comes back."""
        while address in self.moved:
            address = self.moved.pop(address)
        number = address >> 32
        segment = self.segments.get(number)
        if segment is None or not segment.settle(address & 0xFFFFFFFF):
            return
        write_i64_be(self._settled, address)
        self.position += 1
        if segment is not self.active:
            self.active.settles[number] = True
            if segment.live == 0:
                self.consider(segment)

    def note_watermark(self, lane: Lane) -> None:
        self._watermarks[lane] = True

    def _append(self, kind: i64, payload: bytes) -> None:
        self.position += 1
        self._write_record(kind, payload)

    def _write_record(self, kind: i64, payload: bytes) -> None:
        segment = self.active
        write_record(self._out, kind, payload, segment.number, segment.size + len(self._out))

    # -- to the file, and to the disk ------------------------------------------------------------------------------

    def write(self) -> None:
        """Raises OSError now and for ever once the disk has failed: whoever asked first may not be who stops."""
        if self.failure is not None:
            raise self.failure
        try:
            self._write()
        except OSError as error:
            self.failure = error
            raise

    def _write(self) -> None:
        self.streams.write()
        self._finish_record()
        if len(self._settled) > 0:
            payload = self._settled.getvalue()
            self._settled.truncate(0)
            self.active.settled_here.write(payload)
            self._write_record(SETTLED, payload)
        if self._watermarks:
            self._write_watermarks()
        for payload in self._announced:
            self._write_record(LANE_OPENED, payload)
        self._announced.clear()
        if len(self._out) == 0:
            self.written = self.position
            if self.short_of_space:
                self._roll_if_spent()
            return
        if self._mark:
            self._write_record(SYNCED, self._mark)
            self._mark = b""
        data = self._out.getvalue()
        self._out = BytesWriter()
        segment = self.active
        self.disk.append(segment.handle, data)
        segment.size += len(data)
        self.written = self.position
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)
        if segment.size >= self.segment_bytes and self.is_named:
            self.roll()
        elif self.short_of_space:
            self._roll_if_spent()

    def _roll_if_spent(self) -> None:
        """Publishers are blocked, so the active segment would never fill, and what it holds never be given back."""
        if self.active.live * SPARSE < self.active.entries and self.is_named:
            self.roll()

    def _write_watermarks(self) -> None:
        for lane in self._watermarks:
            if lane.has_entries:
                self.active.watermarks[lane.number] = lane.watermark
                self._write_record(DELIVERED, struct.pack(">IQ", lane.number, lane.watermark))
        self._watermarks.clear()

    def roll(self) -> None:
        """Begin a new segment; the old one is only read from now on."""
        old = self.active
        self.start_segment(old.number + 1, old.size)
        self.seal(old)
        self.consider(old)

    def seal(self, segment: Segment) -> None:
        segment.sealed = True
        for run in segment.runs:
            run.seal()
        segment.open_runs.clear()
        if segment.live > 0:
            self._want_index(segment)

    def start_segment(self, number: i64, previous_size: i64) -> None:
        segment = Segment(number)
        segment.handle = self.disk.create(segment_name(number), self.segment_bytes)
        header = file_header(number, previous_size)
        self.disk.append(segment.handle, header)
        segment.size = len(header)
        self.segments[number] = segment
        self.active = segment
        self._unsynced.append(segment)
        self._new_names = True
        self.is_named = False

    def repeat(self, segment: Segment) -> None:
        """Recovery: say again what a segment said about others whose own log is lost."""
        payload = segment.settled_here.getvalue()
        if payload:
            self.active.settled_here.write(payload)
            self._append(SETTLED, payload)
        for number in segment.deleted_lanes:
            self.active.deleted_lanes.append(number)
            self._append(LANE_DELETED, struct.pack(">I", number))
        for other in segment.settles:
            self.active.settles[other] = True

    def continue_after(self, number: i64, size: i64) -> None:
        """Recovery: all that was found is durable, up to this segment and this size of it."""
        self.start_segment(number + 1, size)
        self._write_record(SYNCED, struct.pack(">QQ", number, size))
        self.write()
        # The number of this segment must be taken, whatever happens next: sequences are made of it.
        self.disk.sync(self.active.handle)
        self.disk.sync_directory()
        self.is_named = True
        self._new_names = False
        self._unsynced.clear()
        self.sequence_base = number << _LIFE_BITS

    def begin_sync(self) -> SyncJob | None:
        """What a thread should make durable now; None while it is at it, or when there is nothing."""
        if self._syncing or self.written == self.synced or self.failure is not None:
            return None
        self._syncing = True
        segments = self._unsynced
        self._unsynced = []
        new_names = self.streams.takes_new_names() or self._new_names
        self._new_names = False
        return SyncJob(
            self.written,
            self.streams.begin_sync() + [segment.handle for segment in segments],
            new_names,
            struct.pack(">QQ", self.active.number, self.active.size),
        )

    def sync_done(self, job: SyncJob) -> None:
        self._syncing = False
        self.synced = job.position
        self._mark = job.mark
        if job.new_names:
            self.is_named = True
        self.streams.sync_done()

    def is_behind(self) -> bool:
        return self.position - self.synced > BEHIND_CHANGES

    def is_crowded(self) -> bool:
        """The heads of all queues together take too much memory: each keeps little."""
        return self.head_bytes > self.head_bytes_max

    # -- files that come and go ------------------------------------------------------------------------------------

    def _want_index(self, segment: Segment) -> None:
        data, offsets = encode_index(segment)
        self._chores.append(IndexChore(self.position, segment, data, offsets))
        segment.busy = True

    def consider(self, segment: Segment) -> None:
        """Delete a segment in which nothing lives, once nothing that still exists depends on its records."""
        if segment.live > 0 or not segment.sealed or segment.busy or segment.number not in self.segments:
            return
        for number in list(segment.settles):
            target = self.segments.get(number)
            if target is None or target is segment:
                del segment.settles[number]
            elif not target.busy and target.live > 0:
                # One in which nothing lives goes by itself, and this one is asked again then.
                target.busy = True
                self._chores.append(SettledChore(self.position, target, encode_settled(target), segment))
        if segment.settles:
            return
        segment.busy = True
        self._keep_watermarks(segment)
        self._chores.append(DeleteChore(max(self.position, segment.free_at), segment))

    def _keep_watermarks(self, segment: Segment) -> None:
        """How far a lane was delivered may be written nowhere else."""
        for number in [*segment.lanes, *segment.watermarks]:
            lane = self.lanes.get(number)
            if lane is not None and lane.watermark > 0 and lane not in self._watermarks:
                self.note_watermark(lane)
                self.position += 1

    def moved_away(self, segment: Segment) -> None:
        """Everything in it lives elsewhere now; the file goes once that is durable."""
        self.active.settles[segment.number] = True
        segment.free_at = self.position
        self.consider(segment)

    def abandon(self, segment: Segment) -> None:
        """What lives in it cannot be read: say whose it was, as far as that is known, and go on without it."""
        for run in segment.runs:
            lane = self.lanes.get(run.lane)
            rows = self.read_rows(segment, run, 0, run.count)
            for at in range(0, len(rows), ROW_SIZE):
                row = Row(rows, at)
                if lane is not None and not segment.is_settled(row.ordinal):
                    lane.lose(segment, row)
        for ordinal in range(segment.entries):
            if segment.settle(ordinal):
                write_i64_be(self._settled, segment.number << 32 | ordinal)
        self.position += 1

    def unclaimed(self) -> list[str]:
        """What no queue has asked for after a restart, told a line each where it is more than nothing."""
        lines: list[str] = []
        for recovered in self.recovered.values():
            count = recovered.count(self)
            if count > 0:
                lines.append(f"{count} messages of queue '{recovered.name}' in vhost '{recovered.vhost}'")
        for stream in self.streams.recovered.values():
            if stream.count() > 0:
                lines.append(f"{stream.count()} messages of stream '{stream.name}' in vhost '{stream.vhost}'")
        return lines

    def forget_unclaimed(self) -> None:
        """Their queues are gone: deleted just before the crash, or removed from the definitions by hand."""
        for recovered in list(self.recovered.values()):
            self.forget_lane(recovered.number)
        self.recovered.clear()
        self.streams.forget_unclaimed()
        for segment in list(self.segments.values()):
            self.consider(segment)

    def next_chore(self) -> Chore | None:
        """The next piece of file work whose time has come. It runs in the thread that syncs."""
        for chores in (self._chores, self.streams.chores):
            for index, chore in enumerate(chores):
                if chore.after <= self.synced:
                    del chores[index]
                    return chore
        return None

    def chore_done(self, chore: Chore) -> None:
        if not isinstance(chore, SegmentChore):
            self.streams.chore_done(chore)
            return
        segment = chore.segment
        segment.busy = False
        if isinstance(chore, IndexChore):
            segment.indexed = True
            for run, offset in zip(segment.runs, chore.offsets, strict=True):
                run.now_in_file(offset)
            # It is durable and only read from now on: its file may be closed when too many are open.
            self._opened(segment)
        elif isinstance(chore, SettledChore):
            chore.wanted_by.settles.pop(segment.number, None)
        elif isinstance(chore, DeleteChore):
            self.segments.pop(segment.number, None)
            self.close_files(segment)
        # Any of those in which nothing lives may have waited for this chore.
        for other in list(self.segments.values()):
            if other.live == 0:
                self.consider(other)

    # -- reading back ----------------------------------------------------------------------------------------------

    def read(self, segment: Segment, offset: i64, size: i64) -> bytes | None:
        """None when the disk says that it cannot: that may pass, so nothing is given up for it."""
        if segment is self.active and offset + size > segment.size:
            self.write()
        self._open_log(segment)
        try:
            return self.disk.read(segment.handle, size, offset)
        except OSError as error:
            if error.errno != EIO:
                raise
            return None

    def read_rows(self, segment: Segment, run: Run, first: i64, count: i64) -> bytes:
        if segment is self.active:
            self._finish_record()
        last = min(first + count, run.count)
        if first >= last:
            return b""
        if not run.is_in_file():
            return run.rows_in_memory(first, last)
        if segment.index_handle < 0:
            segment.index_handle = self.disk.open(index_name(segment.number))
            self._opened(segment)
        return self.disk.read(segment.index_handle, (last - first) * ROW_SIZE, run.index_offset + first * ROW_SIZE)

    def _open_log(self, segment: Segment) -> None:
        if segment.handle < 0:
            segment.handle = self.disk.open(segment_name(segment.number))
            self._opened(segment)

    def _opened(self, segment: Segment) -> None:
        """Files of old segments are opened when needed, and not too many at once."""
        if segment is self.active or not segment.indexed:
            return
        self._open_for_reading[segment.number] = segment
        if len(self._open_for_reading) > _OPEN_FILES_MAX:
            oldest = next(iter(self._open_for_reading))
            if self._open_for_reading[oldest] is not segment:
                self.close_files(self._open_for_reading.pop(oldest))

    def close_files(self, segment: Segment) -> None:
        self._open_for_reading.pop(segment.number, None)
        if segment.handle >= 0:
            self.disk.close(segment.handle)
            segment.handle = -1
        if segment.index_handle >= 0:
            self.disk.close(segment.index_handle)
            segment.index_handle = -1

    def damaged(self, lane: Lane, segment: Segment, row: Row) -> None:
        """A record that cannot be read any more: say whose it was, and go on without it."""
        queue = lane.queue
        queue.node.host.log(
            40,
            f"store: queue '{queue.name}' in vhost '{queue.vhost}' lost message {row.sequence}: "
            f"damaged record in segment {segment.number} at byte {row.offset}",
        )
        self.settle(segment.number << 32 | row.ordinal)

    def unreadable(self, lane: Lane, segment: Segment, row: Row) -> None:
        """The disk failed to read it, which says nothing of the bytes: they stay for the next start."""
        queue = lane.queue
        segment.unreadable = True
        queue.node.host.log(
            40,
            f"store: queue '{queue.name}' in vhost '{queue.vhost}' cannot read message {row.sequence}: "
            f"I/O error in segment {segment.number} at byte {row.offset}; it stays there and is tried again at restart",
        )

    def close(self) -> None:
        """Everything written was synced by whoever calls this. The log says so, to tell damage from a torn tail."""
        if self.active.handle >= 0 and self.failure is None:
            try:
                self._end_log()
            except OSError as error:
                # A disk that fails now takes nothing that was promised: the mark only spares a restart its doubts.
                self.failure = error
        for segment in self.segments.values():
            self.close_files(segment)
        self.streams.close()

    def _end_log(self) -> None:
        if self._mark:
            self._write_record(SYNCED, self._mark)
            self._mark = b""
            self.write()
        self.disk.truncate(self.active.handle, self.active.size)
        self.disk.sync(self.active.handle)
