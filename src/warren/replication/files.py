"""Files as nodes compare and copy them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Final

from warren.replication import messages
from warren.replication.messages import BLOCK, DIGEST_SIZE, PeerMessage
from warren.store.disk import Disk

# Being written by `replace`: it is the file of that name when it is done.
UNFINISHED: Final = ".new"


def digests_of(disk: Disk, name: str, size: int) -> bytes:
    """Of the whole blocks and the rest that the first `size` bytes of a file consist of."""
    found = b""
    handle = disk.open(name)
    try:
        for offset in range(0, size, BLOCK):
            data = disk.read(handle, min(BLOCK, size - offset), offset)
            found += blake2b(data, digest_size=DIGEST_SIZE).digest()
    finally:
        disk.close(handle)
    return found


class KnownDigests:
    """Of whole blocks of the leader's files, so that they are read once and not for every follower that joins. A block
    stays what it is until its file is cut, replaced or removed.

    Who reads a file asks for its digests first. If they are forgotten meanwhile, what it adds is added to nothing.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, dict[int, bytes]] = {}

    def of(self, name: str) -> dict[int, bytes]:
        """By the number of the block."""
        return self._blocks.setdefault(name, {})

    def forget(self, name: str) -> None:
        self._blocks.pop(name, None)


def copy_differences(
    disk: Disk,
    known: KnownDigests,
    files: dict[str, int],
    have: dict[str, bytes],
    damage_in: Callable[[str, int], list[tuple[int, int]]],
) -> Iterator[PeerMessage]:
    """What a follower that has those digests needs to have these files. A file that goes meanwhile is left out: the op
    that removes it comes later.

    `damage_in` says which parts of a file of that size are not what was written. The follower's may be: what it has of
    a block that is damaged here is left to it, unless it must have what stands before that anew.
    """
    for name, size in files.items():
        blocks = known.of(name)
        try:
            handle = disk.open(name)
        except FileNotFoundError:
            known.forget(name)
            continue
        try:
            parts = partial(damage_in, name, size)
            yield from _from_first_difference(disk, blocks, handle, name, size, have.get(name), parts)
        finally:
            disk.close(handle)


def _from_first_difference(
    disk: Disk,
    blocks: dict[int, bytes],
    handle: int,
    name: str,
    size: int,
    digests: bytes | None,
    damage: Callable[[], list[tuple[int, int]]],
) -> Iterator[PeerMessage]:
    differs = digests is None
    # Asked for when there is a difference.
    damaged: list[tuple[int, int]] | None = None
    if digests is None:
        yield messages.file_from(name, 0)
        digests = b""
    for index, offset in enumerate(range(0, size, BLOCK)):
        theirs = digests[index * DIGEST_SIZE : (index + 1) * DIGEST_SIZE]
        if not differs and blocks.get(index) == theirs:
            continue
        data = disk.read(handle, min(BLOCK, size - offset), offset)
        if not differs:
            own = blake2b(data, digest_size=DIGEST_SIZE).digest()
            if len(data) == BLOCK:
                blocks[index] = own
            if own == theirs:
                continue
            if damaged is None:
                damaged = damage()
            if theirs and any(start < offset + len(data) and end > offset for start, end in damaged):
                continue
            differs = True
            yield messages.file_from(name, offset)
        yield PeerMessage(messages.DATA, data)
