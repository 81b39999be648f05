"""Many who wait equally long share one timer of the loop."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from typing import Any

from warren.server.turn.timers import Line


class CountingLoop(asyncio.SelectorEventLoop):
    timers = 0

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)


def test_all_are_called_in_order_and_none_before_its_time() -> None:
    called: list[tuple[int, float]] = []
    joined: list[float] = []

    async def play() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        all_called = asyncio.Event()

        def call(member: int) -> None:
            called.append((member, loop.time()))
            if len(called) == 200:
                all_called.set()

        line = Line(loop, 0.05, call)
        before = loop.timers
        for member in range(100):
            joined.append(loop.time())
            line.join(member)
        assert loop.timers == before + 1
        await asyncio.sleep(0.02)
        for member in range(100, 200):
            joined.append(loop.time())
            line.join(member)
        await asyncio.wait_for(all_called.wait(), 60)
        return loop.timers - before

    loop = CountingLoop()
    try:
        timers = loop.run_until_complete(play())
    finally:
        loop.close()
    assert [member for member, _ in called] == list(range(200))
    assert all(at - joined[member] >= 0.05 for member, at in called)
    # The pause and the wait for the end have one each.
    assert timers < 200


def test_who_joins_an_empty_line_again_is_called_again() -> None:
    async def play() -> list[str]:
        loop = asyncio.get_running_loop()
        called: asyncio.Queue[str] = asyncio.Queue()
        line = Line(loop, 0.001, called.put_nowait)
        found = []
        for name in ("a", "b"):
            line.join(name)
            found.append(await asyncio.wait_for(called.get(), 60))
        return found

    assert asyncio.run(play()) == ["a", "b"]


def test_those_who_come_one_by_one_are_let_go_a_few_at_a_time() -> None:
    """A connection a millisecond must not be a timer a millisecond."""

    async def play() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        all_called = asyncio.Event()
        called: list[int] = []

        def call(member: int) -> None:
            called.append(member)
            if len(called) == 1000:
                all_called.set()

        line = Line(loop, 0.05, call)
        for member in range(1000):
            line.join(member)
            until = loop.time() + 0.0001
            while loop.time() < until:
                pass
        before = loop.timers
        await asyncio.wait_for(all_called.wait(), 60)
        assert called == list(range(1000))
        return loop.timers - before

    loop = CountingLoop()
    try:
        # Spread over 0.1 s of waiting, at one look every 5 ms; each look on a busy machine takes more along.
        assert loop.run_until_complete(play()) <= 25
    finally:
        loop.close()
