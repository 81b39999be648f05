"""A follower's port for readers of streams: a broker that has nothing but its copy of the leader's files, up to what is
committed, and that changes nothing. Who may read is told by the mirrored definitions, as they change.

It lives as long as one connection to one leader: when that ends, files may be cut, so its clients are told to go.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from warren import __version__
from warren.amqp.methods import BasicConsume, Method, QueueDeclare
from warren.broker.node import Node
from warren.broker.operate.definitions.following import take
from warren.broker.session.interceptors import Interceptor
from warren.config import Config
from warren.errors import NotFound, NotImplementedByBroker
from warren.server.alarms import memory_total
from warren.server.life import DRAIN_SECONDS, settings_of
from warren.server.listeners import Listener, open_port
from warren.server.passwords import Passwords
from warren.server.tls import context_of, reload
from warren.server.turn.clock import Clock
from warren.server.turn.gate import Gate
from warren.server.turn.host import LoopHost
from warren.server.turn.transport import AmqpTransport, Roster
from warren.server.visitor import Visitor
from warren.store.definitions import LOG_ENDING
from warren.store.mirror import CopyDamaged, CopySurvey, MirrorStore

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel

log = logging.getLogger("warren.cluster")

_REFUSED: Final = [
    "exchange.declare", "exchange.delete", "exchange.bind", "exchange.unbind", "queue.bind", "queue.unbind",
    "queue.purge", "queue.delete", "basic.publish", "basic.get", "confirm.select", "tx.select",
]  # fmt: skip
_WHERE: Final = "this port is a follower's, for readers of streams: all else is served at its AMQP port"


class Outdated(Exception):
    """The copy has changed in a way that is only understood by looking at all of it again."""


class StreamsOnly(Interceptor):
    def applies_to(self) -> list[str]:
        return [*_REFUSED, "queue.declare", "basic.consume"]

    def intercept(self, channel: Channel, method: Method) -> Method:
        if isinstance(method, BasicConsume):
            channel.check("queue", method.queue, "read")
            _check_stream(channel, method.queue)
        elif isinstance(method, QueueDeclare) and method.passive:
            channel.connection.node.access.check_any(channel.user, channel.vhost.name, "queue", method.queue)
            _check_stream(channel, method.queue)
        else:
            raise NotImplementedByBroker(f"{method.name}: {_WHERE}")
        return method


def _check_stream(channel: Channel, name: str) -> None:
    if name not in channel.vhost.queues:
        raise NotFound(f"no stream '{name}' in vhost '{channel.vhost.name}'; {_WHERE}")


class StreamService:
    """Made and used on a running loop."""

    def __init__(self, config: Config, passwords: Passwords, survey: CopySurvey) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._clock = Clock()
        self._host = LoopHost(self._loop, self._clock, passwords, self._fatal)
        self._roster = Roster(self._loop)
        self._gate = Gate(config, 0)
        self._listener: Listener | None = None
        self._store = MirrorStore(survey)
        limit = int(config.memory_high_watermark * memory_total())
        self.node = Node(self._host, settings_of(config, limit), None, self._store, self._clock.now(), __version__)
        self.node.install_interceptor(StreamsOnly())
        for line in survey.damage:
            log.error("the copy of the leader's files: %s", line)
        # In the order in which one rests on the other.
        for kind in ("vhost", "vhost_limit", "user", "permission", "queue"):
            for row in survey.rows:
                if row[0] == kind:
                    self._take(*row)
        self._host.attach(self.node)
        self._is_growing = False
        # It cannot go on with this copy.
        self.failure: Exception | None = None

    def _take(self, kind: str, key: tuple[str, ...], value: dict[str, object] | None) -> None:
        for line in take(self.node, kind, key, value):
            log.error("%s", line)

    def open(self) -> None:
        """Raises WarrenError when the port is taken, or a certificate cannot be read."""
        config = self._config
        context = context_of(config) if config.stream_tls else None
        self._listener = open_port("amqp", config.host, config.stream_port, self._gate, self._make_protocol, context)
        log.info("streams are read at %s:%d", config.host, config.stream_port)

    def reload(self) -> None:
        if self._listener is not None and self._listener.tls is not None:
            reload(self._listener.tls, self._config)

    def _make_protocol(self, visitor: Visitor) -> asyncio.Protocol:
        transport = AmqpTransport(self.node, self._clock, self._loop, self._roster, self._host, self._gate, visitor)
        return transport.as_protocol()

    # -- what the leader did ---------------------------------------------------------------------------------------

    def committed(self, sizes: dict[str, int]) -> None:
        """Files end there now. Raises Outdated, CopyDamaged or OSError when one must begin again."""
        self._host.tick()
        # First: a stream's files come after its definition.
        for name, size in sizes.items():
            if name.endswith(LOG_ENDING):
                if size < 0:
                    # What it had last, and was not heard of, is in the base that it was folded into.
                    raise Outdated(f"{name} is gone")
                for kind, key, value in self._store.changes(name, size):
                    if kind == "vhost" and value is None:
                        raise Outdated(f"vhost '{key[0]}' is deleted")
                    self._take(kind, key, value)
        for name, size in sizes.items():
            self._store.file_changed(name, size)
        if not self._is_growing:
            self._is_growing = True
            self._grow()
        self._host.wake()

    def _grow(self) -> None:
        """A piece in each turn, so that others have theirs."""
        try:
            self._is_growing = self.failure is None and self._store.grow()
        except (CopyDamaged, OSError) as error:
            self._is_growing = False
            self._fatal(error)
            return
        if self._is_growing:
            self._host.wake()
            self._loop.call_soon(self._grow)

    def _fatal(self, error: BaseException) -> None:
        log.error("streams cannot be read here: %s", error)
        self.failure = error if isinstance(error, Exception) else RuntimeError(str(error))

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> asyncio.Task[None]:
        """At once nothing more is read, and clients are told. They are given time to go, which need not be waited for:
        the task ends with it."""
        if self._listener is not None:
            self._listener.close()
        self._host.tick()
        self.node.begin_shutdown(reason)
        self._host.end_turn()
        self._store.close()
        self.failure = self.failure or Outdated("closed")
        return self._loop.create_task(self._wait_for_clients())

    async def _wait_for_clients(self) -> None:
        try:
            await self._roster.wait_empty(DRAIN_SECONDS)
        finally:
            self._host.detach()
