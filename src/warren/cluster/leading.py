"""A node that leads: a whole broker (assembly.py), its followers, and the ways in which that ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from warren.assembly import Assembly
from warren.cluster.candidacy import Candidacy
from warren.config import Config
from warren.errors import WarrenError
from warren.replication.election import Role
from warren.replication.ops import OpMoment
from warren.server.etcd import EtcdError
from warren.server.identity import Identity
from warren.server.leadership import HEARTBEAT_MS, Leadership, now_ms
from warren.server.life import DRAIN_SECONDS, Server
from warren.server.membership import nodes_of
from warren.server.origin import ClientOrigin
from warren.server.pacemaker import Pacemaker
from warren.server.passwords import Passwords

log = logging.getLogger("warren.cluster")

# Seconds that a successor has to make ready while this node still serves, and followers to take the last of it.
_READY: Final = 5.0
_HAND_OVER: Final = 2.0
# And clients to answer that they were told to go, where another is to serve them: nobody is served meanwhile.
_FAREWELL: Final = 0.25


class Leading:
    """From an election to the end of its epoch; there may be many."""

    def __init__(self, config: Config, identity: Identity, candidacy: Candidacy) -> None:
        self._config = config
        self._identity = identity
        self._candidacy = candidacy
        self._passwords = Passwords()
        self.assembly: Assembly | None = None
        self.leadership: Leadership | None = None
        # Serves clients, sooner than all of the assembly is there.
        self._server: Server | None = None
        # Of which moment it left the files when it last handed over.
        self.ended_at: OpMoment | None = None
        self._ticked_at = 0
        # When it was first asked to hand over; 0 while nobody does.
        self._asked_at = 0
        # Of one that is to stop: another is ready to lead.
        self._can_stop: asyncio.Event | None = None
        # Clients that came by way of followers before there was a broker for them.
        self._waiting: list[tuple[asyncio.Transport, ClientOrigin, bytes]] = []

    async def begin(self, moment: OpMoment | None) -> bool:
        """With files of that moment. False when the lead was lost before anybody was served."""
        candidacy, member = self._candidacy, self._candidacy.member
        if member.epoch > self._identity.epoch:
            self._identity.remember_epoch(member.epoch)
        assert member.view is not None
        if self._identity.is_copying and member.view.members != {self._identity.uuid}:
            # A copy had begun when it stood already. Others have what it lacks.
            log.warning("elected while its files were being copied: another is to lead")
            member.resign()
            await candidacy.give_back_lease()
            candidacy.hold_back()
            candidacy.begin_anew()
            return False
        log.info("elected in epoch %d", member.epoch)
        loop = asyncio.get_running_loop()
        began = time.monotonic()
        leadership = self.leadership = Leadership(
            member, set(member.view.members), candidacy.present(), moment, loop, candidacy.ring
        )
        assembly = Assembly(self._config, self._passwords, leadership, self._nodes, lambda: self._open(assembly.server))
        every = self._config.lease_seconds / 3
        pacemaker = Pacemaker(candidacy.new_etcd(), candidacy.desk.lease, every, leadership.is_recovered)
        starting = asyncio.ensure_future(assembly.start())
        await self._look_after(starting, leadership, starting.cancel)
        pacemaker.stop()
        if starting.cancelled() or starting.exception() is not None:
            leadership.end()
            self._close()
            if starting.cancelled():
                candidacy.begin_anew()
                return False
            await starting
        self.assembly = assembly
        log.info("serves %.2f s after its election", time.monotonic() - began)
        candidacy.tell({"role": "leader"})
        return True

    async def _look_after(
        self, work: asyncio.Future[None], leadership: Leadership, give_up: Callable[[], object]
    ) -> None:
        """Until it is done. Meanwhile followers come and go, and the lease goes on, or the lead is lost."""
        candidacy, is_lost = self._candidacy, False
        work.add_done_callback(lambda _: candidacy.ring())
        while not work.done():
            candidacy.ask(is_changing=False, disk_stall=self.disk_stall())
            leadership.tick()
            if candidacy.member.role is not Role.LEADER and not is_lost:
                is_lost = True
                give_up()
            await candidacy.wait_for_ring(HEARTBEAT_MS / 1000 / 5)

    def disk_stall(self) -> float:
        return 0.0 if self.assembly is None else self.assembly.server.disk_stall()

    def has_failed(self) -> bool:
        return self.assembly is not None and self.assembly.server.failure.done()

    async def tick(self) -> bool:
        """Now and then. False when another leads from here on, as an operator wished."""
        leadership = self.leadership
        if leadership is None or self.assembly is None:
            return True
        if self._can_stop is not None and self._is_any_ready(leadership.replicas.members):
            self._can_stop.set()
        # An in-sync set that etcd has taken is what answers wait for.
        if now_ms() - self._ticked_at < HEARTBEAT_MS and not self._candidacy.member.decided:
            leadership.tell_committed()
            return True
        self._ticked_at = now_ms()
        leadership.tick()
        replicas, node = leadership.replicas, self.assembly.server.node
        is_short = len(replicas.members) < self._config.min_in_sync
        if is_short != node.alarms.get("replication", False):
            node.set_alarm("replication", is_short)
            node.host.wake()
        self._candidacy.tell({"role": "leader", "epoch": replicas.epoch, "lag": leadership.lag()})
        readable = [mirror for mirror in self._nodes() if mirror["streams"]]
        ports = [str(mirror["streams"]) for mirror in readable if not mirror["streams_tls"]]
        tls_ports = [str(mirror["streams"]) for mirror in readable if mirror["streams_tls"]]
        if (ports, tls_ports) != (node.stream_ports, node.stream_tls_ports):
            node.stream_ports, node.stream_tls_ports = ports, tls_ports
            node.greetings.clear()
        view = self._candidacy.member.view
        if self._can_stop is not None or view is None or view.transfer is None:
            return True
        try:
            return not await self._transfer(view.transfer, replicas.members)
        except EtcdError as error:
            # The wish stands there until it can be granted.
            log.warning("%s", error)
            return True

    async def _transfer(self, to: str, members: set[str]) -> bool:
        others = members - {self._identity.uuid}
        candidates = others & {to} if to else others
        self._asked_at = self._asked_at or now_ms()
        has_time = now_ms() - self._asked_at < _READY * 1000
        if candidates and has_time and not self._is_any_ready(candidates):
            return False
        self._asked_at = 0
        if not to or not candidates:
            # One for a certain node stays until that one leads, so that others leave the place to it.
            await self._candidacy.wish_granted()
        if to == self._identity.uuid:
            return False
        if not candidates:
            log.warning("%s is not in sync, so this node goes on leading", to or "nobody else")
            return False
        await self.hand_over()
        self._candidacy.hold_back()
        self._candidacy.begin_anew()
        return True

    def _is_any_ready(self, candidates: set[str]) -> bool:
        """To lead at once when this one has gone."""
        assert self.leadership is not None
        self._candidacy.member.hurry()
        return any(self._candidacy.is_ready(uuid, self.leadership.replicas.epoch) for uuid in candidates)

    async def find_successor(self) -> None:
        """Before it stops, while it is served here as ever: one that can lead at once, if there is any."""
        member = self._candidacy.member
        if self.leadership is None or self.assembly is None or member.view is None:
            return
        if self.leadership.replicas.members == {self._identity.uuid}:
            return
        self._can_stop = asyncio.Event()
        is_wished = member.view.transfer is not None
        try:
            if not is_wished:
                await self._candidacy.wish_for_another()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._can_stop.wait(), _READY)
            if not is_wished:
                await self._candidacy.wish_granted()
        except EtcdError as error:
            log.warning("%s", error)

    async def hand_over(self) -> None:
        """In order: clients are told, everything is everywhere, then the place is free."""
        assembly, leadership = self.assembly, self.leadership
        self.ended_at = None
        if assembly is None or leadership is None:
            return
        view = self._candidacy.member.view
        has_successor = view is not None and len(view.members) > 1
        began = time.monotonic()
        stopping = asyncio.ensure_future(assembly.stop(_FAREWELL if has_successor else DRAIN_SECONDS))
        # What was asked last may still wait for a follower, which may go now.
        await self._look_after(stopping, leadership, assembly.server.give_up)
        await stopping
        stopped = mirrored = time.monotonic()
        if assembly.server.is_whole():
            self.ended_at = leadership.moment()
        if self._candidacy.member.role is Role.LEADER:
            leadership.pump()
            await leadership.wait_mirrored(_HAND_OVER)
            mirrored = time.monotonic()
            self._candidacy.member.resign()
            await self._candidacy.give_back_lease()
        # Its followers hear of it by the end of their connections, and look at once who leads.
        leadership.end()
        self._close()
        log.info(
            "gave up the lead: stopped after %.2f s, all mirrored after %.2f s, the lease ended after %.2f s",
            stopped - began,
            mirrored - began,
            time.monotonic() - began,
        )

    async def stop(self) -> None:
        """Another may lead already: nothing more is said to anybody."""
        assembly, leadership = self.assembly, self.leadership
        assert assembly is not None
        assert leadership is not None
        leadership.is_over = True
        assembly.server.give_up()
        await assembly.stop(0)
        leadership.end()
        self._close()
        failure = assembly.server.failure.result() if assembly.server.failure.done() else None
        if isinstance(failure, OSError):
            raise WarrenError(f"the data folder failed: {failure}") from failure
        self._candidacy.files_changed(None)
        self._candidacy.begin_anew()

    def adopt(self, transport: asyncio.Transport, origin: ClientOrigin, data: bytes) -> None:
        """A client that came by way of a follower."""
        if self._server is not None:
            self._server.adopt(transport, origin, data)
        elif self.leadership is not None and not self.leadership.is_over:
            # It is let in when there is a broker: to many clients one that hangs up at once is none.
            transport.pause_reading()
            self._waiting.append((transport, origin, data))
        else:
            transport.close()

    def _open(self, server: Server) -> None:
        """Also for those who came while this node was only elected."""
        self._server = server
        waiting, self._waiting = self._waiting, []
        for transport, origin, data in waiting:
            if not transport.is_closing():
                server.adopt(transport, origin, data)
                transport.resume_reading()

    def _close(self) -> None:
        self.assembly = self.leadership = self._server = None
        waiting, self._waiting = self._waiting, []
        for transport, _, _ in waiting:
            transport.close()

    def _nodes(self) -> list[dict[str, object]]:
        """As the leader knows them now."""
        leadership, keys = self.leadership, self._candidacy.desk.keys
        if keys is None or leadership is None:
            return []
        nodes, lag = nodes_of(keys), leadership.lag()
        for node in nodes:
            uuid = str(node["uuid"])
            node["in_sync"] = uuid in leadership.replicas.members
            node["lag_ops"], node["lag_bytes"] = lag.get(uuid, {}).get("ops", 0), lag.get(uuid, {}).get("bytes", 0)
        return nodes
