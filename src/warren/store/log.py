"""The durable store: one append-only log in segments, for all queues.

A message is one record, however many queues it went to; settling it is eight bytes. The loop fills a buffer, `write`
hands it to the operating system before anything that speaks of it goes out on a socket, and a thread outside makes it
durable: whatever was written while it synced is the next batch. Files are deleted when nothing in them lives, and
rewritten (compaction.py) when little does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.backing import Backing
from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Errand
from warren.broker.queue.store import Store
from warren.store.chores import Chore, SegmentChore, SyncJob
from warren.store.definitions import BaseChore, DefinitionsLog
from warren.store.disk import Disk
from warren.store.format import DELIVERED, LANE_DELETED, SETTLED, SYNCED, file_header
from warren.store.lane import Lane
from warren.store.pending import PendingRecords
from warren.store.recovered import RecoveredLane, watermarks_in
from warren.store.removal import LaneRemoval
from warren.store.returned import note_payloads
from warren.store.seen import SeenFile
from warren.store.segment import SPARSE, LaneRun, Segment, segment_name
from warren.store.segment_files import OUT_OF_DESCRIPTORS, SegmentFiles
from warren.store.streams import StreamLogs
from warren.store.unclaimed import Unclaimed
from warren.store.upkeep import Upkeep

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.stream_log import StreamLog

SEGMENT_BYTES: Final[i64] = 32 * 1024 * 1024
# What one queue keeps in memory, and how many messages are read back at once.
HEAD_ENTRIES: Final[i64] = 8192
LOAD_ROWS: Final[i64] = 1024
# All heads together; above it queues keep less each.
HEAD_BYTES_MAX: Final[i64] = 64 * 1024 * 1024
# Changes that may wait for the disk before queues stop granting credit (RabbitMQ's msg_store_credit_disc_bound).
BEHIND_CHANGES: Final[i64] = 50_000
UNSYNCED_MAX: Final[i64] = 64 * 1024 * 1024
# A queue would have to get a million messages every second for twelve days before its sequences reach the next life's.
_LIFE_BITS: Final[i64] = 40
# Half of what an address within a segment can say.
_SEGMENT_MAX: Final[i64] = 2**31


class LogStore(Store):
    def __init__(self, disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> None:
        super().__init__()
        self.disk = disk
        self.segment_bytes: i64 = segment_bytes
        self.segments: dict[int, Segment] = {}
        self.active = Segment(0)
        # Segments whose files the disk could not read at the start.
        self.unreadable: dict[int, bool] = {}
        self.head_entries: i64 = HEAD_ENTRIES
        self.load_rows: i64 = LOAD_ROWS
        self.head_bytes: i64 = 0
        self.head_bytes_max: i64 = HEAD_BYTES_MAX
        self.lanes: dict[int, Lane] = {}
        self.next_lane: i64 = 1
        # Sequences of this life of the store are above it, and those of all earlier lives below: none is given twice.
        self.sequence_base: i64 = 0
        self.log_lines: list[str] = []
        # Not yet handed to the operating system.
        self.pending = PendingRecords(self.active)
        self.written: i64 = 0
        # In this life of the store, messages and streams together.
        self.bytes_written: i64 = 0
        self.bytes_synced: i64 = 0
        self._bytes_syncing: i64 = 0
        # Bytes that may wait for the disk before queues stop granting credit.
        self.unsynced_max: i64 = UNSYNCED_MAX
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
        self.upkeep = Upkeep(self)
        # Entries that compaction moved while somebody holds them: old address to new.
        self.moved: dict[int, int] = {}
        self.files = SegmentFiles(disk)
        # Others copy what is written here.
        self.is_mirrored = False
        # Who keeps messages only, as tests do, has no definitions here.
        self.definitions: DefinitionsLog | None = None
        # Streams have files of their own, which are written and synced together with the log.
        self.streams = StreamLogs(self, disk)
        self.seen = SeenFile(self)
        self.unclaimed = Unclaimed(self)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def open(self, queue: Queue, level: i64) -> Backing:
        recovered = self.unclaimed.lanes.pop((queue.vhost, queue.name, queue.incarnation, level), None)
        if recovered is not None:
            lane = recovered.lane_for(self, queue)
        else:
            lane = Lane(self, self.next_lane, queue, level)
            self.next_lane += 1
        self.lanes[lane.number] = lane
        lane.last_sequence = max(lane.last_sequence, self.sequence_base)
        if level == 0:
            lane.recalled = self.seen.recall(queue)
        return lane

    def open_stream(self, queue: Queue) -> StreamLog:
        return self.streams.open(queue)

    def take_committed(self) -> list[Queue]:
        return self.streams.take_committed()

    def take_errands(self) -> list[Errand]:
        errands = self.upkeep.errands
        if errands:
            self.upkeep.errands = []
        return errands

    def release(self, queue: Queue) -> None:
        self.pending.finish_record()
        for lane in self._close_lanes(queue):
            again = RecoveredLane(lane.payload())
            again.returned = lane.returned
            for segment in [segment for segment in self.segments.values() if segment.live > 0]:
                again.runs += [(segment, run) for run in segment.runs if run.lane == lane.number]
            self.unclaimed.lanes[again.key] = again

    def delete(self, queue: Queue) -> Errand:
        gone: dict[int, bool] = {}
        for lane in self._close_lanes(queue):
            self.pending.forget_watermark(lane)
            gone[lane.number] = True
        self.streams.delete(queue)
        self.seen.queues.pop(queue, None)
        return self.forget_lanes(gone)

    def _close_lanes(self, queue: Queue) -> list[Lane]:
        """Those of them that have entries."""
        closed: list[Lane] = []
        for lane in queue.backing.parts():
            if isinstance(lane, Lane) and self.lanes.pop(lane.number, None) is not None:
                lane.release_head()
                if lane.has_entries:
                    closed.append(lane)
        return closed

    def forget_lanes(self, numbers: dict[int, bool]) -> Errand:
        """Everything that lanes had is settled at one stroke; the errand marks it."""
        self.pending.finish_record()
        for number in numbers:
            self._append(LANE_DELETED, struct.pack(">I", number))
            self.active.deleted_lanes.append(number)
        return LaneRemoval(self, numbers)

    # -- what happens to messages ----------------------------------------------------------------------------------

    def add(self, lane: Lane, entry: Entry) -> None:
        """A message takes its place in a lane. The same message in several lanes, one after another, is one record."""
        self.position += self.pending.place(lane, entry, 0)

    def move(self, lane: Lane, entry: Entry, moved_from: i64) -> None:
        """Compaction: the same place in the lane at another address."""
        self.position += self.pending.move(lane, entry, moved_from)

    def remember(self, lane: Lane, key: bytes, number: i64) -> None:
        self.seen.queues[lane.queue] = True
        self.pending.remember(lane, key, number)
        self.position += 1

    def settle(self, address: i64) -> None:
        """It never comes back."""
        while address in self.moved:
            address = self.moved.pop(address)
        number = address >> 32
        segment = self.segments.get(number)
        if segment is None or not segment.settle(address & 0xFFFFFFFF):
            return
        self.pending.settle(address)
        self.position += 1
        if segment is not self.active:
            self.active.settles[number] = True
            if segment.live == 0:
                self.upkeep.consider(segment)

    def note_watermark(self, lane: Lane) -> None:
        self.pending.note_watermark(lane)
        if self.is_mirrored:
            # A node that takes over must know of it, or the message would come again as if for the first time.
            self.position += 1
            self.delivered_at = self.position

    def note_return(self, lane: int, sequence: int, times: int) -> None:
        self.pending.note_return(lane, sequence, times)
        self.position += 1
        if self.is_mirrored:
            # Likewise: a node that takes over counts on from what was told.
            self.delivered_at = self.position

    def _append(self, kind: i64, payload: bytes) -> None:
        self.position += 1
        self.pending.add_record(kind, payload)

    # -- to the file, and to the disk ------------------------------------------------------------------------------

    def write(self) -> None:
        """The turn is over. Raises OSError now and for ever once the disk has failed: whoever asked first may not be
        who stops."""
        self._try_to_write(True)
        self.written = self.position

    def _try_to_write(self, is_turn_over: bool) -> None:
        """In the middle of a turn, for one who reads what is not in the file yet, it does not count as written: what
        belongs together may have come only in part."""
        if self.failure is not None:
            raise self.failure
        try:
            # First: what is in the log belongs to queues that are defined.
            if self.definitions is not None:
                self.definitions.write()
            if is_turn_over:
                self.streams.write()
                if self.pending.is_together:
                    self.pending.end_together()
            self._write()
        except OSError as error:
            self.failure = error
            raise

    def _write(self) -> None:
        data = self.pending.take(self._mark)
        if not data:
            if self.short_of_space:
                self._roll_if_spent()
            return
        self._mark = b""
        segment = self.active
        self.disk.append(segment.handle, data)
        segment.size += len(data)
        self.bytes_written += len(data)
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)
        if segment.size >= self.segment_bytes and self.is_named and not self.pending.is_together:
            self.roll()
        elif self.short_of_space:
            self._roll_if_spent()

    def _roll_if_spent(self) -> None:
        """Publishers are blocked, so the active segment would never fill, and what it holds never be given back."""
        if self.active.live * SPARSE < self.active.entries and self.is_named and not self.pending.is_together:
            self.roll()

    def roll(self) -> None:
        """Begin a new segment; the old one is only read from now on."""
        old = self.active
        try:
            self.start_segment(old.number + 1, old.size)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or old.size > _SEGMENT_MAX:
                raise
            # That passes: this one grows a little longer, and the next write tries again.
            return
        if old.has_seen:
            # First: an index tells nothing of it, and a file that is gone neither.
            self.seen.write_soon()
        self.seal(old)
        self.upkeep.consider(old)

    def seal(self, segment: Segment) -> None:
        segment.sealed = True
        for run in segment.runs:
            run.seal()
        segment.open_runs.clear()
        if segment.live > 0:
            self.upkeep.want_index(segment)

    def start_segment(self, number: i64, previous_size: i64) -> None:
        segment = Segment(number)
        segment.handle = self.disk.create(segment_name(number), self.segment_bytes)
        header = file_header(number, previous_size)
        self.disk.append(segment.handle, header)
        segment.size = len(header)
        self.segments[number] = segment
        self.active = segment
        self.pending.segment = segment
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
        note_payloads(self.pending.returned, segment.returned)
        for number, mark in watermarks_in(segment).items():
            if mark > self.active.watermarks.get(number, 0):
                self.active.watermarks[number] = mark
                self._append(DELIVERED, struct.pack(">IQ", number, mark))
        for other in segment.settles:
            self.active.settles[other] = True
        self.active.marked.update(segment.marked)

    def continue_after(self, number: i64, size: i64) -> None:
        """Recovery: all that was found is durable, up to this segment and this size of it."""
        self.start_segment(number + 1, size)
        self.pending.add_record(SYNCED, struct.pack(">QQ", number, size))
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
        self._bytes_syncing = self.bytes_written
        segments = self._unsynced
        self._unsynced = []
        new_names = self.streams.takes_new_names() or self._new_names
        self._new_names = False
        handles: list[int] = []
        if self.definitions is not None:
            new_names = self.definitions.takes_new_names() or new_names
            handles = self.definitions.begin_sync()
        return SyncJob(
            self.written,
            handles + self.streams.begin_sync() + [segment.handle for segment in segments],
            new_names,
            struct.pack(">QQ", self.active.number, self.active.size),
        )

    def sync_done(self, job: SyncJob) -> None:
        self._syncing = False
        self.synced = job.position
        self.bytes_synced = self._bytes_syncing
        self._mark = job.mark
        if job.new_names:
            self.is_named = True
        self.streams.sync_done()
        if self.definitions is not None:
            self.definitions.sync_done()

    def is_behind(self) -> bool:
        return (
            self.position - self.synced > BEHIND_CHANGES or self.bytes_written - self.bytes_synced > self.unsynced_max
        )

    def is_swamped(self) -> bool:
        return self.bytes_written - self.bytes_synced > 2 * self.unsynced_max

    def is_crowded(self) -> bool:
        """The heads of all queues together take too much memory: each keeps little."""
        return self.head_bytes > self.head_bytes_max

    # -- file work -------------------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether the thread that syncs could have something to do."""
        if self.written != self.synced or self.upkeep.chores or self.streams.chores:
            return True
        return self.definitions is not None and bool(self.definitions.chores)

    def next_chore(self) -> Chore | None:
        """The next piece of file work whose time has come. It runs in the thread that syncs."""
        definitions: list[Chore] = [] if self.definitions is None else self.definitions.chores
        for chores in (self.upkeep.chores, self.streams.chores, definitions):
            for index, chore in enumerate(chores):
                if chore.after <= self.synced:
                    del chores[index]
                    return chore
        return None

    def chore_done(self, chore: Chore) -> None:
        if isinstance(chore, SegmentChore):
            self.upkeep.done(chore)
        elif isinstance(chore, BaseChore):
            assert self.definitions is not None
            self.definitions.chore_done(chore)
        else:
            self.streams.chore_done(chore)

    # -- reading back ----------------------------------------------------------------------------------------------

    def read(self, segment: Segment, offset: i64, size: i64) -> bytes | None:
        """None when the disk says that it cannot: that may pass, so nothing is given up for it."""
        if segment is self.active and offset + size > segment.size:
            self._try_to_write(False)
        return self.files.read(segment, offset, size)

    def read_rows(self, segment: Segment, run: LaneRun, first: i64, count: i64) -> bytes:
        if segment is self.active:
            self.pending.finish_record()
        return self.files.read_rows(segment, run, first, count)

    def close(self) -> None:
        """Everything written was synced by whoever calls this. The log says so, to tell damage from a torn tail."""
        if self.active.handle >= 0 and self.failure is None:
            try:
                self._end_log()
            except OSError as error:
                # A disk that fails now takes nothing that was promised: the mark only spares a restart its doubts.
                self.failure = error
        for segment in self.segments.values():
            self.files.close(segment)
        self.streams.close()
        if self.definitions is not None:
            self.definitions.close()

    def _end_log(self) -> None:
        if self.definitions is not None:
            self.definitions.end()
        if self._mark:
            self.pending.add_record(SYNCED, self._mark)
            self._mark = b""
            self.write()
        self.disk.truncate(self.active.handle, self.active.size)
        self.disk.sync(self.active.handle)
