"""All streams of a store: when their files are written, synced, indexed and removed, together with the log's."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.store.chores import Chore
from warren.store.disk import Disk
from warren.store.stream import DiskStreamLog
from warren.store.stream_archive import ArchiveJob
from warren.store.stream_format import FILE_ENDING, INDEX_ENDING, file_name, index_name, parse_name
from warren.store.stream_segment import StreamSegment, encode_index
from warren.store.whole_files import read_whole

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.store.log import LogStore

# Every turn asks, and there is hardly ever anything: nobody adds to it.
_NONE: Final[list[Queue]] = []


class RecoveredStream:
    """What the files have of a stream, until it asks for them."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        # As a file of it tells; empty when none does.
        self.vhost = ""
        self.name = ""
        self.segments: list[StreamSegment] = []
        # Those that the disk cannot read now. It may be able to at the next start: they stay as long as the stream.
        self.unreadable: list[StreamSegment] = []
        self.next_number = 1
        # No message has this offset or one behind it.
        self.next_offset: int = 0

    def count(self) -> int:
        return sum([int(segment.count) for segment in self.segments])


class SyncedUpTo:
    """What a sync that is under way will have made durable."""

    def __init__(self, log: DiskStreamLog, segment: StreamSegment) -> None:
        self.log = log
        self.segment = segment
        self.size: i64 = segment.size
        self.end_offset: i64 = segment.end_offset


class StreamIndexChore(Chore):
    """Write the index of a full file, so that a restart need not read it."""

    def __init__(self, after: i64, segment: StreamSegment) -> None:
        super().__init__(after)
        self.segment = segment
        self.data = encode_index(segment)

    def run(self, disk: Disk) -> None:
        disk.replace(index_name(self.segment.incarnation, self.segment.number), self.data)


class StreamDeleteChore(Chore):
    """One file and its index, and no other before their names are gone: what is left is always the younger part."""

    def __init__(self, after: i64, incarnation: str, number: int) -> None:
        super().__init__(after)
        self.incarnation = incarnation
        self.number = number

    def run(self, disk: Disk) -> None:
        names = disk.names()
        for name in (file_name(self.incarnation, self.number), index_name(self.incarnation, self.number)):
            if name in names:
                disk.remove(name)
                disk.sync_directory()


