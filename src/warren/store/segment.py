"""One file of the log, and what is known of it in memory: which entries live in it, and where each lane's are.

An entry's address is segment << 32 | ordinal, where ordinals count the entries of a segment from 0. A run is the list
of one lane's entries in one segment, in order of their sequence: in memory while the segment is new, then in the
segment's index file. Rows of a run are 32 bytes: sequence(8) expires(8) offset(4) size(4) ordinal(4) body size(4).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

ROW_SIZE: Final[i64] = 32
# Rows in memory are kept in pieces of so many: who reads a few near the end must not copy them all.
_CHUNK_ROWS: Final[i64] = 4096
_CHUNK_BYTES: Final[i64] = _CHUNK_ROWS * ROW_SIZE
# A segment is rewritten when less than one entry in this many lives.
SPARSE: Final[i64] = 3


def segment_name(number: int) -> str:
    return f"{number:012d}.log"


def index_name(number: int) -> str:
    return f"{number:012d}.index"


def settled_name(number: int) -> str:
    return f"{number:012d}.settled"


def sequence_in(rows: bytes, at: i64) -> i64:
    return read_i64_be(rows, at)


def expiry_in(rows: bytes, at: i64) -> i64:
    return read_i64_be(rows, at + 8)


def ordinal_in(rows: bytes, at: i64) -> i64:
    return i64(read_i32_be(rows, at + 24))


def body_size_in(rows: bytes, at: i64) -> i64:
    return i64(read_i32_be(rows, at + 28))


class Row:
    def __init__(self, data: bytes, at: i64) -> None:
        self.sequence: i64 = sequence_in(data, at)
        self.expires_at: i64 = expiry_in(data, at)
        self.offset: i64 = i64(read_i32_be(data, at + 16)) & 0xFFFFFFFF
        size = i64(read_i32_be(data, at + 20))
        self.size: i64 = size & 0x7FFFFFFF
        # Not to be kept over a restart: it is here only because the queue was long.
        self.transient = size < 0
        self.ordinal: i64 = ordinal_in(data, at)
        self.body_size: i64 = body_size_in(data, at)


class LaneRun:
    def __init__(self, lane: i64) -> None:
        self.lane: i64 = lane
        self.count: i64 = 0
        self.transients: i64 = 0
        self.body_bytes: i64 = 0
        self.first_sequence: i64 = 0
        self.last_sequence: i64 = 0
        # Where the rows are in the index file; -1 while they are only in memory.
        self.index_offset: i64 = -1
        self._chunks: list[bytes] = []
        # The chunk that is being filled.
        self._rows = BytesWriter()

    def add(
        self,
        sequence: i64,
        expires_at: i64,
        offset: i64,
        size: i64,
        ordinal: i64,
        body_size: i64,
        transient: bool,
    ) -> None:
        rows = self._rows
        if self.count == 0:
            self.first_sequence = sequence
        write_i64_be(rows, sequence)
        write_i64_be(rows, expires_at)
        write_i32_be(rows, i32(offset if offset < 0x80000000 else offset - 0x100000000))
        write_i32_be(rows, i32(size - 0x80000000 if transient else size))
        write_i32_be(rows, i32(ordinal))
        write_i32_be(rows, i32(body_size))
        if len(rows) == _CHUNK_BYTES:
            self._chunks.append(rows.getvalue())
            rows.truncate(0)
        self.last_sequence = sequence
        self.count += 1
        self.body_bytes += body_size
        if transient:
            self.transients += 1

    def rows_in_memory(self, first: i64, last: i64) -> bytes:
        """Rows [first, last), while they are not in an index file."""
        chunks: list[bytes] = []
        index = first // _CHUNK_ROWS
        while index * _CHUNK_ROWS < last:
            chunk = self._chunks[index] if index < len(self._chunks) else self._rows.getvalue()
            start = index * _CHUNK_ROWS
            chunks.append(chunk[max(0, first - start) * ROW_SIZE : (last - start) * ROW_SIZE])
            index += 1
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def chunks(self) -> list[bytes]:
        """All rows, likewise."""
        return [*self._chunks, self._rows.getvalue()] if len(self._rows) > 0 else list(self._chunks)

    def seal(self) -> None:
        """There will be no more: hold only as much memory as they need."""
        if len(self._rows) > 0:
            self._chunks.append(self._rows.getvalue())
            self._rows = BytesWriter()

    def now_in_file(self, offset: i64) -> None:
        self.index_offset = offset
        self._rows = BytesWriter()
        self._chunks = []

    def is_in_file(self) -> bool:
        return self.index_offset >= 0


# In the address of a settled entry, instead of its ordinal: the marks of that segment are in a file from here on.
MARKS_IN_FILE: Final[i64] = 0xFFFFFFFF


class Segment:
    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.size: i64 = 0
        self.handle = -1
        self.index_handle = -1
        self.sealed = False
        self.entries: i64 = 0
        self.live: i64 = 0
        # One bit per entry: set when it is settled.
        self.settled = bytearray()
        self.runs: list[LaneRun] = []
        # The run that each lane's new entries join.
        self.open_runs: dict[int, LaneRun] = {}
        # Segments that still exist and whose entries were settled by records in this one: it cannot go before them,
        # or before their settled marks are in files of their own.
        self.settles: dict[int, bool] = {}
        self.settled_here = BytesWriter()
        # Segments of which its records say that their settled marks are in a file: one that is missing is noticed.
        self.marked: dict[int, bool] = {}
        # What its records say of lanes: who they are, how far they were delivered, which are gone.
        self.lanes: dict[int, bytes] = {}
        self.watermarks: dict[int, int] = {}
        self.deleted_lanes: list[int] = []
        # How often messages came back, here or in older segments: as its records say it, for they may be millions.
        self.returned: list[bytes] = []
        # Some of its records are SEEN, and of one that was recovered by its records, what they say.
        self.has_seen = False
        self.seen: list[bytes] = []
        # The position from which on it may be worth looking whether its notes of returns still hold.
        self.ask_again_at: i64 = 0
        # The position of the log from which on it is worth rewriting; -1 until it is found sparse.
        self.rewrite_at: i64 = -1
        # Errands that rest on what its records say.
        self.pins: i64 = 0
        # A chore on it is under way.
        self.busy = False
        # The disk failed to read of it: left as it is until the next start.
        self.unreadable = False
        self.indexed = False

    def new_entry(self) -> i64:
        """The ordinal of one more entry."""
        ordinal = self.entries
        self.entries = ordinal + 1
        self.live += 1
        if ordinal & 7 == 0:
            self.settled.append(0)
        return ordinal

    def is_settled(self, ordinal: i64) -> bool:
        """Also what is not in it at all, which only a damaged index can ask for."""
        if ordinal < 0 or ordinal >= self.entries:
            return True
        return self.settled[ordinal >> 3] & (1 << (ordinal & 7)) != 0

    def settle(self, ordinal: i64) -> bool:
        """False when it was settled before, or never was."""
        if self.is_settled(ordinal):
            return False
        self.settled[ordinal >> 3] |= 1 << (ordinal & 7)
        self.live -= 1
        return True

    def open_run(self, lane: i64) -> LaneRun:
        run = self.open_runs.get(lane)
        if run is None:
            run = LaneRun(lane)
            self.open_runs[lane] = run
            self.runs.append(run)
        return run
