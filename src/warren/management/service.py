"""The HTTP server beside the broker, on the same loop: uvicorn without its signals and its log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import anyio
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

GRACE_SECONDS: Final = 1
# For the head of a request; bodies have their own bound (calls.py).
HEAD_SECONDS: Final = 10.0
START_STEP: Final = 0.005


class _Gate(Protocol):
    """What stands in front of the port: it opens it, and hears of whoever has logged in."""

    def open(
        self,
        listening: socket.socket,
        make_protocol: Callable[[Any], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
    ) -> Any: ...

    def proven(self, number: int) -> None: ...


class _Protocol(H11Protocol):
    """One that gives a request's head some seconds to arrive: without a bound, bytes that trickle hold a socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._late: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._watch_head()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watching()

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_watching()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Uvicorn(uvicorn.Server):
    """One whose connections come through our gate."""

    def __init__(self, config: uvicorn.Config, gate: _Gate) -> None:
        super().__init__(config)
        self._gate = gate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = [self._gate.open(each, self._make_protocol, self.config.ssl) for each in sockets or []]
        self.started = True

    def _make_protocol(self, visitor: Any) -> _Protocol:
        return _Protocol(self.config, self.server_state, {"gate": self._gate, "descriptor": visitor.number})

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The command line decides what a signal means; a broker in a test's thread may not take any.
        yield


class HttpService:
    def __init__(self, app: Any, sockets: list[socket.socket], gate: _Gate, tls: ssl.SSLContext | None) -> None:
        # It tells of every start and stop; a broker that says that it is ready has said enough.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            h11_max_incomplete_event_size=64 * 1024,
            http=_Protocol,
            ws="none",
            timeout_graceful_shutdown=GRACE_SECONDS,
            # Whoever is on this machine could say that they come from elsewhere.
            proxy_headers=False,
        )
        config.load()
        if tls is not None:
            config.ssl = tls
        self._server = _Uvicorn(config, gate)
        self._sockets = sockets
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # The first request would load what this loads, and everybody would wait for that.
        async with anyio.create_task_group():
            pass
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
