"""Archives of streams: one thread writes what retention waits for, the loop hears when it is durable.

Whatever goes wrong (a folder that cannot be written, a library that is not there), the file stays where it is, the log
and the API say why, and it is tried again a little later.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from warren.extras import how_to_install
from warren.store.stream import DiskStreamLog
from warren.store.stream_archive import ArchiveJob
from warren.store.streams import StreamLogs

log = logging.getLogger("warren")

# Writes one archive file, in a thread. It asks the function now and then whether anybody still wants it.
WriteArchive = Callable[[ArchiveJob, Callable[[], bool]], None]


class Archiver:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        streams: StreamLogs,
        write: WriteArchive,
        wake: Callable[[], None],
        retry_seconds: float,
    ) -> None:
        self._loop = loop
        self._streams = streams
        self._write = write
        self._wake = wake
        self._retry_seconds = retry_seconds
        self._work: SimpleQueue[ArchiveJob | None] = SimpleQueue()
        # Made with the first job: most brokers have none.
        self._worker: threading.Thread | None = None
        self._is_busy = False
        self._is_closed = False
        # Streams whose last attempt failed, until when they are left alone.
        self._failed: dict[DiskStreamLog, float] = {}

    def kick(self) -> None:
        """At the end of a turn: if the thread is free, give it what retention waits for."""
        if self._is_busy or self._is_closed or not self._streams.archive_wanted:
            return
        now = self._loop.time()
        for job in self._streams.next_archive_jobs():
            if self._failed.get(job.log, 0.0) <= now:
                self._begin(job)
                return

    def close(self) -> None:
        """A file that is half written is begun anew after the next start."""
        self._is_closed = True
        if self._worker is not None:
            self._work.put(None)
            self._worker.join()

    def _begin(self, job: ArchiveJob) -> None:
        self._is_busy = True
        if self._worker is None:
            self._worker = threading.Thread(target=self._run, name="warren-archiver", daemon=True)
            self._worker.start()
        self._work.put(job)

    def _run(self) -> None:
        while (job := self._work.get()) is not None:
            problem = self._attempt(job)
            try:
                self._loop.call_soon_threadsafe(self._done, job, problem)
            except RuntimeError:
                # The loop is gone: nobody waits for the answer any more.
                return

    def _attempt(self, job: ArchiveJob) -> str:
        """Why it is not done; empty when it is."""
        try:
            self._write(job, lambda: not self._is_closed and not job.segment.is_gone)
        except ImportError as error:
            return f"{error}: {how_to_install('spark')}"
        except Exception as error:  # noqa: BLE001 - whatever it is, the file stays and the loop must hear of it
            return str(error) or type(error).__name__
        return ""

    def _done(self, job: ArchiveJob, problem: str) -> None:
        self._is_busy = False
        if self._is_closed:
            return
        if problem and not job.segment.is_gone:
            self._postpone(job, problem)
        else:
            self._failed.pop(job.log, None)
            self._streams.archive_done(job)
        self._wake()

    def _postpone(self, job: ArchiveJob, problem: str) -> None:
        if problem != job.log.archive_error:
            log.error(
                "stream '%s' in vhost '%s' cannot be archived, so nothing of it is removed: %s",
                *(job.stream, job.log.queue.vhost, problem),
            )
        job.log.archive_error = problem
        self._failed[job.log] = self._loop.time() + self._retry_seconds
        self._loop.call_later(self._retry_seconds + 0.01, self.kick)
