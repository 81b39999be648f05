"""A whole broker on one loop: the server, and the management side when it has a port.

The command line and the in-process broker of tests both start this.
"""

from __future__ import annotations

from warren.config import Config
from warren.server.life import Server


class Assembly:
    """Made and used on a running loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.server = Server(config)

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
        await self.server.stop()

    @property
    def amqp_address(self) -> tuple[str, int]:
        listener = self.server.listeners[0]
        return listener.host, listener.port
