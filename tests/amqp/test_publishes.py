"""Frames laid out for many rows at once are those that each message would have by itself."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.publishes import BytesColumn, Publishes, only_mode

FRAME_MAX = 64


def one_by_one(header: str, bodies: list[bytes], targets: list[bytes], which: list[int], first: int) -> list[bytes]:
    frames = []
    for row, (body, number) in enumerate(zip(bodies, which, strict=True), first):
        table = {header: Field("S", f"job/{row}")} if header else None
        properties = encode_properties(Properties(headers=table, delivery_mode=2))
        frames.append(targets[number] + content_frames(3, properties, body, FRAME_MAX))
    return frames


def column(bodies: list[bytes]) -> BytesColumn:
    ends = [0]
    for body in bodies:
        ends.append(ends[-1] + len(body))
    return BytesColumn(b"".join(bodies), struct.pack(f"<{len(ends)}i", *ends))


@given(
    st.lists(st.tuples(st.binary(max_size=200), st.integers(0, 2)), max_size=30),
    st.sampled_from(["", "x-id"]),
    st.integers(1, 40),
    st.integers(1, 500),
)
def test_the_frames_are_those_of_single_messages(
    rows: list[tuple[bytes, int]], header: str, most: int, most_bytes: int
) -> None:
    bodies, which = [body for body, _ in rows], [number for _, number in rows]
    targets = [b"first", b"second", b""]
    publishes = Publishes(3, FRAME_MAX, header.encode(), b"job/")
    publishes.load(column(bodies), only_mode(2), targets, struct.pack(f"<{len(which)}i", *which), 98)
    wanted = one_by_one(header, bodies, targets, which, 98)
    while left := publishes.left:
        frames = publishes.take(most, most_bytes)
        taken = left - publishes.left
        assert 1 <= taken <= most
        assert frames == b"".join(wanted[:taken])
        # The last one may go beyond the limit, and no other.
        assert sum(map(len, wanted[: taken - 1])) < most_bytes
        wanted = wanted[taken:]
    assert wanted == []


def test_one_target_for_all_needs_no_numbers() -> None:
    publishes = Publishes(3, 0, b"", b"")
    publishes.load(column([b"a", b"bc"]), only_mode(1), [b"target"], b"", 0)
    plain = encode_properties(Properties(delivery_mode=1))
    assert publishes.take(9, 9999) == b"".join(b"target" + content_frames(3, plain, body, 0) for body in (b"a", b"bc"))
