"""The HTTP server beside the broker, on the same loop: uvicorn without its signals and its log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

import uvicorn

GRACE_SECONDS: Final = 1
START_STEP: Final = 0.005


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The command line decides what a signal means; a broker in a test's thread may not take any.
        yield


class HttpService:
    def __init__(self, app: Any, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        # It tells of every start and stop; a broker that says that it is ready has said enough.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            h11_max_incomplete_event_size=64 * 1024,
            http="h11",
            ws="none",
            timeout_graceful_shutdown=GRACE_SECONDS,
            backlog=128,
        )
        config.load()
        if tls is not None:
            config.ssl = tls
        self._server = _Uvicorn(config)
        self._sockets = sockets
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(self._sockets), name="warren-http")
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the HTTP server ended before it started")
            await asyncio.sleep(START_STEP)

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await self._task
