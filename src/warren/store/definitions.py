"""Definitions on disk: a log of their changes, written and synced together with the messages.

    000000000001.base         all that was defined when the log of that number was begun
    000000000001.definitions  what has changed since: one record for each turn that changed something

Both begin with the file header of a segment and hold CHANGES records, whose payload is one change after another:
length(4) key length(4) value. A key is the JSON list of kind and names, a value the JSON object; without one, what the
key names is gone. A base ends with a record that says how many changes it has. When the log has outgrown its base, the
thread that syncs makes a new base of the two. Why so: docs/decisions/0022-definitions-in-a-log.md.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i32, i64

from warren.store.chores import Chore
from warren.store.disk import Disk
from warren.store.format import FILE_HEADER_SIZE, SYNCED, file_header, read_file_header, write_record
from warren.store.walk import RecordWalk
from warren.store.whole_files import read_whole

if TYPE_CHECKING:
    from warren.store.log import LogStore

Row = tuple[str, tuple[str, ...], dict[str, object]]

CHANGES: Final = 8
BASE_END: Final = 9
LOG_ENDING: Final = ".definitions"
BASE_ENDING: Final = ".base"
# Stands for a queue that is gone while the message log may not say so yet.
DELETED_QUEUE: Final = "deleted queue"
_QUEUE: Final = b'["queue"'
# One that delays has messages as well.
_EXCHANGE: Final = b'["exchange"'
_DELETED: Final = b'["deleted queue"'
# The room that a log is begun with; one that has grown out of it may be folded into its base.
_LOG_BYTES: Final[i64] = 1 << 20
# Of one record of a base.
_PIECE_BYTES: Final[i64] = 1 << 20


def log_name(number: int) -> str:
    return f"{number:012d}{LOG_ENDING}"


def base_name(number: int) -> str:
    return f"{number:012d}{BASE_ENDING}"


def encode_key(kind: str, key: tuple[str, ...]) -> bytes:
    return json.dumps([kind, *key]).encode()


def write_change(out: BytesWriter, key: bytes, value: bytes) -> None:
    write_i32_be(out, i32(len(key)))
    out.write(key)
    write_i32_be(out, i32(len(value)))
    out.write(value)


def changes_in(payload: bytes) -> list[tuple[bytes, bytes]]:
    """Keys and values of a CHANGES record whose checksum was found right."""
    changes: list[tuple[bytes, bytes]] = []
    at: i64 = 0
    while at < len(payload):
        size = i64(read_i32_be(payload, at))
        key = payload[at + 4 : at + 4 + size]
        at += 4 + size
        size = i64(read_i32_be(payload, at))
        changes.append((key, payload[at + 4 : at + 4 + size]))
        at += 4 + size
    return changes


class Folded:
    """What all changes so far come to."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        # Incarnations of queues that were deleted: what the message log still has of them is to go.
        self.deleted: dict[str, bool] = {}

    def take(self, payload: bytes) -> None:
        for key, value in changes_in(payload):
            if key.startswith((_QUEUE, _EXCHANGE)):
                self._note_deleted(key, value)
            if key.startswith(_DELETED):
                self.deleted[json.loads(key)[1]] = True
            elif value:
                self.values[key] = value
            else:
                self.values.pop(key, None)

    def _note_deleted(self, key: bytes, value: bytes) -> None:
        before = self.values.get(key)
        if before is None:
            return
        old = _incarnation(before)
        if old and (not value or _incarnation(value) != old):
            self.deleted[old] = True

    def take_file(self, data: bytes, number: int, until: i64) -> None:
        walk = RecordWalk(data, FILE_HEADER_SIZE, number, until)
        while walk.next():
            if walk.kind() == CHANGES:
                self.take(walk.payload())

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        for key, value in self.values.items():
            names = json.loads(key)
            rows.append((names[0], tuple(names[1:]), json.loads(value)))
        return rows

    def encode(self, number: int, deleted: list[str]) -> bytes:
        """A base of that number, which also remembers that these queues were deleted."""
        out = BytesWriter()
        out.write(file_header(number, 0))
        piece = BytesWriter()
        for incarnation in deleted:
            write_change(piece, encode_key(DELETED_QUEUE, (incarnation,)), b"{}")
        for key, value in self.values.items():
            write_change(piece, key, value)
            if len(piece) >= _PIECE_BYTES:
                write_record(out, CHANGES, piece.getvalue(), number, len(out))
                piece = BytesWriter()
        if len(piece) > 0:
            write_record(out, CHANGES, piece.getvalue(), number, len(out))
        write_record(out, BASE_END, struct.pack(">Q", len(self.values)), number, len(out))
        return out.getvalue()


