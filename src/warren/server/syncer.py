"""Group commit without a timer: one thread syncs; whatever was written meanwhile is its next batch.

The loop decides what to do (LogStore), the thread only runs it, and the loop hears of the end. An error is final:
nothing that waited for this sync, or a later one, is ever confirmed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

from warren.store.chores import Chore, SyncJob
from warren.store.compaction import compact, sparse_segment
from warren.store.log import LogStore


class Syncer:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: LogStore,
        wake: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._store = store
        self._wake = wake
        self._on_fatal = on_fatal
        self._work: SimpleQueue[SyncJob | Chore | None] = SimpleQueue()
        self._is_busy = False
        self._has_failed = False
        self._has_synced = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="warren-syncer", daemon=True)
        self._thread.start()

    def kick(self) -> None:
        """At the end of a turn: if the thread is free, give it what there is."""
        if self._is_busy or self._has_failed:
            return
        work = self._next_work()
        if work is None:
            self._idle.set()
            return
        self._is_busy = True
        self._idle.clear()
        self._work.put(work)

    def _next_work(self) -> SyncJob | Chore | None:
        """Syncs first, but after each of them one chore: under steady load there is always something to sync."""
        chore = self._store.next_chore() if self._has_synced else None
        work: SyncJob | Chore | None = chore or self._store.begin_sync() or self._store.next_chore()
        self._has_synced = isinstance(work, SyncJob)
        return work

    async def finish(self) -> None:
        """Until everything written is durable."""
        self.kick()
        await self._idle.wait()

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            error: BaseException | None = None
            try:
                work.run(self._store.disk)
            except Exception as problem:  # noqa: BLE001 - whatever it was, the loop must hear that it is not done
                error = problem
            try:
                self._loop.call_soon_threadsafe(self._done, work, error)
            except RuntimeError:
                # The loop is gone: nobody waits for the answer any more.
                return

    def _done(self, work: SyncJob | Chore, error: BaseException | None) -> None:
        self._is_busy = False
        if error is None:
            try:
                self._account_for(work)
            except OSError as problem:
                error = problem
        if error is not None:
            self._has_failed = True
            self._idle.set()
            self._on_fatal(error)
            return
        self._wake()
        self.kick()

    def _account_for(self, work: SyncJob | Chore) -> None:
        if not isinstance(work, SyncJob):
            self._store.chore_done(work)
            return
        self._store.sync_done(work)
        sparse = sparse_segment(self._store)
        if sparse is not None:
            compact(self._store, sparse)
