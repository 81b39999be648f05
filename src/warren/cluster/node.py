"""A node of a cluster, from start to stop: it follows, and leads when it is elected.

Where it leads there is a whole broker (leading.py); where it follows, a copy of its files (mirroring.py); which of the
two, etcd decides (candidacy.py). docs/replication.md is for those who run it, decision 0023 for why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from warren import __version__
from warren.assembly import name_of
from warren.cluster.candidacy import Candidacy
from warren.cluster.leading import Leading
from warren.cluster.mirroring import Mirroring
from warren.config import Config
from warren.errors import WarrenError
from warren.replication.election import Role
from warren.server.folder import DataFolder, make_durably
from warren.server.identity import Identity
from warren.server.listeners import bind
from warren.server.peers import VERSION
from warren.server.replication_port import Peer
from warren.server.tls import NodeTls
from warren.server.turn.gate import Entrance, Gate
from warren.server.visitor import Visitor
from warren.store.inspect import MESSAGES

log = logging.getLogger("warren.cluster")

# Seconds.
_TICK: Final = 0.02


class ClusterNode:
    """Made and used on a running loop."""

    def __init__(self, config: Config) -> None:
        self.config = _with_ports(config)
        defaults = Config()
        if config.cluster_name == defaults.cluster_name:
            self.config = replace(self.config, cluster_name=config.cluster)
        if config.node_name == defaults.node_name:
            # Nodes are told apart by their names, in the API and in metrics.
            name = f"warren@{config.advertise or config.host}:{self.config.amqp_port}"
            self.config = replace(self.config, node_name=name)
        self.loop = asyncio.get_running_loop()
        self.host = config.advertise or config.host
        self._folder = DataFolder(config.data_dir)
        self._replication: list[Entrance] = []
        self._gate = Gate(self.config, 0)
        self._tls = NodeTls(config) if config.has_cluster_tls else None
        self._candidacy: Candidacy | None = None
        self._task: asyncio.Task[None] | None = None
        # Told when the role has changed: "leader", "follower".
        self.role = ""
        self.on_role: Callable[[str], None] = lambda role: None
        # Resolves with the error when the node cannot go on.
        self.failure: asyncio.Future[BaseException] = self.loop.create_future()

    # -- from start to stop ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._folder.open()
        try:
            messages = Path(self.config.data_dir) / MESSAGES
            make_durably(messages)
            identity = Identity(self._folder.path, self.config.cluster)
            candidacy = self._candidacy = Candidacy(self.config, identity, messages, self._about(identity))
            self._leading = Leading(self.config, identity, candidacy)
            self._mirroring = Mirroring(self.config, identity, messages, candidacy, self._tls)
            await candidacy.wait_for_namesake()
            await candidacy.first_look()
            answering = None if self._tls is None else self._tls.answering
            for each in bind(self.config.host, self.config.replication_port):
                self._replication.append(self._gate.open(each, self._new_peer, answering))
        except BaseException:
            await self._close()
            raise
        self._task = asyncio.create_task(self._live(candidacy), name="warren-cluster")

    def _about(self, identity: Identity) -> dict[str, Any]:
        """What others may know of this node."""
        return {
            "node": self.config.node_name,
            "place": identity.place,
            "version": __version__,
            "speaks": VERSION,
            "tls": self._tls is not None,
            "amqp": name_of((self.host, self.config.amqp_port)),
            "http": self._http_address(),
            "streams": name_of((self.host, self.config.stream_port)) if self.config.stream_port >= 0 else "",
            "streams_tls": self.config.stream_tls,
            "replication": [self.host, self.config.replication_port],
            "role": "follower",
        }

    def _http_address(self) -> str:
        config = self.config
        if config.http_port < 0:
            return ""
        return f"{'https' if config.http_tls else 'http'}://{name_of((self.host, config.http_port))}"

    def reload(self) -> None:
        """The configuration has changed in place: what can follow follows."""
        if self._tls is not None:
            self._tls.reload(self.config)
        if self._candidacy is not None:
            self._candidacy.reload()
            self._mirroring.reload()
            if self._leading.assembly is not None:
                self._leading.assembly.reload()

    async def stop(self) -> None:
        if self._task is not None:
            if not self._task.done():
                await self._leading.find_successor()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._candidacy is not None:
            await self._leading.hand_over()
            await self._mirroring.stop()
        await self._close()

    async def _close(self) -> None:
        for entrance in self._replication:
            entrance.close()
        if self._candidacy is not None:
            await self._candidacy.close()
        self._folder.close()

    # -- living ----------------------------------------------------------------------------------------------------

    async def _live(self, candidacy: Candidacy) -> None:
        try:
            while True:
                candidacy.ask(self._mirroring.is_copying(), self._leading.disk_stall())
                await self._look_after_role(candidacy)
                if not await self._leading.tick():
                    self._mirroring.moment = self._leading.ended_at
                    self._became("follower")
                await candidacy.wait_for_ring(_TICK)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # Whoever waits for the node hears of it; what is no mistake of its operator is told in full.
            if not isinstance(error, WarrenError):
                log.exception("the node cannot go on")
            if not self.failure.done():
                self.failure.set_result(error)

    async def _look_after_role(self, candidacy: Candidacy) -> None:
        role, is_leading = candidacy.member.role, self._leading.assembly is not None
        if role is Role.LEADER and not is_leading:
            await self._mirroring.stop()
            moment, self._mirroring.moment = self._mirroring.moment, None
            if await self._leading.begin(moment):
                self._became("leader")
        elif is_leading and (role is not Role.LEADER or self._leading.has_failed()):
            await self._leading.stop()
            self._became("follower")
        elif role is Role.FOLLOWER:
            if await self._mirroring.follow():
                self._became("follower")
        elif role is Role.STOPPED and not is_leading:
            candidacy.begin_anew()

    def _became(self, role: str) -> None:
        if role != self.role:
            self.role = role
            log.info("this node is a %s", role)
            self.on_role(role)

    def _new_peer(self, _: Visitor) -> Peer:
        leading, candidacy = self._leading, self._candidacy
        assert candidacy is not None
        return Peer(lambda: candidacy.desk.secret, lambda: leading.leadership, leading.adopt, self._gate)

    def addresses(self) -> tuple[str, str]:
        http = self.config.http_port
        return name_of((self.config.host, self.config.amqp_port)), name_of((self.config.host, http))


def _with_ports(config: Config) -> Config:
    """Where any port will do: one that stays the same in both roles."""

    def chosen(port: int) -> int:
        if port != 0:
            return port
        sockets = bind(config.host, 0)
        number: int = sockets[0].getsockname()[1]
        for each in sockets:
            each.close()
        return number

    changes: dict[str, Any] = {
        name: chosen(getattr(config, name)) for name in ("amqp_port", "tls_port", "replication_port")
    }
    changes |= {name: chosen(0) for name in ("http_port", "stream_port") if getattr(config, name) == 0}
    return replace(config, **changes)
