"""A real broker inside a test: its own thread, its own loop, a free port, gone at the end of the block.

Nothing is kept on disk unless `data_dir` is given, and there is no HTTP unless `http=True`. Every option of
docs/configuration.md is a keyword.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

from warren.assembly import Assembly
from warren.broker.node import Node
from warren.config import load
from warren.errors import WarrenError
from warren.server.loop import new_event_loop

T = TypeVar("T")

# Starting takes milliseconds and stopping a moment; a minute means that something hangs.
PATIENCE = 60.0


class Broker:
    def __init__(self, *, port: int = 0, http: bool = False, data_dir: str = "", **options: Any) -> None:
        options = {"http_port": 0 if http else -1, "data_dir": data_dir, "amqp_port": port, **options}
        self.config = load(environment={}, flags=options)
        self._loop = new_event_loop()
        self._assembly: Assembly | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Broker:
        """Returns when connections are accepted."""
        if self._thread is not None:
            raise WarrenError("this broker was started before; make another one")
        self._thread = threading.Thread(target=self._run, name="warren", daemon=True)
        self._thread.start()
        try:
            self._assembly = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(PATIENCE)
        except BaseException:
            self._end_thread()
            raise
        return self

    def stop(self) -> None:
        """Tells the clients, as a shutdown does, and returns when nothing of the broker is left. May be repeated."""
        assembly, self._assembly = self._assembly, None
        if assembly is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(assembly.stop(), self._loop).result(PATIENCE)
        finally:
            self._end_thread()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def host(self) -> str:
        return self.config.host

    @property
    def port(self) -> int:
        return self._running.amqp_address[1]

    @property
    def url(self) -> str:
        """For the default user on the default virtual host."""
        return self.url_of(self.config.default_user, self.config.default_password, self.config.default_vhost)

    @property
    def http_url(self) -> str:
        host, port = self._running.http_address
        return f"http://{host}:{port}"

    def url_of(self, user: str, password: str, vhost: str = "/") -> str:
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"amqp://{login}@{self.host}:{self.port}/{quote(vhost, safe='')}"

    def call(self, function: Callable[[Node], T]) -> T:
        """Run a function on the broker's own thread, where its state may be looked at and changed."""
        done: Future[T] = Future()
        self._loop.call_soon_threadsafe(self._call, function, done)
        return done.result(PATIENCE)

    @property
    def _running(self) -> Assembly:
        if self._assembly is None:
            raise WarrenError("the broker is not running")
        return self._assembly

    def _call(self, function: Callable[[Node], T], done: Future[T]) -> None:
        server = self._running.server
        server.host.tick()
        try:
            done.set_result(function(server.node))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller's thread
            done.set_exception(error)
        server.host.wake()

    async def _start(self) -> Assembly:
        assembly = Assembly(self.config)
        await assembly.start()
        return assembly

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join(PATIENCE)
