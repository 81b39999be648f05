"""Whether streams can be read from a follower's copy just now: it begins when all of the copy is committed, begins
again when it must, and ends with the connection that the copy came by."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from warren.config import Config
from warren.errors import WarrenError
from warren.server.passwords import Passwords
from warren.server.stream_service import Outdated, StreamService
from warren.store.inspect import ReadingDisk
from warren.store.mirror import CommittedDisk, CopyDamaged, CopySurvey

log = logging.getLogger("warren.cluster")


class StreamReading:
    """Used on the loop. Without a port for it nothing is ever read."""

    def __init__(self, config: Config, folder: Path) -> None:
        self._config = config
        self._folder = folder
        self._passwords = Passwords()
        # By file, what of it may be shown; empty when nothing is known.
        self._sizes: dict[str, int] = {}
        # What has changed while the copy was looked at.
        self._missed: list[dict[str, int]] = []
        self._surveying: asyncio.Future[CopySurvey] | None = None
        self._service: StreamService | None = None
        # Nothing more from this copy.
        self._is_damaged = False
        # Kept, for the loop would let go of them.
        self._leaving: set[asyncio.Task[None]] = set()

    def reload(self) -> None:
        """There are new certificates where the old ones were."""
        if self._service is not None:
            self._service.reload()

    def committed(self, sizes: dict[str, int]) -> None:
        if self._config.stream_port < 0 or self._is_damaged:
            return
        for name, size in sizes.items():
            if size < 0:
                self._sizes.pop(name, None)
            else:
                self._sizes[name] = size
        if self._surveying is not None:
            self._missed.append(sizes)
        elif self._service is None:
            self._begin()
        else:
            self._tell(self._service, sizes)

    def _begin(self) -> None:
        disk = CommittedDisk(ReadingDisk(self._folder), dict(self._sizes))
        self._missed = []
        self._surveying = asyncio.get_running_loop().run_in_executor(None, CopySurvey, disk)
        self._surveying.add_done_callback(self._surveyed)

    def _surveyed(self, surveying: asyncio.Future[CopySurvey]) -> None:
        error = None if surveying.cancelled() else surveying.exception()
        if self._surveying is not surveying:
            # Of a copy that is another by now.
            return
        self._surveying = None
        if surveying.cancelled():
            return
        if isinstance(error, FileNotFoundError):
            # One went meanwhile, as will be heard: the next word from the leader begins it again.
            return
        try:
            service = StreamService(self._config, self._passwords, surveying.result())
            service.open()
        except (OSError, WarrenError) as problem:
            log.error("streams cannot be read here: %s", problem)
            self._is_damaged = True
            return
        self._service = service
        for sizes in self._missed:
            if self._service is service:
                self._tell(service, sizes)

    def _tell(self, service: StreamService, sizes: dict[str, int]) -> None:
        try:
            service.committed(sizes)
        except (Outdated, FileNotFoundError) as error:
            self._end(str(error))
            self._begin()
        except (CopyDamaged, OSError) as error:
            log.error("streams cannot be read here: %s", error)
            self._is_damaged = True
        else:
            self._is_damaged = service.failure is not None
        if self._is_damaged:
            self._end("its copy is damaged")

    def _end(self, reason: str) -> None:
        service, self._service = self._service, None
        if service is not None:
            task = service.close(reason)
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def close(self, reason: str) -> None:
        """The files may change in any way from here on."""
        self._sizes = {}
        self._surveying = None
        self._is_damaged = False
        self._end(reason)
