"""Slow work for many: everybody has a line of their own, and the threads take from each in turn.

So somebody who brings a thousand pieces waits for them; somebody who brings one waits for one of theirs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any


class FairLine:
    def __init__(self, loop: asyncio.AbstractEventLoop, threads: ThreadPoolExecutor, count: int) -> None:
        self._loop = loop
        self._threads = threads
        self._free = count
        # By who brings it; whose turn it is in front.
        self._lines: dict[str, deque[tuple[asyncio.Future[Any], Callable[[], Any]]]] = {}

    def join(self, who: str, work: Callable[..., Any], *arguments: object) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = self._loop.create_future()
        self._lines.setdefault(who, deque()).append((done, partial(work, *arguments)))
        self._take()
        return done

    def close(self) -> None:
        """Nothing more is begun: who waits is told that it will not be."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            for done, _ in line:
                done.cancel()

    def _take(self) -> None:
        while self._free > 0 and self._lines:
            who = next(iter(self._lines))
            line = self._lines.pop(who)
            done, work = line.popleft()
            if line:
                self._lines[who] = line
            if done.cancelled():
                continue
            self._free -= 1
            running = self._loop.run_in_executor(self._threads, work)
            running.add_done_callback(partial(self._worked, done))

    def _worked(self, done: asyncio.Future[Any], running: asyncio.Future[Any]) -> None:
        self._free += 1
        if not done.cancelled():
            if running.cancelled():
                done.cancel()
            elif (error := running.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(running.result())
        self._take()
