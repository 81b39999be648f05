"""A follower: it makes its files those of the leader, then every change that the leader tells of, and says when that is
durable.

It is driven by messages and does its disk work at once. `sync` ends a batch of them: only what is durable is
acknowledged, and only to the highest epoch that it has ever heard of.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

from warren.replication import messages
from warren.replication.committed import Committed
from warren.replication.files import UNFINISHED, digests_of
from warren.replication.messages import Garbled, PeerMessage
from warren.replication.ops import APPEND, CREATE, REMOVE, REPLACE, TRUNCATE, Op, OpMoment
from warren.store.disk import Disk
from warren.store.whole_files import cut_and_sync

_OPEN_FILES_MAX: Final = 64


class NodeMemory(Protocol):
    """What a node must not forget. Durable when the call returns."""

    @property
    def epoch(self) -> int: ...

    def remember_epoch(self, epoch: int) -> None: ...

    def remember_copying(self, is_copying: bool) -> None:
        """While files are copied they are no state that anybody may lead with."""


class Fenced(Exception):
    """The leader's epoch is over."""


class Follower:
    def __init__(self, disk: Disk, uuid: str, memory: NodeMemory, moment: OpMoment | None = None) -> None:
        self._disk = disk
        self._uuid = uuid
        self._memory = memory
        # Of which the files are, durably; None while that is not known, or they are of none.
        self.moment = moment
        # All up to this op was done, and up to that one made durable.
        self.done = 0
        self.durable = 0
        self.is_streaming = False
        self._epoch = 0
        self._cut = 0
        self._files: dict[str, int] = {}
        # How much of the files that are open was written.
        self._sizes: dict[str, int] = {}
        self._names: set[str] = set()
        self._handles: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._has_new_names = False
        self._copying: str | None = None
        # Until then its files are those of no moment.
        self._whole_at = 0
        self._is_copying = False
        # What may be shown of the files, and how that has changed since it was last taken.
        self._committed = Committed(0, {})
        self._changed: dict[str, int] = {}

    def greeting(self) -> PeerMessage:
        return messages.hello(self._uuid, self._memory.epoch, self.moment)

    def receive(self, message: PeerMessage) -> list[PeerMessage]:
        """Raises Fenced, or Garbled; OSError when the disk fails."""
        try:
            return self._receive(message)
        except (struct.error, ValueError, IndexError) as error:
            raise Garbled(str(error)) from error

    def _receive(self, message: PeerMessage) -> list[PeerMessage]:
        kind, payload = message.kind, message.payload
        if kind == messages.OPS:
            self._take_ops(messages.read_ops(payload))
        elif kind == messages.HEARTBEAT:
            epoch, committed = messages.read_numbers(payload)
            self._check(epoch)
            if self.is_streaming:
                # Others may have more than this node.
                self._changed.update(self._committed.reach(min(committed, self.done)))
            return self.acknowledgement()
        elif kind == messages.MANIFEST:
            return [self._compare(*messages.read_manifest(payload))]
        elif kind == messages.RESUME:
            epoch, _, files = messages.read_manifest(payload)
            self._resume(epoch, files)
            return self.acknowledgement()
        elif kind == messages.FILE:
            self._begin_file(*messages.read_file_from(payload))
        elif kind == messages.DATA:
            self._append_copy(payload)
        elif kind == messages.CAUGHT_UP:
            self._finish_copy(messages.read_caught_up(payload))
        elif kind == messages.FENCED:
            raise Fenced(str(messages.read_numbers(payload)[0]))
        else:
            raise Garbled(f"kind {kind} from a leader")
        return []

    def _check(self, epoch: int) -> None:
        if epoch < self._memory.epoch:
            raise Fenced(f"the leader is of epoch {epoch}, and there was one of {self._memory.epoch}")

    # -- copying ---------------------------------------------------------------------------------------------------

    def _begin(self, epoch: int, op: int, files: dict[str, int]) -> None:
        self._check(epoch)
        if epoch > self._memory.epoch:
            self._memory.remember_epoch(epoch)
        self._epoch, self._cut, self._files = epoch, op, files
        self.is_streaming = False
        self.moment = None
        self._close_all()

    def _compare(self, epoch: int, op: int, files: dict[str, int]) -> PeerMessage:
        self._begin(epoch, op, files)
        # From here on, until all is copied, this folder is nobody's state.
        self._is_copying = True
        self._memory.remember_copying(True)
        found: dict[str, bytes] = {}
        self._names = set()
        for name in self._disk.names():
            if name in files and not name.endswith(UNFINISHED):
                self._names.add(name)
                found[name] = digests_of(self._disk, name, min(files[name], self._disk.size(name)))
            else:
                self._disk.remove(name)
        self._disk.sync_directory()
        return messages.have(found)

    def _begin_file(self, name: str, offset: int) -> None:
        if name not in self._files:
            raise Garbled(f"{name} is in no manifest")
        self._copying = name
        if name in self._names:
            self._open(name, min(offset, self._disk.size(name)))
        else:
            self._create(name, 0)
        if self._sizes[name] != offset:
            raise Garbled(f"{name} from {offset} on, of which {self._sizes[name]} bytes are here")

    def _append_copy(self, data: bytes) -> None:
        if self._copying is None:
            raise Garbled("data of no file")
        self._append(self._copying, data)

    def _finish_copy(self, whole_at: int) -> None:
        self._copying = None
        self._make_durable()
        self._close_all()
        for name, size in self._files.items():
            # One that is not here went meanwhile; one that is longer has a tail that never counted; and one that was
            # equal may be so only in the memory of the operating system.
            if name in self._names:
                cut_and_sync(self._disk, name, size)
        self._disk.sync_directory()
        # A file that went while others were copied was left out, or is here as it was. What made it superfluous comes
        # with the next ops, and before them this is nobody's state.
        self._stream_from(self._cut, max(whole_at, self._cut))

    def _resume(self, epoch: int, files: dict[str, int]) -> None:
        """The leader began with the files that are here."""
        if self.moment is None:
            raise Garbled("these files are of no moment that the leader could know")
        self._begin(epoch, 0, files)
        here = self._disk.names()
        self._names = {name for name in here if not name.endswith(UNFINISHED)}
        if self._names != set(files):
            raise Garbled("these files are others than the leader's, which are said to be of the same moment")
        for name in here:
            if name not in files:
                self._disk.remove(name)
            elif self._disk.size(name) > files[name]:
                # The room that one of them was created with.
                cut_and_sync(self._disk, name, files[name])
        self._stream_from(0, 0)

    def _stream_from(self, op: int, whole_at: int) -> None:
        self.done = self.durable = op
        self._whole_at = whole_at
        files = {name: size for name, size in self._files.items() if name in self._names}
        self._committed = Committed(whole_at, files)
        self._changed = {}
        self.is_streaming = True
        self._end_copy()

    # -- following -------------------------------------------------------------------------------------------------

    def _take_ops(self, ops: list[Op]) -> None:
        if not self.is_streaming:
            raise Garbled("ops before the files")
        for op in ops:
            if op.number <= self.done:
                continue
            if op.number != self.done + 1:
                raise Garbled(f"op {op.number} after {self.done}")
            self.moment = None
            self._do(op)
            self.done = op.number
            self._committed.note(op)

    def _do(self, op: Op) -> None:
        name = op.name
        if op.kind == APPEND:
            if name not in self._names:
                # It went before it could be copied, as a later op will tell.
                return
            if name not in self._handles:
                self._open(name, op.at)
            if self._sizes[name] != op.at:
                raise Garbled(f"{name} goes on at {op.at}, and {self._sizes[name]} bytes are here")
            self._append(name, op.data)
        elif op.kind == CREATE:
            self._close(name)
            if name in self._names:
                self._disk.remove(name)
            self._create(name, op.at)
        else:
            # What the leader did only when all before was durable.
            self._make_durable()
            self._close(name)
            if op.kind == REPLACE:
                self._disk.replace(name, op.data)
                self._names.add(name)
            elif name in self._names:
                self._shorten(name, op)

    def _shorten(self, name: str, op: Op) -> None:
        if op.kind == REMOVE:
            self._disk.remove(name)
            self._names.discard(name)
            self._has_new_names = True
        elif op.kind == TRUNCATE:
            self._open(name, op.at)
            self._dirty.add(name)
        else:
            raise Garbled(f"an op of kind {op.kind}")

    def sync(self) -> list[PeerMessage]:
        """Everything that was done becomes durable, and is acknowledged."""
        if not self.is_streaming or self.durable == self.done:
            return []
        self._make_durable()
        self.durable = self.done
        return self.acknowledgement()

    def acknowledgement(self) -> list[PeerMessage]:
        """Of what is durable, if that is a whole state of the leader's files."""
        self._end_copy()
        if not self.is_streaming or self._is_copying:
            return []
        if self.durable == self.done:
            self.moment = OpMoment(self._epoch, self.done)
        return [messages.numbers(messages.ACK, self._epoch, self.durable)]

    def _end_copy(self) -> None:
        if self._is_copying and self.is_streaming and self.durable >= self._whole_at:
            self._is_copying = False
            self._memory.remember_copying(False)

    def take_committed(self) -> dict[str, int]:
        """What of the files has become fit to be shown: by name up to where, or GONE; the first time all of them."""
        changed, self._changed = self._changed, {}
        return changed

    # -- files -----------------------------------------------------------------------------------------------------

    def _create(self, name: str, room: int) -> None:
        self._remember(name, self._disk.create(name, room), 0)
        self._names.add(name)
        self._has_new_names = True

    def _open(self, name: str, size: int) -> None:
        """To go on after its first `size` bytes."""
        self._close(name)
        self._remember(name, self._disk.reopen(name, size), size)

    def _remember(self, name: str, handle: int, size: int) -> None:
        if len(self._handles) >= _OPEN_FILES_MAX:
            for other in [other for other in self._handles if other not in self._dirty]:
                self._close(other)
        self._handles[name] = handle
        self._sizes[name] = size

    def _append(self, name: str, data: bytes) -> None:
        self._disk.append(self._handles[name], data)
        self._sizes[name] += len(data)
        self._dirty.add(name)

    def _make_durable(self) -> None:
        for name in self._dirty:
            self._disk.sync(self._handles[name])
        self._dirty.clear()
        if self._has_new_names:
            self._disk.sync_directory()
            self._has_new_names = False

    def _close(self, name: str) -> None:
        handle = self._handles.pop(name, None)
        if handle is not None:
            if name in self._dirty:
                self._disk.sync(handle)
                self._dirty.discard(name)
            self._disk.close(handle)

    def _close_all(self) -> None:
        for name in list(self._handles):
            self._close(name)

    def close(self) -> None:
        self._close_all()