class StreamLogs:
    def __init__(self, store: LogStore, disk: Disk) -> None:
        self.store = store
        self.disk = disk
        self.recovered: dict[str, RecoveredStream] = {}
        self.logs: dict[Queue, DiskStreamLog] = {}
        self.chores: list[Chore] = []
        # The folder of all archives, and files that retention waits for: they must be there first.
        self.archive_root = ""
        self.archive_wanted: dict[DiskStreamLog, StreamSegment] = {}
        self._changed: dict[DiskStreamLog, bool] = {}
        self._unsynced: dict[StreamSegment, DiskStreamLog] = {}
        self._syncing: list[SyncedUpTo] = []
        self._new_names = False
        self._committed: dict[Queue, bool] = {}

    def open(self, queue: Queue) -> DiskStreamLog:
        recovered = self.recovered.pop(queue.incarnation, None)
        if recovered is None:
            recovered = RecoveredStream(queue.incarnation)
        log = DiskStreamLog(self, queue, recovered.segments, recovered.next_number)
        log.unreadable = recovered.unreadable
        if recovered.next_offset > log.next_offset:
            log.skip_to(recovered.next_offset)
        self.logs[queue] = log
        log.recalled = self.store.seen.recall(queue)
        for segment in log.segments:
            if not segment.is_indexed:
                self._want_index(log, segment)
        return log

    def delete(self, queue: Queue) -> None:
        log = self.logs.pop(queue, None)
        if log is None:
            return
        self._changed.pop(log, None)
        self.archive_wanted.pop(log, None)
        self.store.position += 1
        for segment in log.segments + log.unreadable:
            self._unsynced.pop(segment, None)
            self.drop(segment)

    def forget(self, incarnations: list[str]) -> None:
        for incarnation in incarnations:
            recovered = self.recovered.pop(incarnation, None)
            if recovered is not None:
                self.store.position += 1
                for segment in recovered.segments + recovered.unreadable:
                    self.drop(segment)

    def drop(self, segment: StreamSegment) -> None:
        """It is synced all the same if it was to be: a file that ends too early ends the stream for a restart."""
        segment.is_gone = True
        self.chores.append(StreamDeleteChore(self.store.position, segment.incarnation, segment.number))
        self.close_if_idle(segment)

    # -- writing ---------------------------------------------------------------------------------------------------

    def changed(self, log: DiskStreamLog) -> None:
        self._changed[log] = True
        self.store.position += 1

    def write(self) -> None:
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        for log in changed:
            segment = log.write()
            if not segment.is_named:
                self._new_names = True
            self._unsynced[segment] = log
            if log.is_full(segment):
                segment.is_sealed = True
                if segment.has_seen:
                    self.store.seen.write_soon()
                self._want_index(log, segment)

    def _want_index(self, log: DiskStreamLog, segment: StreamSegment) -> None:
        self.chores.append(StreamIndexChore(self.store.position, segment))

    def begin_sync(self) -> list[int]:
        """The handles of the files that a thread should make durable."""
        unsynced, self._unsynced = self._unsynced, {}
        self._syncing = [SyncedUpTo(log, segment) for segment, log in unsynced.items()]
        return [segment.handle for segment in unsynced]

    def takes_new_names(self) -> bool:
        """Whether the folder must be synced as well; asked once for each sync."""
        new_names, self._new_names = self._new_names, False
        return new_names

    def sync_done(self) -> None:
        for synced in self._syncing:
            log, segment = synced.log, synced.segment
            segment.durable = synced.size
            segment.is_named = True
            log.committed = max(log.committed, synced.end_offset)
            log.mark = struct.pack(">QQ", segment.number, synced.size)
            self._committed[log.queue] = True
            self.close_if_idle(segment)
        self._syncing = []

    def take_committed(self) -> list[Queue]:
        if not self._committed:
            return _NONE
        committed, self._committed = self._committed, {}
        return [queue for queue in committed if not queue.deleted]

    # -- archives --------------------------------------------------------------------------------------------------

    def next_archive_jobs(self) -> list[ArchiveJob]:
        """One for each stream whose retention waits, of files that are durable and will not change any more."""
        return [
            ArchiveJob(log, segment)
            for log, segment in self.archive_wanted.items()
            if segment.is_sealed and segment.durable == segment.size
        ]

    def archive_done(self, job: ArchiveJob) -> None:
        job.segment.is_archived = True
        if not job.segment.is_gone:
            job.log.archive_error = ""
            job.log.retain(job.log.queue.node.now)

    # -- files that come and go ------------------------------------------------------------------------------------

    def chore_done(self, chore: Chore) -> None:
        if isinstance(chore, StreamIndexChore):
            chore.segment.forget_rows()
            self.close_if_idle(chore.segment)

    def close_if_idle(self, segment: StreamSegment) -> None:
        """A file that is not written to is open only while somebody reads it, or has yet to sync it."""
        if segment.handle < 0 or segment.users > 0 or not (segment.is_sealed or segment.is_gone):
            return
        if segment in self._unsynced or any(synced.segment is segment for synced in self._syncing):
            return
        self.disk.close(segment.handle)
        segment.handle = -1

    def read_whole(self, name: str) -> bytes:
        try:
            return read_whole(self.disk, name)
        except OSError:
            return b""

    def close(self) -> None:
        for log in self.logs.values():
            for segment in log.segments:
                if segment.handle >= 0:
                    self.disk.close(segment.handle)
                    segment.handle = -1


def stream_files(names: list[str]) -> dict[str, list[int]]:
    """The numbers of the files of each stream, ascending."""
    return _numbered(names, FILE_ENDING)


def stream_indexes(names: list[str]) -> dict[str, list[int]]:
    return _numbered(names, INDEX_ENDING)


def _numbered(names: list[str], ending: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name in sorted(names):
        parsed = parse_name(name, ending)
        if parsed is not None:
            found.setdefault(parsed[0], []).append(parsed[1])
    return found
