"""A node of a cluster, from start to stop: it follows, and leads when it is elected.

Where it leads there is a whole broker (assembly.py); where it follows, a thread that copies the leader's files and
ports that pass clients on. docs/replication.md is for those who run it, decision 0023 for why.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final

from warren import __version__
from warren.assembly import Assembly, name_of
from warren.config import Config
from warren.errors import WarrenError
from warren.replication.election import Member, Request, Role
from warren.server.etcd import Etcd, EtcdError
from warren.server.folder import DataFolder, make_durably
from warren.server.following import Following
from warren.server.gate import Entrance, Gate
from warren.server.identity import Identity
from warren.server.leadership import HEARTBEAT_MS, Leadership, Peer, now_ms
from warren.server.listeners import bind
from warren.server.membership import TRANSFER, Desk, nodes_of
from warren.server.origin import ClientOrigin
from warren.server.pacemaker import Pacemaker
from warren.server.passing import Passage
from warren.server.passwords import Passwords
from warren.server.peers import VERSION, Whereabouts
from warren.server.soundness import damage_in
from warren.server.tls import NodeTls, etcd_context_of, reload_etcd
from warren.store.inspect import MESSAGES

log = logging.getLogger("warren.cluster")

_TICK: Final = 0.02
# Seconds that the disk may be at one piece of work before a leader gives up its place.
_DISK_PATIENCE: Final = 5.0
# Seconds in which one that has just resigned, or is not the one that an operator wants, leaves the place to others.
_HOLD_BACK: Final = 3.0
_HAND_OVER: Final = 2.0
# Between two attempts to reach the leader, and how much longer after one that it refused.
_AGAIN: Final = 0.25
_REFUSED: Final = 2.0


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
        self._messages = Path(config.data_dir) / MESSAGES
        self._passwords = Passwords()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="warren-etcd")
        self._replication: list[Entrance] = []
        self._gate = Gate(self.config, 0)
        self._tls = NodeTls(config) if config.has_cluster_tls else None
        self._etcd_tls = etcd_context_of(config)
        self._passage: Passage | None = None
        self._following: Following | None = None
        self.assembly: Assembly | None = None
        self._leadership: Leadership | None = None
        self._task: asyncio.Task[None] | None = None
        # None until somebody has looked.
        self._is_sound: bool | None = None
        # How often the files may have become others.
        self._copies = 0
        # What etcd said last when it did not answer.
        self._trouble = ""
        self._desk: Desk | None = None
        # Kept, for the loop would let go of it.
        self._asking: asyncio.Future[None] | None = None
        self._looking: asyncio.Future[list[str]] | None = None
        self._held_back_until = 0.0
        self._leaderless_since = 0.0
        self._followed_at = 0.0
        self._ticked_at = 0
        # Why it does not follow the leader that there is.
        self._obstacle = ""
        # Told when the role has changed: "leader", "follower".
        self.role = ""
        self.on_role: Callable[[str], None] = lambda role: None
        # Resolves with the error when the node cannot go on.
        self.failure: asyncio.Future[BaseException] = self.loop.create_future()

    # -- from start to stop ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._folder.open()
        try:
            make_durably(self._messages)
            self.identity = Identity(self._folder.path, self.config.cluster)
            self._new_member()
            await self._wait_for_namesake()
            await self._first_look()
            answering = None if self._tls is None else self._tls.answering
            for each in bind(self.config.host, self.config.replication_port):
                self._replication.append(self._gate.open(each, self._new_peer, answering))
        except BaseException:
            await self._close()
            raise
        self._task = asyncio.create_task(self._live(), name="warren-cluster")

    async def _wait_for_namesake(self) -> None:
        """A process with this node's name and another folder. One that was here before and has moved, with its disk, is
        gone when its lease has ended. Otherwise one of the two folders is a copy, and what the one acknowledges the
        other would lead without."""
        name, end = f"members/{self.identity.uuid}", time.monotonic() + self.config.lease_seconds + 3
        while True:
            keys = await self.loop.run_in_executor(self._threads, self.desk.etcd.read)
            if name not in keys or keys[name]["value"].get("place") == self.identity.place:
                return
            if time.monotonic() > end:
                raise WarrenError(
                    f"another process runs as this node, {self.identity.uuid}: {self.config.data_dir} is a copy of its "
                    "folder, and a new node begins with an empty one"
                )
            await asyncio.sleep(_AGAIN)

    async def _first_look(self) -> None:
        request = self.member.next_request(now_ms())
        assert request is not None
        answer = await self.loop.run_in_executor(self._threads, self.desk.carry_out, request)
        self.member.answered(request, answer, now_ms())
        if not self.desk.secret:
            raise WarrenError(
                f"there is no cluster '{self.config.cluster}' in etcd: begin it with `warren cluster init` on the node "
                "whose data it is to have"
            )

    def _new_member(self) -> None:
        """As a new process would be: with a name and a lease of its own."""
        process = secrets.token_hex(8)
        ttl = self.config.lease_seconds
        self.member = Member(self.identity.uuid, process, ttl * 1000)
        about = {
            "node": self.config.node_name,
            "place": self.identity.place,
            "version": __version__,
            "speaks": VERSION,
            "tls": self._tls is not None,
            "amqp": name_of((self.host, self.config.amqp_port)),
            "http": self._http_address(),
            "replication": [self.host, self.config.replication_port],
            "role": "follower",
        }
        before = self._desk
        if before is not None:
            self._threads.submit(before.etcd.close)
        self._desk = Desk(self._new_etcd(), self.identity.uuid, process, ttl, about)
        if before is not None:
            # Who calls meanwhile is to be met with the secret, not with none.
            self._desk.secret = before.secret

    def _new_etcd(self) -> Etcd:
        config = self.config
        return Etcd(config.etcd, config.cluster, max(1.0, config.lease_seconds / 4), self._etcd_tls)

    def _http_address(self) -> str:
        config = self.config
        if config.http_port < 0:
            return ""
        return f"{'https' if config.http_tls else 'http'}://{name_of((self.host, config.http_port))}"

    @property
    def desk(self) -> Desk:
        assert self._desk is not None
        return self._desk

    def reload(self) -> None:
        """The configuration has changed in place: what can follow follows."""
        if self._tls is not None:
            self._tls.reload(self.config)
        if self._etcd_tls is not None:
            reload_etcd(self._etcd_tls, self.config)
        if self._passage is not None:
            self._passage.reload(self.config)
        if self.assembly is not None:
            self.assembly.reload()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.assembly is not None:
            await self._hand_over()
        await self._stop_following()
        await self._close()

    def _give_back_lease(self) -> asyncio.Future[None]:
        return self.loop.run_in_executor(self._threads, self.desk.give_back_lease)

    async def _close(self) -> None:
        for entrance in self._replication:
            entrance.close()
        if self._desk is not None:
            await self._give_back_lease()
            await self.loop.run_in_executor(self._threads, self._desk.etcd.close)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._folder.close()

    # -- living ----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            while True:
                self._ask_etcd()
                await self._look_after_role()
                if self._leadership is not None and now_ms() - self._ticked_at >= HEARTBEAT_MS:
                    self._ticked_at = now_ms()
                    await self._tick_leadership(self._leadership)
                await asyncio.sleep(_TICK)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # Whoever waits for the node hears of it; what is no mistake of its operator is told in full.
            if not isinstance(error, WarrenError):
                log.exception("the node cannot go on")
            if not self.failure.done():
                self.failure.set_result(error)

    def _ask_etcd(self) -> None:
        member = self.member
        member.is_fit = not self.identity.is_copying and self._may_try()
        if self.assembly is not None and self.assembly.server.disk_stall() > _DISK_PATIENCE:
            # Who cannot write must not keep the place.
            if member.role is Role.LEADER:
                log.error("the disk does not answer: this node gives up the lead")
                member.resign()
                self._asking = self._give_back_lease()
            return
        request = member.next_request(now_ms())
        if request is not None:
            self._asking = asyncio.ensure_future(self._carry_out(member, self.desk, request))

    async def _carry_out(self, member: Member, desk: Desk, request: Request) -> None:
        try:
            answer = await self.loop.run_in_executor(self._threads, desk.carry_out, request)
        except EtcdError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("%s", error)
            member.failed(request, now_ms())
        except RuntimeError:
            # The node is being closed.
            return
        else:
            if self._trouble:
                self._trouble = ""
                log.info("etcd answers again")
            member.answered(request, answer, now_ms())

    def _may_try(self) -> bool:
        """Whether to stand in an election now, if there is one."""
        view = self.member.view
        now = time.monotonic()
        if view is None or view.leader is not None:
            self._leaderless_since = now
            return False
        if now < self._held_back_until:
            return False
        if view.transfer in view.members - {self.identity.uuid} and now - self._leaderless_since < _HOLD_BACK:
            # The operator wants another, and that one is there.
            return False
        if view.members == {self.identity.uuid}:
            # Damaged or not, nobody has more.
            return True
        if self._following is not None and self._following.has_begun:
            return False
        self._look_for_damage()
        return self._is_sound is True

    def _look_for_damage(self) -> None:
        if self._is_sound is None and self._looking is None:
            copies = self._copies
            self._looking = self.loop.run_in_executor(None, damage_in, self._messages)
            self._looking.add_done_callback(lambda found: self._looked(found, copies))

    def _looked(self, found: asyncio.Future[list[str]], copies: int) -> None:
        self._looking = None
        if found.cancelled() or copies != self._copies:
            # The files are others by now.
            return
        for line in found.result():
            log.error("this node does not lead: %s", line)
        self._is_sound = not found.result()

    async def _look_after_role(self) -> None:
        member = self.member
        if member.role is Role.LEADER and self.assembly is None:
            await self._begin_to_lead()
        elif self.assembly is not None and (member.role is not Role.LEADER or self.assembly.server.failure.done()):
            await self._stop_leading()
        elif member.role is Role.FOLLOWER:
            await self._follow()
        elif member.role is Role.STOPPED and self.assembly is None:
            self._new_member()

    def _became(self, role: str) -> None:
        if role != self.role:
            self.role = role
            log.info("this node is a %s", role)
            self.on_role(role)

    # -- leading ---------------------------------------------------------------------------------------------------

    async def _begin_to_lead(self) -> None:
        member = self.member
        await self._stop_following()
        if member.epoch > self.identity.epoch:
            self.identity.remember_epoch(member.epoch)
        assert member.view is not None
        log.info("elected in epoch %d", member.epoch)
        leadership = Leadership(member, set(member.view.members), self._present(), self.loop)
        self._leadership = leadership
        assembly = Assembly(self.config, self._passwords, leadership, self._nodes)
        pacemaker = Pacemaker(self._new_etcd(), self.desk.lease, self.config.lease_seconds / 3, leadership.is_recovered)
        starting = asyncio.ensure_future(assembly.start())
        while not starting.done():
            # Meanwhile followers join, and the lease goes on.
            self._ask_etcd()
            leadership.tick()
            if member.role is not Role.LEADER:
                starting.cancel()
            await asyncio.wait([starting], timeout=HEARTBEAT_MS / 1000 / 5)
        pacemaker.stop()
        if starting.cancelled() or starting.exception() is not None:
            leadership.end()
            self._leadership = None
            if starting.cancelled():
                self._new_member()
                return
            await starting
        self.assembly = assembly
        self.desk.about = {**self.desk.about, "role": "leader"}
        self._became("leader")

    async def _tick_leadership(self, leadership: Leadership) -> None:
        leadership.tick()
        replicas = leadership.replicas
        node = None if self.assembly is None else self.assembly.server.node
        if node is not None:
            is_short = len(replicas.members) < self.config.min_in_sync
            if is_short != node.alarms.get("replication", False):
                node.set_alarm("replication", is_short)
                node.host.wake()
        self.desk.about = {**self.desk.about, "role": "leader", "epoch": replicas.epoch, "lag": leadership.lag()}
        view = self.member.view
        if view is not None and view.transfer is not None and self.role == "leader":
            try:
                await self._transfer(view.transfer, replicas.members)
            except EtcdError as error:
                # The wish stands there until it can be granted.
                log.warning("%s", error)

    async def _transfer(self, to: str, members: set[str]) -> None:
        others = members - {self.identity.uuid}
        is_possible = to in others if to else bool(others)
        if not to or not is_possible:
            # One for a certain node stays until that one leads, so that others leave the place to it.
            await self.loop.run_in_executor(self._threads, self.desk.etcd.delete, TRANSFER)
            self.member.hurry()
        if to == self.identity.uuid:
            return
        if not is_possible:
            log.warning("%s is not in sync, so this node goes on leading", to or "nobody else")
            return
        await self._hand_over()
        self._held_back_until = time.monotonic() + _HOLD_BACK
        self._new_member()
        self._became("follower")

    async def _hand_over(self) -> None:
        """In order: clients are told, everything is everywhere, then the place is free."""
        assembly, leadership = self.assembly, self._leadership
        if assembly is None or leadership is None:
            return
        await assembly.stop()
        leadership.pump()
        await leadership.wait_mirrored(_HAND_OVER)
        self.member.resign()
        await self._give_back_lease()
        # Its followers hear of it by the end of their connections, and look at once who leads.
        leadership.end()
        self.assembly = self._leadership = None

    async def _stop_leading(self) -> None:
        """Another may lead already: nothing more is said to anybody."""
        assembly, leadership = self.assembly, self._leadership
        assert assembly is not None
        assert leadership is not None
        leadership.is_over = True
        assembly.server.give_up()
        await assembly.stop(0)
        leadership.end()
        self.assembly = self._leadership = None
        failure = assembly.server.failure.result() if assembly.server.failure.done() else None
        if isinstance(failure, OSError):
            raise WarrenError(f"the data folder failed: {failure}") from failure
        self._copies += 1
        self._is_sound = None
        self._new_member()
        self._became("follower")

    def _new_peer(self) -> Peer:
        return Peer(lambda: self.desk.secret, lambda: self._leadership, self._adopt, self._gate)

    def _adopt(self, transport: asyncio.Transport, origin: ClientOrigin, data: bytes) -> None:
        if self.assembly is None:
            transport.close()
        else:
            self.assembly.server.adopt(transport, origin, data)

    # -- following -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        if self._passage is None:
            uuid = self.identity.uuid
            self._passage = Passage(self.config, uuid, lambda: self.desk.secret, self._leader, self._calling)
            self._passage.open()
        view, leader = self.member.view, self._leader()
        if view is not None and view.leader is None and self._following is not None:
            # It has given up, or was given up, and may not be able to say so.
            self._following.stop()
        if view is None or view.leader is None or leader is None or view.leader.uuid == self.identity.uuid:
            return
        self._became("follower")
        self._passage.leave(leader.process)
        if self._following is not None and self._following.leader.process != leader.process:
            self._following.stop()
            return
        obstacle = leader.obstacle(self._tls is not None)
        if obstacle != self._obstacle:
            self._obstacle = obstacle
            if obstacle:
                log.error("this node does not follow: %s", obstacle)
        if obstacle:
            return
        if self._following is None and time.monotonic() - self._followed_at > _AGAIN:
            self._followed_at = time.monotonic()
            self._following = Following(
                leader,
                self.desk.secret,
                self.identity.uuid,
                self.identity,
                self._messages,
                self._ended,
                self._calling,
            )

    @property
    def _calling(self) -> SSLContext | None:
        return None if self._tls is None else self._tls.calling

    def _nodes(self) -> list[dict[str, object]]:
        """As the leader knows them now."""
        leadership = self._leadership
        if self.desk.keys is None or leadership is None:
            return []
        nodes, lag = nodes_of(self.desk.keys), leadership.lag()
        for node in nodes:
            uuid = str(node["uuid"])
            node["in_sync"] = uuid in leadership.replicas.members
            node["lag_ops"], node["lag_bytes"] = lag.get(uuid, {}).get("ops", 0), lag.get(uuid, {}).get("bytes", 0)
        return nodes

    def _present(self) -> set[str]:
        """Nodes whose lease has not ended."""
        return {name.removeprefix("members/") for name in self.desk.keys or {} if name.startswith("members/")}

    def _leader(self) -> Whereabouts | None:
        value = self.desk.leader_value()
        if value is None:
            return None
        host, port = value["replication"]
        return Whereabouts(
            str(value["process"]),
            (str(host), int(port)),
            str(value["http"]),
            int(value.get("speaks", 1)),
            bool(value.get("tls")),
        )

    def _ended(self, following: Following) -> None:
        """In the follower's thread."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._lost_leader, following)

    def _lost_leader(self, following: Following) -> None:
        if self._following is following:
            self._following = None
            if following.is_refused:
                self._followed_at = time.monotonic() + _REFUSED
            if following.has_begun:
                self._copies += 1
                self._is_sound = None
            view = self.member.view
            if view is not None and self.identity.uuid in view.members:
                # It may have to lead when the leader's lease has ended: that is time to look.
                self._look_for_damage()
            self.member.hurry()

    async def _stop_following(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.stop()
            while following.has_begun and not await self.loop.run_in_executor(None, following.join, 1.0):
                log.warning("the disk does not answer: waiting for it")
        passage, self._passage = self._passage, None
        if passage is not None:
            await passage.close()

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
    if config.http_port == 0:
        changes["http_port"] = chosen(0)
    return replace(config, **changes)