def _incarnation(value: bytes) -> str:
    return str(json.loads(value).get("incarnation", ""))


def is_whole_base(data: bytes, number: int) -> bool:
    """From its header to the record that ends it, nothing is damaged or missing."""
    if read_file_header(data, number) < 0:
        return False
    walk = RecordWalk(data, FILE_HEADER_SIZE, number)
    has_end = False
    while walk.next():
        has_end = walk.kind() == BASE_END
    return has_end and not walk.damage


class BaseChore(Chore):
    """Fold a log that is not written any more into a base for the next one, and remove what that replaces."""

    def __init__(self, after: i64, number: int, handle: int) -> None:
        super().__init__(after)
        self.number = number
        self.handle = handle

    def run(self, disk: Disk) -> None:
        folded = Folded()
        for name in (base_name(self.number), log_name(self.number)):
            folded.take_file(read_whole(disk, name), self.number, disk.size(name))
        disk.replace(base_name(self.number + 1), folded.encode(self.number + 1, []))
        # The log first: a base without one is only superfluous.
        for name in (log_name(self.number), base_name(self.number)):
            disk.remove(name)
            disk.sync_directory()


class DefinitionsLog:
    """A Recorder."""

    def __init__(self, store: LogStore, number: int, base_size: i64) -> None:
        self._store = store
        self._disk = store.disk
        self.number = number
        self._base_size: i64 = base_size
        # What has changed since the last write, encoded; empty for what is gone.
        self._pending: dict[bytes, bytes] = {}
        self._unsynced: list[int] = []
        self._new_names = False
        # Up to where the log is known to be durable, as the next record will say, and as the sync under way makes it.
        self._mark = b""
        self._syncing = b""
        self._is_folding = False
        # A log is folded into a new base when it is larger than this, and than twice its base.
        self.fold_at: i64 = _LOG_BYTES
        self.chores: list[Chore] = []
        self.size: i64 = 0
        self.handle = -1
        self._begin()

    def _begin(self) -> None:
        self.handle = self._disk.create(log_name(self.number), int(_LOG_BYTES))
        header = file_header(self.number, 0)
        self._disk.append(self.handle, header)
        self.size = len(header)
        self._unsynced.append(self.handle)
        self._new_names = True

    def put(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None:
        self._change(encode_key(kind, key), json.dumps(value).encode())

    def delete(self, kind: str, key: tuple[str, ...]) -> None:
        self._change(encode_key(kind, key), b"")

    def _change(self, key: bytes, value: bytes) -> None:
        # The last word counts, and stands where it was said: a binding that came back comes after its queue.
        self._pending.pop(key, None)
        self._pending[key] = value
        self._store.position += 1

    # -- with the message log --------------------------------------------------------------------------------------

    def write(self) -> None:
        """All changes of a turn in one record: after a crash they are there together, or not at all."""
        if not self._pending:
            return
        pending, self._pending = self._pending, {}
        payload = BytesWriter()
        for key, value in pending.items():
            write_change(payload, key, value)
        out = BytesWriter()
        write_record(out, CHANGES, payload.getvalue(), self.number, self.size)
        self._append(out)
        if self.size > self.fold_at and self.size > 2 * self._base_size and not self._is_folding:
            self._roll()

    def _append(self, out: BytesWriter) -> None:
        if self._mark:
            write_record(out, SYNCED, self._mark, self.number, self.size + len(out))
            self._mark = b""
        self._disk.append(self.handle, out.getvalue())
        self.size += len(out)
        if self.handle not in self._unsynced:
            self._unsynced.append(self.handle)

    def _roll(self) -> None:
        self._is_folding = True
        self.chores.append(BaseChore(self._store.position, self.number, self.handle))
        self._base_size = self.size
        self.number += 1
        self._begin()

    def begin_sync(self) -> list[int]:
        """The handles of the files that a thread should make durable."""
        unsynced, self._unsynced = self._unsynced, []
        if unsynced:
            self._syncing = struct.pack(">QQ", self.number, self.size)
        return unsynced

    def takes_new_names(self) -> bool:
        new_names, self._new_names = self._new_names, False
        return new_names

    def sync_done(self) -> None:
        if self._syncing:
            self._mark, self._syncing = self._syncing, b""

    def chore_done(self, chore: BaseChore) -> None:
        self._is_folding = False
        self._disk.close(chore.handle)

    def end(self) -> None:
        """Everything written was synced by whoever calls this."""
        if self._mark:
            self._append(BytesWriter())
        self._disk.truncate(self.handle, int(self.size))
        self._disk.sync(self.handle)

    def close(self) -> None:
        self._disk.close(self.handle)
        for chore in self.chores:
            if isinstance(chore, BaseChore):
                self._disk.close(chore.handle)
