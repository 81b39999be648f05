"""Ops: every change to a file of the store, in the order in which the leader made them, numbered from 1 in each epoch.

    op      kind(1) name: short string  at(8) length(4) data

`at` is where an append begins, the room of a new file, or the size that a file is cut to.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Final, NamedTuple

CREATE: Final = 1
APPEND: Final = 2
TRUNCATE: Final = 3
REPLACE: Final = 4
REMOVE: Final = 5

_FACTS: Final = struct.Struct(">QI")
# What the leader keeps of the past: a follower that is further behind copies files instead.
WINDOW_BYTES: Final = 64 * 1024 * 1024
# What an op without data counts, so that there are not too many of them either.
_OP_BYTES: Final = 256


class OpMoment(NamedTuple):
    """A state of files: what the leader of that epoch had after this op, and nothing else. Two nodes whose files are of
    the same moment have the same."""

    epoch: int
    op: int


class Op(NamedTuple):
    number: int
    kind: int
    name: str
    at: int = 0
    data: bytes = b""

    def head(self) -> bytes:
        """All that stands before its data."""
        name = self.name.encode()
        return bytes([self.kind, len(name)]) + name + _FACTS.pack(self.at, len(self.data))


def decode_ops(first: int, data: bytes, start: int) -> list[Op]:
    """Raises ValueError or struct.error when they are none."""
    ops: list[Op] = []
    at = start
    while at < len(data):
        kind, size = data[at], data[at + 1]
        name = data[at + 2 : at + 2 + size].decode()
        at += 2 + size
        place, length = _FACTS.unpack_from(data, at)
        at += _FACTS.size
        if at + length > len(data):
            raise ValueError("an op is cut off")
        ops.append(Op(first + len(ops), kind, name, place, data[at : at + length]))
        at += length
    return ops


class Window:
    """The last ops of this epoch, for followers that keep up with them."""

    def __init__(self, limit: int = WINDOW_BYTES) -> None:
        self.last = 0
        self._limit = limit
        self._ops: deque[Op] = deque()
        self._bytes = 0
        # Bytes of all ops so far, and of all that were forgotten: how far behind somebody is.
        self.total_bytes = 0
        self._forgotten_bytes = 0

    def add(self, kind: int, name: str, at: int = 0, data: bytes = b"") -> None:
        self.last += 1
        self._ops.append(Op(self.last, kind, name, at, data))
        self._bytes += len(data) + _OP_BYTES
        self.total_bytes += len(data)
        while self._bytes > self._limit:
            gone = self._ops.popleft()
            self._bytes -= len(gone.data) + _OP_BYTES
            self._forgotten_bytes += len(gone.data)

    def has_after(self, op: int) -> bool:
        """Whether all that came after this op is still here."""
        return op >= self.last - len(self._ops)

    def after(self, op: int, limit: int) -> list[Op]:
        """Those that follow this op, as many as have that many bytes and at least one; has_after was asked."""
        found: list[Op] = []
        size = 0
        for index in range(len(self._ops) - (self.last - op), len(self._ops)):
            each = self._ops[index]
            if found and size + len(each.data) > limit:
                break
            found.append(each)
            size += len(each.data)
        return found

    def bytes_after(self, op: int) -> int:
        if not self.has_after(op):
            return self.total_bytes - self._forgotten_bytes
        start = len(self._ops) - (self.last - op)
        return sum(len(self._ops[index].data) for index in range(start, len(self._ops)))
