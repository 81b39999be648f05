"""Reading the files of segments: opened when something in them is wanted, and not too many open at once."""

from __future__ import annotations

from errno import EIO, EMFILE, ENFILE
from typing import Final

from mypy_extensions import i64

from warren.store.disk import Disk
from warren.store.segment import ROW_SIZE, LaneRun, Segment, index_name, segment_name

_OPEN_FILES_MAX: Final = 256
# Of this process and of the machine.
OUT_OF_DESCRIPTORS: Final = (EMFILE, ENFILE)


class SegmentFiles:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # Those that may be closed for others, the one that was opened first in front.
        self._open: dict[int, Segment] = {}

    def read(self, segment: Segment, offset: i64, size: i64) -> bytes | None:
        """None when the disk says that it cannot: that may pass, so nothing is given up for it."""
        self.open_log(segment)
        try:
            return self._disk.read(segment.handle, size, offset)
        except OSError as error:
            if error.errno != EIO:
                raise
            return None

    def read_rows(self, segment: Segment, run: LaneRun, first: i64, count: i64) -> bytes:
        last = min(first + count, run.count)
        if first >= last:
            return b""
        if not run.is_in_file():
            return run.rows_in_memory(first, last)
        if segment.index_handle < 0:
            segment.index_handle = self._open_file(index_name(segment.number))
            self.opened(segment)
        return self._disk.read(segment.index_handle, (last - first) * ROW_SIZE, run.index_offset + first * ROW_SIZE)

    def open_log(self, segment: Segment) -> None:
        if segment.handle < 0:
            segment.handle = self._open_file(segment_name(segment.number))
            self.opened(segment)

    def _open_file(self, name: str) -> int:
        try:
            return self._disk.open(name)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or not self._open:
                raise
        # Ours can be opened again; whatever took the others cannot wait as well as we can.
        for segment in self._idle():
            self.close(segment)
        return self._disk.open(name)

    def _idle(self) -> list[Segment]:
        """Those whose files the thread that syncs does not read at this moment."""
        return [segment for segment in self._open.values() if not segment.busy]

    def opened(self, segment: Segment) -> None:
        """What has an index is durable and only read: its files may be closed, and opened again, at any time."""
        if not segment.indexed:
            return
        self._open[segment.number] = segment
        if len(self._open) > _OPEN_FILES_MAX:
            idle = self._idle()
            if idle and idle[0] is not segment:
                self.close(idle[0])

    def close(self, segment: Segment) -> None:
        self._open.pop(segment.number, None)
        if segment.handle >= 0:
            self._disk.close(segment.handle)
            segment.handle = -1
        if segment.index_handle >= 0:
            self._disk.close(segment.index_handle)
            segment.index_handle = -1
