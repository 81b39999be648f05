"""A real broker inside a test: its own thread, its own loop, a free port, gone at the end of the block.

Nothing is kept on disk unless `data_dir` is given, and there is no HTTP unless `http=True`. Every option of
docs/configuration.md is a keyword.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from warren.assembly import Assembly
from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.broker.rules.hashing import SHA256
from warren.config import Config
from warren.config_loading import load
from warren.errors import WarrenError
from warren.server.loop import new_event_loop
from warren.server.passwords import Passwords

T = TypeVar("T")

# Starting takes milliseconds and stopping a moment; a minute means that something hangs.
PATIENCE = 60.0
# A blocking client in the test's own thread cannot answer while that thread waits for the broker to stop.
DRAIN_SECONDS = 0.05
# Somebody who embeds a broker has not asked for its log on standard error.
logging.getLogger("warren").addHandler(logging.NullHandler())


class Broker:
    def __init__(self, *, port: int = 0, http: bool = False, data_dir: str = "", **options: Any) -> None:
        options = {"http_port": 0 if http else -1, "data_dir": data_dir, "amqp_port": port, **options}
        self.config = load(environment={}, flags=options, spelling=_keyword)
        self._loop = new_event_loop()
        self._assembly: Assembly | None = None
        self._thread: threading.Thread | None = None
        self._ports: _Ports | None = None
        self._advanced_ms = 0

    def __repr__(self) -> str:
        ports = self._ports
        if ports is None:
            return "<Broker, not started>"
        state = "running" if self._assembly is not None else "stopped"
        others = [f"tls {ports.tls}"] * (ports.tls >= 0) + [f"http {ports.http}"] * (ports.http >= 0)
        data = f"data in {self.config.data_dir}" if self.config.data_dir else "nothing on disk"
        return f"<Broker {state}: {', '.join([f'{self.host}:{ports.amqp}', *others, data])}>"

    def start(self) -> Broker:
        """Returns when connections are accepted. After a stop it is on the same ports, with what is on disk."""
        if self._thread is not None:
            raise WarrenError(f"{self!r} was started before")
        if self._loop.is_closed():
            self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name="warren", daemon=True)
        self._thread.start()
        try:
            self._assembly = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(PATIENCE)
        except BaseException:
            self._end_thread()
            raise
        self._ports = _Ports.of(self._assembly)
        return self

    def restart(self) -> Broker:
        """Stops as a shutdown does and starts again on the same ports, with what is on disk and the time moved so far.

        What is not durable is gone, and without `data_dir` everything is.
        """
        _ = self._running
        self.stop()
        return self.start()

    def stop(self) -> None:
        """Tells the clients, as a shutdown does, and returns when nothing of the broker is left. May be repeated."""
        assembly, self._assembly = self._assembly, None
        if assembly is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(assembly.stop(DRAIN_SECONDS), self._loop).result(PATIENCE)
        finally:
            self._end_thread()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def host(self) -> str:
        return self.config.host

    @property
    def port(self) -> int:
        """Also after a stop: clients that should find nobody there have to know where."""
        return self._known_ports.amqp

    @property
    def tls_port(self) -> int:
        if self._known_ports.tls < 0:
            raise WarrenError("there is no TLS without tls_cert")
        return self._known_ports.tls

    @property
    def url(self) -> str:
        """For the default user on the default virtual host."""
        return self.url_of(self.config.default_user, self.config.default_password, self.config.default_vhost)

    @property
    def http_url(self) -> str:
        if self._known_ports.http < 0:
            raise WarrenError("there is no HTTP without http=True")
        return f"{'https' if self.config.http_tls else 'http'}://{self.host}:{self._known_ports.http}"

    def url_of(self, user: str, password: str, vhost: str = "/") -> str:
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"amqp://{login}@{self.host}:{self.port}/{quote(vhost, safe='')}"

    def call(self, function: Callable[[Node], T]) -> T:
        """Run a function on the broker's own thread, where its state may be looked at and changed."""
        _ = self._running
        done: Future[T] = Future()
        self._loop.call_soon_threadsafe(self._call, function, done)
        return done.result(PATIENCE)

    def advance(self, seconds: float) -> None:
        """Move the broker's clock forward: whatever is due by then happens now, missed heartbeats included."""
        if seconds < 0:
            raise WarrenError("time does not go backwards")
        milliseconds = round(seconds * 1000)
        self.call(lambda _: self._running.server.host.advance(milliseconds))
        self._advanced_ms += milliseconds

    def add_user(self, name: str, password: str, tags: list[str] | None = None) -> None:
        """Without permissions: see set_permission."""
        algorithm, password_hash = Passwords(SHA256).hash(password)
        self.call(lambda node: administer.put_user(node, User(name, password_hash, algorithm, tags)))

    def add_vhost(self, name: str) -> None:
        """The default user may use it."""
        self.call(lambda node: node.add_vhost(name))
        self.set_permission(self.config.default_user, name)

    def set_permission(
        self, user: str, vhost: str = "/", configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        self.call(lambda node: administer.set_permission(node, user, vhost, configure, write, read))

    def set_topic_permission(
        self, user: str, exchange: str, vhost: str = "/", write: str = ".*", read: str = ".*"
    ) -> None:
        self.call(lambda node: administer.set_topic_permission(node, user, vhost, exchange, write, read))

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, object],
        vhost: str = "/",
        priority: int = 0,
        apply_to: str = "all",
    ) -> None:
        self.call(lambda node: administer.set_policy(node, vhost, name, pattern, definition, priority, apply_to))

    @property
    def _running(self) -> Assembly:
        if self._assembly is None:
            raise WarrenError(f"{self!r} is not running")
        return self._assembly

    @property
    def _known_ports(self) -> _Ports:
        if self._ports is None:
            raise WarrenError("the broker is not running, and has no ports before its first start")
        return self._ports

    def _call(self, function: Callable[[Node], T], done: Future[T]) -> None:
        server = self._running.server
        server.host.tick()
        # The turn ends before the caller hears of it, so that all that follows from the call has happened by then.
        server.host.wake()
        try:
            result = function(server.node)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller's thread
            self._loop.call_soon(done.set_exception, error)
        else:
            self._loop.call_soon(done.set_result, result)

    async def _start(self) -> Assembly:
        # Passwords of tests are no secrets: what guards them may be quick.
        config = self.config if self._ports is None else self._ports.kept_in(self.config)
        assembly = Assembly(config, Passwords(SHA256))
        assembly.server.clock.advance(self._advanced_ms)
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
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(PATIENCE)


@dataclass(frozen=True)
class _Ports:
    """Where a broker listened last; -1 where it does not."""

    amqp: int
    tls: int
    http: int

    @staticmethod
    def of(assembly: Assembly) -> _Ports:
        listeners = assembly.server.listeners
        tls = listeners[1].port if len(listeners) > 1 else -1
        return _Ports(listeners[0].port, tls, assembly.http_address[1])

    def kept_in(self, config: Config) -> Config:
        tls = self.tls if self.tls >= 0 else config.tls_port
        return replace(config, amqp_port=self.amqp, tls_port=tls, http_port=self.http)


def _keyword(option: str) -> str:
    """How Broker calls it, where that is not what the configuration does."""
    return {"amqp_port": "port"}.get(option, option)
