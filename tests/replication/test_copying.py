"""Which blocks of a file are copied to a follower that has another one."""

from __future__ import annotations

from random import Random

import pytest

from tests.store.simulated_disk import SimulatedDisk
from warren.replication import messages
from warren.replication.files import KnownDigests, copy_differences, digests_of
from warren.replication.messages import BLOCK

WHOLE = Random(3).randbytes(3 * BLOCK + 7)


def changed(data: bytes, *blocks: int) -> bytes:
    found = bytearray(data)
    for block in blocks:
        found[block * BLOCK + 10] ^= 1
    return bytes(found)


def sent(leader: bytes, follower: bytes, damage: list[tuple[int, int]]) -> bytes:
    """All data that goes over."""
    disk, other = SimulatedDisk({"f": leader}), SimulatedDisk({"f": follower})
    have = {"f": digests_of(other, "f", len(follower))}
    parts = list(copy_differences(disk, KnownDigests(), {"f": len(leader)}, have, lambda _name, _size: damage))
    assert (disk.handles, other.handles) == ({}, {})
    return b"".join(part.payload for part in parts if part.kind == messages.DATA)


def test_from_the_first_difference_on_all_is_sent_whether_it_differs_or_not() -> None:
    assert sent(WHOLE, changed(WHOLE, 1), []) == WHOLE[BLOCK:]
    assert sent(WHOLE, changed(WHOLE, 1, 2), []) == WHOLE[BLOCK:]
    assert sent(WHOLE, WHOLE, []) == b""


@pytest.mark.parametrize(
    ("part", "is_sent"),
    [
        ((0, 5), True),
        ((0, BLOCK), True),
        ((0, BLOCK + 1), False),
        ((BLOCK + 5, BLOCK + 6), False),
        ((2 * BLOCK - 1, 2 * BLOCK), False),
        ((2 * BLOCK, 3 * BLOCK), True),
    ],
)
def test_a_block_is_left_to_the_follower_if_the_damage_is_in_it_and_not_beside_it(
    part: tuple[int, int], is_sent: bool
) -> None:
    assert bool(sent(WHOLE, changed(WHOLE, 1), [part])) == is_sent


def test_what_stands_behind_the_size_of_a_file_is_not_compared() -> None:
    for size in (0, 5, BLOCK, BLOCK + 5, 3 * BLOCK):
        assert digests_of(SimulatedDisk({"f": WHOLE}), "f", size) == digests_of(
            SimulatedDisk({"f": WHOLE[:size]}), "f", size
        )
