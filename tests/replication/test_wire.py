"""What nodes say to each other, to the byte: releases that differ by one work together only if it stays so."""

from __future__ import annotations

from random import Random

import pytest

from tests.replication.wire import heard
from warren.replication import messages
from warren.replication.messages import PeerMessage, Splitter
from warren.replication.ops import APPEND, CREATE, REMOVE, REPLACE, TRUNCATE, Op, OpMoment

OPS = [
    Op(7, CREATE, "1.log", 4096),
    Op(8, APPEND, "1.log", 5, b"data"),
    Op(9, TRUNCATE, "1.log", 3),
    Op(10, REPLACE, "base", 0, b"whole"),
    Op(11, REMOVE, "é"),
]
OPS_BYTES = (
    "070000006c00000000000000070105312e6c6f670000000000001000000000000205312e6c6f670000000000000005000000046461"
    "74610305312e6c6f6700000000000000030000000004046261736500000000000000000000000577686f6c650502c3a90000000000"
    "00000000000000"
)
SAID = {
    "hello": ([messages.hello("uuid", 3, None).encode()], "010000000c000000000000000375756964"),
    "hello of a moment": (
        [messages.hello("uuid", 3, OpMoment(2, 9)).encode()],
        "010000001d0000000000000003757569640000000000000000020000000000000009",
    ),
    "manifest": (
        [messages.manifest(3, 7, {"1.log": 12}).encode()],
        "020000001e0000000000000003000000000000000705312e6c6f67000000000000000c",
    ),
    "resume": (
        [messages.resume(3, {"1.log": 12}).encode()],
        "0b0000001e0000000000000003000000000000000005312e6c6f67000000000000000c",
    ),
    "have": (
        [messages.have({"1.log": b"D" * 16}).encode()],
        "030000001a05312e6c6f670000001044444444444444444444444444444444",
    ),
    "file": ([messages.file_from("1.log", 4).encode()], "040000000e05312e6c6f670000000000000004"),
    "data": ([PeerMessage(messages.DATA, b"bytes").encode()], "05000000056279746573"),
    "caught up": ([messages.caught_up(7).encode()], "06000000080000000000000007"),
    "ops": (
        messages.ops(OPS),
        OPS_BYTES,
    ),
    "ack": ([messages.numbers(messages.ACK, 3, 11).encode()], "08000000100000000000000003000000000000000b"),
    "heartbeat": ([messages.numbers(messages.HEARTBEAT, 3, 11).encode()], "09000000100000000000000003000000000000000b"),
    "fenced": ([messages.numbers(messages.FENCED, 4).encode()], "0a0000001000000000000000040000000000000000"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_message_is_these_bytes(name: str) -> None:
    pieces, golden = SAID[name]
    assert b"".join(pieces).hex() == golden


def test_ops_are_read_as_they_were_made() -> None:
    assert messages.read_ops(heard(messages.ops(OPS)).payload) == OPS


def test_what_ops_carry_is_handed_on_and_not_copied() -> None:
    written = b"as the store wrote it"
    assert any(piece is written for piece in messages.ops([Op(1, APPEND, "f", 0, written)]))
    assert all(messages.ops(OPS))


@pytest.mark.parametrize("seed", range(20))
def test_all_kinds_are_put_together_from_any_pieces(seed: int) -> None:
    random, splitter = Random(seed), Splitter()
    wire = b"".join(piece for pieces, _ in SAID.values() for piece in pieces)
    found: list[PeerMessage] = []
    # One that is used again for each of them.
    buffer = bytearray(1000)
    while wire:
        part, wire = wire[: (size := random.choice((1, 4, 5, 6, 40, 1000)))], wire[size:]
        buffer[: len(part)] = part
        found += splitter.feed(memoryview(buffer)[: len(part)])
    assert found == [heard(pieces) for pieces, _ in SAID.values()]
