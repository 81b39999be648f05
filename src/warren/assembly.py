"""A whole broker on one loop: the server, and the management side when it has a port.

The command line and the in-process broker of tests both start this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.config import Config
from warren.server.life import Server
from warren.server.listeners import bind

if TYPE_CHECKING:
    from warren.management.service import HttpService


class Assembly:
    """Made and used on a running loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.server = Server(config)
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

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
        await self.server.stop()

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

        sockets = bind(self.config.host, self.config.http_port)
        self._http_port = sockets[0].getsockname()[1]
        self._http = HttpService(make_app(self._context()), sockets)
        await self._http.start()


def name_of(address: tuple[str, int]) -> str:
    """HOST:PORT, with the brackets that an IPv6 address needs."""
    host, port = address
    if port < 0:
        return "off"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
