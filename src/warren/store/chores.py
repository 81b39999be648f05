"""File work that the loop must not wait for. The loop prepares it, a thread runs it, the loop hears when it is done."""

from __future__ import annotations

from errno import EIO

from mypy_extensions import i64

from warren.store.disk import Disk
from warren.store.index import join_index
from warren.store.segment import Segment, index_name, segment_name, settled_name


class SyncJob:
    """Make everything written so far durable: the bytes, and the names of new files."""

    def __init__(self, position: i64, handles: list[int], new_names: bool, mark: bytes) -> None:
        self.position: i64 = position
        self.handles = handles
        self.new_names = new_names
        self.mark = mark

    def run(self, disk: Disk) -> None:
        for handle in self.handles:
            disk.sync(handle)
        if self.new_names:
            disk.sync_directory()


class Chore:
    """Something that may be done once the log is durable up to `after`."""

    def __init__(self, after: i64) -> None:
        self.after: i64 = after

    def run(self, disk: Disk) -> None:
        raise NotImplementedError


class SegmentChore(Chore):
    """On a segment of the log."""

    def __init__(self, after: i64, segment: Segment) -> None:
        super().__init__(after)
        self.segment = segment


class IndexChore(SegmentChore):
    """Write the index of a sealed segment, so that its rows need no memory and a restart need not scan it.

    The room that its log did not need goes: nobody should have to ask what stands there.
    """

    def __init__(self, after: i64, segment: Segment, pieces: list[bytes], offsets: list[int]) -> None:
        super().__init__(after, segment)
        self._pieces = pieces
        self.offsets = offsets

    def run(self, disk: Disk) -> None:
        if self.segment.handle >= 0:
            disk.truncate(self.segment.handle, self.segment.size)
        disk.replace(index_name(self.segment.number), join_index(self._pieces))


class SettledChore(SegmentChore):
    """Write down which entries of a segment are settled, so that the records that say so may go."""

    def __init__(self, after: i64, segment: Segment, data: bytes, wanted_by: Segment) -> None:
        super().__init__(after, segment)
        self.data = data
        self.wanted_by = wanted_by

    def run(self, disk: Disk) -> None:
        disk.replace(settled_name(self.segment.number), self.data)


class DeleteChore(SegmentChore):
    """The log first: an index without it says that everything in it was settled, or that the log was lost."""

    def run(self, disk: Disk) -> None:
        number = self.segment.number
        names = disk.names()
        disk.remove(segment_name(number))
        disk.sync_directory()
        for name in (index_name(number), settled_name(number)):
            if name in names:
                disk.remove(name)
        disk.sync_directory()


class PieceChore(SegmentChore):
    """Read a piece of a segment that is being rewritten; its file is open, and stays so as long as it is busy."""

    def __init__(self, segment: Segment, offset: i64, size: i64) -> None:
        super().__init__(0, segment)
        self.offset: i64 = offset
        self.size: i64 = size
        # None when the disk says that it cannot: that may pass, so nothing is given up for it.
        self.data: bytes | None = None

    def run(self, disk: Disk) -> None:
        try:
            self.data = disk.read(self.segment.handle, self.size, self.offset)
        except OSError as error:
            if error.errno != EIO:
                raise
