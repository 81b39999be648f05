"""A whole broker on one loop: the server, and the management side when it has a port.

The command line and the in-process broker of tests both start this.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from warren.config import Config
from warren.server.alarms import files_used, memory_used
from warren.server.life import DRAIN_SECONDS, Server
from warren.server.listeners import bind
from warren.server.passwords import Passwords
from warren.server.tls import certificate_end, http_context_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.management.calls import Context
    from warren.management.service import HttpService
    from warren.store.stream_archive import ArchiveJob


class Assembly:
    """Made and used on a running loop."""

    def __init__(self, config: Config, passwords: Passwords | None = None) -> None:
        self.config = config
        self.server = Server(config, passwords, write_archive)
        self._http: HttpService | None = None
        self._http_port = -1

    async def start(self) -> None:
        await self.server.start()
        if self.config.http_port < 0:
            return
        try:
            await self._start_management()
        except BaseException:
            await self.server.stop()
            raise

    async def stop(self, patience: float = DRAIN_SECONDS) -> None:
        if self._http is not None:
            await self._http.stop()
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
        from warren.management.app import make_app
        from warren.management.service import HttpService

        tls = http_context_of(self.config) if self.config.http_tls else None
        sockets = bind(self.config.host, self.config.http_port)
        self._http_port = sockets[0].getsockname()[1]
        self._http = HttpService(make_app(self._context()), sockets, tls)
        await self._http.start()

    def _context(self) -> Context:
        from warren.management.calls import Context, Port

        server, host = self.server, self.server.host
        ports = [Port(each.protocol, each.host, each.port) for each in server.listeners]
        return Context(
            node=server.node,
            tick=host.tick,
            end_turn=host.end_turn,
            verify_password=host.is_right_password,
            hash_password=host.hash_password,
            hasher=server.passwords,
            ports=[*ports, Port("https" if self.config.http_tls else "http", self.config.host, self._http_port)],
            memory_limit=server.memory_limit,
            memory_used=memory_used,
            disk_free_limit=self.config.disk_limit,
            disk_free=server.disk_free,
            file_limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            files_used=files_used,
            data_dir=self.config.data_dir,
            certificate_ends=lambda: certificate_end(self.config),
        )


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
