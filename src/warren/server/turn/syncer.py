"""Group commit without a timer: one thread syncs; whatever was written meanwhile is its next batch.

The loop decides what to do (LogStore), the thread only runs it, and the loop hears of the end. An error is final:
nothing that waited for this sync, or a later one, is ever confirmed.

Handing a sync to the thread and hearing of it costs almost as much as the sync of a fast disk, and is done so that
nobody else waits for the disk. Where there is nobody else, the loop syncs by itself: decision 0013.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Protocol

from warren.store.chores import Chore, SyncJob
from warren.store.log import LogStore

# Seconds that a sync may take, and how many in a row must have, before the loop waits for one.
QUICK: Final = 0.002
QUICK_ENOUGH: Final = 16
# Changes that the sync is for. A peer who sends many does not wait for each, and more of them can come meanwhile.
FEW: Final = 8


class Mirrors(Protocol):
    """Those who must have it too before anything is answered."""

    def last_op(self) -> int: ...

    def has(self, op: int) -> bool: ...

    def answered(self, op: int) -> None: ...


class Syncer:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: LogStore,
        wake: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
        is_one_alone: Callable[[], bool],
        mirrors: Mirrors | None = None,
    ) -> None:
        self._loop = loop
        self._store = store
        self._wake = wake
        self._on_fatal = on_fatal
        self._is_one_alone = is_one_alone
        self._mirrors = mirrors
        # The last op that the sync under way is for, and the sync itself while it is durable here but not there.
        self._op = 0
        self._unmirrored: tuple[SyncJob, float] | None = None
        # Syncs in a row that were quick.
        self._quick = 0
        self._work: SimpleQueue[SyncJob | Chore | None] = SimpleQueue()
        self._is_busy = False
        self._given_at = 0.0
        self._has_failed = False
        self._has_synced = False
        self._idle = asyncio.Event()
        self._idle.set()
        # As the event says, which is asked for at the end of every turn.
        self._is_idle = True
        self._worker = threading.Thread(target=self._run, name="warren-syncer", daemon=True)
        self._worker.start()

    def kick(self) -> bool:
        """At the end of a turn: if the thread is free, give it what there is. True when it is durable already."""
        if self._is_busy or self._has_failed:
            return False
        work = self._next_work() if self._store.has_work() else None
        if work is None:
            if not self._is_idle:
                self._is_idle = True
                self._idle.set()
            return False
        if isinstance(work, SyncJob) and self._is_for_one_alone(work):
            return self._account_for(work, *self._timed(work))
        if self._mirrors is not None:
            self._op = self._mirrors.last_op()
        self._is_busy = True
        self._is_idle = False
        self._idle.clear()
        self._given_at = time.monotonic()
        self._work.put(work)
        return False

    def is_done(self) -> bool:
        """Nothing that was written is still to be made durable, nor any file work to be done."""
        store = self._store
        # Not what was written: a part of a turn that is not over may be in the files already.
        return store.position == store.synced and not (self._is_busy or self._has_failed or store.has_work())

    def stalled_for(self) -> float:
        """Seconds that the disk has been at one piece of work."""
        is_at_it = self._is_busy and self._unmirrored is None
        return time.monotonic() - self._given_at if is_at_it else 0.0

    def _is_for_one_alone(self, job: SyncJob) -> bool:
        return (
            self._mirrors is None
            and self._quick >= QUICK_ENOUGH
            and job.position - self._store.synced <= FEW
            and not job.new_names
            and self._is_one_alone()
        )

    def _next_work(self) -> SyncJob | Chore | None:
        """Syncs first, but after each of them one chore: under steady load there is always something to sync."""
        chore = self._store.next_chore() if self._has_synced else None
        work: SyncJob | Chore | None = chore or self._store.begin_sync() or self._store.next_chore()
        self._has_synced = isinstance(work, SyncJob)
        return work

    def mirrored(self) -> None:
        """More is durable elsewhere, or fewer are waited for."""
        if self._unmirrored is not None and self._mirrors is not None and self._mirrors.has(self._op):
            (job, seconds), self._unmirrored = self._unmirrored, None
            self._done(job, seconds, None)

    async def finish(self) -> None:
        """Until everything written is durable."""
        self._store.upkeep.compaction.is_ending = True
        while self.kick():
            pass
        await self._idle.wait()

    def close(self) -> None:
        self._work.put(None)
        self._worker.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            seconds, error = self._timed(work)
            try:
                self._loop.call_soon_threadsafe(self._done, work, seconds, error)
            except RuntimeError:
                # The loop is gone: nobody waits for the answer any more.
                return

    def _timed(self, work: SyncJob | Chore) -> tuple[float, Exception | None]:
        """Run it. Whatever goes wrong, the loop must hear that it is not done."""
        begun = time.monotonic()
        try:
            work.run(self._store.disk)
        except Exception as problem:  # noqa: BLE001 - see above
            return 0.0, problem
        return time.monotonic() - begun, None

    def _done(self, work: SyncJob | Chore, seconds: float, error: BaseException | None) -> None:
        """The loop hears of what the thread did."""
        if error is None and isinstance(work, SyncJob) and self._mirrors is not None:
            if not self._mirrors.has(self._op):
                self._unmirrored = (work, seconds)
                return
            self._mirrors.answered(self._op)
        self._is_busy = False
        if self._account_for(work, seconds, error):
            self._wake()
            self.kick()

    def _account_for(self, work: SyncJob | Chore, seconds: float, error: BaseException | None) -> bool:
        """False when it failed, now or when the store heard of it."""
        if error is None:
            try:
                if isinstance(work, SyncJob):
                    self._synced(work, seconds)
                else:
                    self._store.chore_done(work)
            except OSError as problem:
                error = problem
        if error is None:
            return True
        self._has_failed = True
        self._idle.set()
        self._on_fatal(error)
        return False

    def _synced(self, job: SyncJob, seconds: float) -> None:
        self._quick = self._quick + 1 if seconds < QUICK else 0
        self._store.sync_done(job)
        self._store.upkeep.compaction.begin_if_sparse()
