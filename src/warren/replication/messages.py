"""What nodes say to each other: kind(1) length(4) payload, after both have proved that they know the secret.

follower  HELLO            who I am, the highest epoch that I know of, and of which moment my files are, if I know
leader    RESUME           so were mine when this epoch began: all its ops follow
leader    MANIFEST         otherwise: the files as they were at an op, with their sizes
follower  HAVE             what I have of them: a digest for every block
leader    FILE, DATA ...   from where a file differs, and its bytes from there on
leader    CAUGHT_UP        that was all; files that went meanwhile were left out, as ops up to this one tell
leader    OPS ...          what came since, as it happens
follower  ACK              all up to this op is durable here
leader    HEARTBEAT        I am still here, and all up to this op is durable on every member of the in-sync set
either    FENCED           I know of a higher epoch than yours
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from warren.replication.ops import Op, OpMoment, decode_ops

HELLO: Final = 1
MANIFEST: Final = 2
HAVE: Final = 3
FILE: Final = 4
DATA: Final = 5
CAUGHT_UP: Final = 6
OPS: Final = 7
ACK: Final = 8
HEARTBEAT: Final = 9
FENCED: Final = 10
RESUME: Final = 11

HEAD: Final = struct.Struct(">BI")
_PAIR: Final = struct.Struct(">QQ")
# A message is refused before memory is spent on it: the largest is an op that replaces a file.
MESSAGE_MAX: Final = 1 << 30
# Files are compared and sent in blocks of so many bytes.
BLOCK: Final = 1 << 20
DIGEST_SIZE: Final = 16


class Garbled(Exception):
    """Not what a node of ours would say."""


@dataclass(frozen=True)
class PeerMessage:
    kind: int
    payload: bytes = b""

    def encode(self) -> bytes:
        return HEAD.pack(self.kind, len(self.payload)) + self.payload


class Splitter:
    """Bytes as they come in, to whole messages."""

    def __init__(self) -> None:
        # What came since the last whole message, and how much of that there must be before there is another.
        self._parts: list[bytes] = []
        self._size = 0
        self._needed = HEAD.size

    def feed(self, data: bytes | memoryview) -> list[PeerMessage]:
        """Nothing of it is kept but copies: it may be a buffer that is used again."""
        self._size += len(data)
        if self._size < self._needed:
            self._parts.append(bytes(data))
            return []
        whole = b"".join([*self._parts, data]) if self._parts else data
        found: list[PeerMessage] = []
        at = 0
        self._needed = HEAD.size
        while len(whole) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(whole, at)
            if not HELLO <= kind <= RESUME or length > MESSAGE_MAX:
                raise Garbled(f"a message of kind {kind} and {length} bytes")
            start = at + HEAD.size
            if len(whole) - start < length:
                self._needed = HEAD.size + length
                break
            found.append(PeerMessage(kind, bytes(whole[start : start + length])))
            at = start + length
        self._parts = [bytes(whole[at:])] if at < len(whole) else []
        self._size = len(whole) - at
        return found


def short(text: str) -> bytes:
    raw = text.encode()
    return bytes([len(raw)]) + raw


def hello(uuid: str, epoch: int, moment: OpMoment | None) -> PeerMessage:
    """A leader of an older release does not know of moments, and must not be told of one."""
    known = b"" if moment is None else b"\0" + _PAIR.pack(*moment)
    return PeerMessage(HELLO, struct.pack(">Q", epoch) + uuid.encode() + known)


def read_hello(payload: bytes) -> tuple[str, int, OpMoment | None]:
    uuid, has_moment, moment = payload[8:].partition(b"\0")
    known = OpMoment(*read_numbers(moment)) if has_moment else None
    return uuid.decode(), int(struct.unpack(">Q", payload[:8])[0]), known


def numbers(kind: int, first: int, second: int = 0) -> PeerMessage:
    return PeerMessage(kind, _PAIR.pack(first, second))


def read_numbers(payload: bytes) -> tuple[int, int]:
    first, second = _PAIR.unpack(payload)
    return int(first), int(second)


def manifest(epoch: int, op: int, files: dict[str, int]) -> PeerMessage:
    return PeerMessage(MANIFEST, _files(epoch, op, files))


def resume(epoch: int, files: dict[str, int]) -> PeerMessage:
    """The files as they were before the first op. Read as a manifest is."""
    return PeerMessage(RESUME, _files(epoch, 0, files))


def _files(epoch: int, op: int, files: dict[str, int]) -> bytes:
    return _PAIR.pack(epoch, op) + b"".join(short(name) + struct.pack(">Q", size) for name, size in files.items())


def read_manifest(payload: bytes) -> tuple[int, int, dict[str, int]]:
    epoch, op = _PAIR.unpack_from(payload)
    files: dict[str, int] = {}
    at = _PAIR.size
    while at < len(payload):
        name, at = _name_at(payload, at)
        files[name] = struct.unpack_from(">Q", payload, at)[0]
        at += 8
    return epoch, op, files


def have(files: dict[str, bytes]) -> PeerMessage:
    """By file the digests of its blocks, one after another."""
    return PeerMessage(
        HAVE, b"".join(short(name) + struct.pack(">I", len(digests)) + digests for name, digests in files.items())
    )


def read_have(payload: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    at = 0
    while at < len(payload):
        name, at = _name_at(payload, at)
        (size,) = struct.unpack_from(">I", payload, at)
        files[name] = payload[at + 4 : at + 4 + size]
        at += 4 + size
    return files


def file_from(name: str, offset: int) -> PeerMessage:
    return PeerMessage(FILE, short(name) + struct.pack(">Q", offset))


def read_file_from(payload: bytes) -> tuple[str, int]:
    name, at = _name_at(payload, 0)
    return name, int(struct.unpack_from(">Q", payload, at)[0])


def caught_up(op: int) -> PeerMessage:
    return PeerMessage(CAUGHT_UP, struct.pack(">Q", op))


def read_caught_up(payload: bytes) -> int:
    """An older release does not say."""
    return int(struct.unpack(">Q", payload)[0]) if payload else 0


def ops(found: list[Op]) -> list[bytes]:
    """The whole message in pieces to be written one after another: what was written to files is not copied for it. None
    of them is empty, which not every transport bears."""
    pieces: list[bytes] = [b""]
    size = 8
    for op in found:
        head = op.head()
        pieces.append(head)
        if op.data:
            pieces.append(op.data)
        size += len(head) + len(op.data)
    pieces[0] = HEAD.pack(OPS, size) + struct.pack(">Q", found[0].number)
    return pieces


def read_ops(payload: bytes) -> list[Op]:
    return decode_ops(struct.unpack_from(">Q", payload)[0], payload, 8)


def _name_at(payload: bytes, at: int) -> tuple[str, int]:
    size = payload[at]
    return payload[at + 1 : at + 1 + size].decode(), at + 1 + size
