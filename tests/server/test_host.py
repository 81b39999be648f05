"""When a turn ends: after all that has been sent was read, or at once where one read at a time is all there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from warren.server.clock import Clock
from warren.server.host import LOOK_AROUND, SINGLE_READS, SMALL, LoopHost
from warren.server.passwords import Passwords


class Reads:
    """A host, and a loop of which only what it is to do next is looked at."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []
        self._loop = asyncio.new_event_loop()
        self._loop.call_soon = self._call_soon  # type: ignore[method-assign, assignment]
        self.host = LoopHost(self._loop, Clock(), Passwords(), lambda error: None)

    def _call_soon(self, callback: Callable[[], object], *_: object) -> None:
        self.due.append(callback)

    def close(self) -> None:
        self.host.detach()
        self._loop.close()

    def read(self, size: int = 100, is_alone: bool = False) -> bool:
        """Whether that ended the turn at once."""
        self.host.hold()
        self.host.wake()
        self.host.let_go(is_alone, size)
        return not self.due

    def turn(self, size: int = 100) -> bool:
        """The same, and then the loop goes on."""
        at_once = self.read(size)
        self.finish()
        return at_once

    def finish(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


@pytest.fixture
def reads() -> Iterator[Reads]:
    made = Reads()
    yield made
    made.close()


def test_a_peer_alone_is_answered_at_once(reads: Reads) -> None:
    assert reads.read(is_alone=True)


def test_turns_of_one_small_read_end_at_once_after_a_while(reads: Reads) -> None:
    assert not any(reads.turn() for _ in range(SINGLE_READS))
    assert sum(reads.turn() for _ in range(LOOK_AROUND)) == LOOK_AROUND - 1


def test_peers_that_speak_in_one_turn_are_answered_together(reads: Reads) -> None:
    for _ in range(SINGLE_READS):
        reads.turn()
    # One of these looks around, and finds that another has spoken meanwhile.
    while reads.read():
        continue
    assert not reads.read()
    assert len(reads.due) == 1
    reads.finish()
    assert not reads.turn()


def test_bulk_is_read_from_all_before_anything_is_answered(reads: Reads) -> None:
    for _ in range(SINGLE_READS * 2):
        reads.turn()
    assert not reads.turn(SMALL)
    assert not reads.turn()
