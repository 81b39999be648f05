"""A whole broker on one loop: the server, and the management side when it has a port.

The command line and the in-process broker of tests both start this.
"""

from __future__ import annotations

from socket import socket
from ssl import SSLContext
from typing import TYPE_CHECKING

from warren.config import Config
from warren.server import tls
from warren.server.alarms import files_used, memory_used
from warren.server.leadership import Leadership
from warren.server.life import DRAIN_SECONDS, Server
from warren.server.listeners import bind
from warren.server.passwords import Passwords
from warren.server.turn.gate import Gate, descriptor_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from warren.management.calls import Context
    from warren.management.service import HttpService
    from warren.store.stream_archive import ArchiveJob


class Assembly:
    """Made and used on a running loop."""

    def __init__(
        self,
        config: Config,
        passwords: Passwords | None = None,
        leadership: Leadership | None = None,
        cluster: Callable[[], list[dict[str, object]]] = list,
        on_open: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        # Told when clients of AMQP are served, before there is a management side.
        self._on_open = on_open
        # The nodes that mirror this one, for those who look.
        self._cluster = cluster
        self.server = Server(config, passwords, write_archive, leadership)
        self._http: list[HttpService] = []
        self._http_gate = Gate(config, config.http_connection_max)
        self._http_port = -1
        self._http_tls: SSLContext | None = None
        self._context: Context | None = None

    async def start(self) -> None:
        await self.server.start()
        self._on_open()
        if self.config.http_port < 0:
            return
        try:
            await self._start_management()
        except BaseException:
            await self._stop_http()
            await self.server.stop()
            raise

    def reload(self) -> None:
        """The configuration has changed in place: what can follow follows."""
        self.server.reload()
        if self._http_tls is not None:
            tls.reload(self._http_tls, self.config)
        if self._context is not None:
            self._context.memory_limit = self.server.memory_limit
            self._context.disk_free_limit = self.config.disk_limit

    async def _stop_http(self) -> None:
        services, self._http = self._http, []
        for service in services:
            await service.stop()

    async def stop(self, patience: float = DRAIN_SECONDS) -> None:
        await self._stop_http()
        await self.server.stop(patience)

    @property
    def amqp_address(self) -> tuple[str, int]:
        listener = self.server.listeners[0]
        return listener.host, listener.port

    @property
    def http_address(self) -> tuple[str, int]:
        return self.config.host, self._http_port

    async def _start_management(self) -> None:
        # Loaded only now: a broker in a test starts in milliseconds because it does without.
        from warren.management.app import make_app, make_metrics_app

        config = self.config
        self._http_tls = tls.http_context_of(config) if config.http_tls else None
        sockets = bind(config.host, config.http_port)
        self._http_port = sockets[0].getsockname()[1]
        self._context = context = self._make_context()
        await self._serve_http(make_app(context), sockets)
        if config.metrics_port > 0:
            await self._serve_http(make_metrics_app(context), bind(config.host, config.metrics_port))

    async def _serve_http(self, app: ASGIApp, sockets: list[socket]) -> None:
        from warren.management.service import HttpService

        service = HttpService(app, sockets, self._http_gate, self._http_tls)
        await service.start()
        self._http.append(service)

    def _make_context(self) -> Context:
        from warren.management.calls import Context, Port

        server, host = self.server, self.server.host
        ports = [Port(each.protocol, each.host, each.port) for each in server.listeners]
        secure = "https" if self.config.http_tls else "http"
        ports.append(Port(secure, self.config.host, self._http_port))
        if self.config.metrics_port > 0:
            ports.append(Port(f"{secure}/prometheus", self.config.host, self.config.metrics_port))
        return Context(
            node=server.node,
            tick=host.tick,
            end_turn=host.end_turn,
            durable=host.durable,
            is_halted=lambda: host.is_halted,
            verify_password=host.is_right_password,
            hash_password=host.hash_password,
            hasher=server.passwords,
            ports=ports,
            memory_limit=server.memory_limit,
            memory_used=memory_used,
            disk_free_limit=self.config.disk_limit,
            disk_free=server.disk_free,
            file_limit=descriptor_limit(),
            files_used=files_used,
            data_dir=self.config.data_dir,
            http_body_max=self.config.http_body_max,
            http_bodies_max=self.config.http_bodies_max,
            certificate_ends=lambda: tls.certificate_end(self.config),
            cluster=self._cluster,
        )


def preload(config: Config) -> None:
    """What `start` loads, for one who has time now and none then. In a thread."""
    if config.http_port >= 0:
        import anyio
        import uvicorn.lifespan.off  # noqa: F401

        import warren.management.app
        import warren.management.service  # noqa: F401

        # It loads what it needs when it is first used.
        anyio.run(anyio.sleep, 0)


def write_archive(job: ArchiveJob, is_wanted: Callable[[], bool]) -> None:
    # Loaded only now, in the thread that writes: few streams are archived, and Arrow takes a while.
    from warren.spark.archives.write import write_segment

    write_segment(job, is_wanted)


def name_of(address: tuple[str, int]) -> str:
    """HOST:PORT, with the brackets that an IPv6 address needs."""
    host, port = address
    if port < 0:
        return "off"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
