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
