"""What a node asks of etcd, and whether it stands when a leader is elected."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from warren.config import Config
from warren.errors import WarrenError
from warren.replication.election import Look, Member, Request, Role
from warren.replication.ops import OpMoment
from warren.server.etcd import Etcd, EtcdError
from warren.server.identity import Identity
from warren.server.leadership import now_ms
from warren.server.membership import TRANSFER, Desk, transfer_value
from warren.server.peers import Whereabouts
from warren.server.soundness import damage_in
from warren.server.tls import etcd_context_of, reload_etcd

log = logging.getLogger("warren.cluster")

# Seconds that the disk may be at one piece of work before a leader gives up its place.
_DISK_PATIENCE: Final = 5.0
# In which one that has just resigned, or is not the one that an operator wants, leaves the place to others.
_HOLD_BACK: Final = 3.0
# For which a look at the files holds that was made before the leader went.
_READY: Final = 10.0
# Between two looks for a process of the same name.
_AGAIN: Final = 0.25


class Candidacy:
    """One node's place in its cluster. Used on the loop; etcd is asked in a thread, one request at a time."""

    def __init__(self, config: Config, identity: Identity, messages: Path, about: dict[str, Any]) -> None:
        self._config = config
        self._identity = identity
        self._messages = messages
        # What others may know of this node, whatever its role.
        self._about = about
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="warren-etcd")
        self._tls = etcd_context_of(config)
        # None until somebody has looked.
        self._is_sound: bool | None = None
        # How often the files may have become others.
        self._copies = 0
        # The epoch in which they were looked at while its leader still led, and when.
        self._ready_for = 0
        self._ready_at = 0.0
        # What etcd said last when it did not answer.
        self._trouble = ""
        # Kept, for the loop would let go of it.
        self._asking: asyncio.Future[None] | None = None
        self._looking: asyncio.Future[list[str]] | None = None
        self._held_back_until = 0.0
        self._leaderless_since = 0.0
        self._bell = asyncio.Event()
        self.member, self.desk = self._new_member()

    def _new_member(self) -> tuple[Member, Desk]:
        """As a new process would be: with a name and a lease of its own."""
        process = secrets.token_hex(8)
        ttl, uuid = self._config.lease_seconds, self._identity.uuid
        return Member(uuid, process, ttl * 1000), Desk(self.new_etcd(), uuid, process, ttl, dict(self._about))

    def begin_anew(self) -> None:
        before = self.desk
        self._threads.submit(before.etcd.close)
        self.member, self.desk = self._new_member()
        # Who calls meanwhile is to be met with the secret, not with none.
        self.desk.secret = before.secret

    def new_etcd(self) -> Etcd:
        config = self._config
        return Etcd(config.etcd, config.cluster, max(1.0, config.lease_seconds / 4), self._tls)

    def reload(self) -> None:
        if self._tls is not None:
            reload_etcd(self._tls, self._config)

    # -- before it lives -------------------------------------------------------------------------------------------

    async def wait_for_namesake(self) -> None:
        """A process with this node's name and another folder. One that was here before and has moved, with its disk, is
        gone when its lease has ended. Otherwise one of the two folders is a copy, and what the one acknowledges the
        other would lead without."""
        uuid = self._identity.uuid
        name, end = f"members/{uuid}", time.monotonic() + self._config.lease_seconds + 3
        while True:
            keys = await self._loop.run_in_executor(self._threads, self.desk.etcd.read)
            if name not in keys or keys[name]["value"].get("place") == self._identity.place:
                return
            if time.monotonic() > end:
                raise WarrenError(
                    f"another process runs as this node, {uuid}: {self._config.data_dir} is a copy of its "
                    "folder, and a new node begins with an empty one"
                )
            await asyncio.sleep(_AGAIN)

    async def first_look(self) -> None:
        request = self.member.next_request(now_ms())
        assert request is not None
        answer = await self._loop.run_in_executor(self._threads, self.desk.carry_out, request)
        self.member.answered(request, answer, now_ms())
        if not self.desk.secret:
            raise WarrenError(
                f"there is no cluster '{self._config.cluster}' in etcd: begin it with `warren cluster init` on the "
                "node whose data it is to have"
            )

    # -- asking ----------------------------------------------------------------------------------------------------

    def ring(self) -> None:
        """There is something to do, which nobody is to wait for until the next time that all is looked after."""
        self._bell.set()

    async def wait_for_ring(self, seconds: float) -> None:
        """Or for so long."""
        late = self._loop.call_later(seconds, self._bell.set)
        await self._bell.wait()
        late.cancel()
        self._bell.clear()

    def ask(self, is_changing: bool, disk_stall: float) -> None:
        """What is to be asked now, if anything. `is_changing`: somebody writes the files that it would lead with."""
        member = self.member
        member.is_fit = not self._identity.is_copying and self._may_try(is_changing)
        if disk_stall > _DISK_PATIENCE:
            # Who cannot write must not keep the place.
            if member.role is Role.LEADER:
                log.error("the disk does not answer: this node gives up the lead")
                member.resign()
                self._asking = self.give_back_lease()
            return
        request = member.next_request(now_ms())
        if request is not None:
            self._asking = asyncio.ensure_future(self._carry_out(member, self.desk, request))

    async def _carry_out(self, member: Member, desk: Desk, request: Request) -> None:
        try:
            answer = await self._loop.run_in_executor(self._threads, desk.carry_out, request)
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
            before = member.view
            member.answered(request, answer, now_ms())
            if not isinstance(request, Look) or member.view != before:
                self.ring()

    def give_back_lease(self) -> asyncio.Future[None]:
        return self._loop.run_in_executor(self._threads, self.desk.give_back_lease)

    async def wish_for_another(self) -> None:
        wish = transfer_value("", self._identity.uuid)
        await self._loop.run_in_executor(self._threads, self.desk.etcd.put, TRANSFER, wish)
        self.member.hurry()

    async def wish_granted(self) -> None:
        await self._loop.run_in_executor(self._threads, self.desk.etcd.delete, TRANSFER)
        self.member.hurry()

    async def close(self) -> None:
        await self.give_back_lease()
        await self._loop.run_in_executor(self._threads, self.desk.etcd.close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- whether it stands -----------------------------------------------------------------------------------------

    def hold_back(self) -> None:
        self._held_back_until = time.monotonic() + _HOLD_BACK

    def _may_try(self, is_changing: bool) -> bool:
        """Whether to stand in an election now, if there is one."""
        view, uuid = self.member.view, self._identity.uuid
        now = time.monotonic()
        if view is None or view.leader is not None:
            self._leaderless_since = now
            if view is not None and view.leader is not None and view.leader.uuid != uuid:
                # Another has the place. If that one leaves it again, it may be meant for this node.
                self._held_back_until = 0.0
            return False
        if now < self._held_back_until:
            return False
        if view.transfer in view.members - {uuid} and now - self._leaderless_since < _HOLD_BACK:
            # The operator wants another, and that one is there.
            return False
        if view.members == {uuid}:
            # Damaged or not, nobody has more.
            return True
        if is_changing:
            return False
        self._look_for_damage()
        return self._is_sound is True

    def files_changed(self, moment: OpMoment | None) -> None:
        """They are of that moment now. Since they were last looked at, they may have become others."""
        self._copies += 1
        is_ready = moment is not None and moment.epoch == self._ready_for
        self._is_sound = True if is_ready and time.monotonic() - self._ready_at < _READY else None

    def make_ready(self) -> None:
        """It follows. If another is to lead, look for damage now: nobody is served while the next leader does."""
        view, uuid = self.member.view, self._identity.uuid
        if view is None or view.leader is None:
            return
        epoch, is_wanted = view.leader.epoch, view.transfer in ("", uuid) and uuid in view.members
        if self._ready_for == epoch:
            if time.monotonic() - self._ready_at >= _READY:
                # Nothing came of it.
                self._is_ready_for(0)
        elif is_wanted and not self._identity.is_copying and self._looking is None:
            self._looking = self._loop.run_in_executor(None, damage_in, self._messages)
            self._looking.add_done_callback(lambda found: self._looked_ahead(found, epoch))

    def _looked_ahead(self, found: asyncio.Future[list[str]], epoch: int) -> None:
        self._looking = None
        # Otherwise once more: files come and go meanwhile, which may have looked like damage.
        if not found.cancelled() and not found.result():
            self._is_ready_for(epoch)

    def _is_ready_for(self, epoch: int) -> None:
        self._ready_for, self._ready_at = epoch, time.monotonic()
        self.tell({"ready": epoch})
        self.member.hurry()
        self.ring()

    def is_ready(self, uuid: str, epoch: int) -> bool:
        """Whether that node has told that it can lead after this epoch."""
        entry = (self.desk.keys or {}).get(f"members/{uuid}")
        return entry is not None and entry["value"].get("ready") == epoch

    def leader_lost(self) -> None:
        view = self.member.view
        if view is not None and self._identity.uuid in view.members:
            # It may have to lead when the leader's lease has ended: that is time to look.
            self._look_for_damage()
        self.member.hurry()
        self.ring()

    def _look_for_damage(self) -> None:
        if self._is_sound is None and self._looking is None:
            copies = self._copies
            self._looking = self._loop.run_in_executor(None, damage_in, self._messages)
            self._looking.add_done_callback(lambda found: self._looked(found, copies))

    def _looked(self, found: asyncio.Future[list[str]], copies: int) -> None:
        self._looking = None
        if found.cancelled() or copies != self._copies:
            # The files are others by now.
            return
        for line in found.result():
            log.error("this node does not lead: %s", line)
        self._is_sound = not found.result()
        self.ring()

    # -- who else is there -----------------------------------------------------------------------------------------

    def tell(self, facts: dict[str, Any]) -> None:
        """With the next look, for others to know."""
        self.desk.about = {**self.desk.about, **facts}

    def present(self) -> set[str]:
        """Nodes whose lease has not ended."""
        return {name.removeprefix("members/") for name in self.desk.keys or {} if name.startswith("members/")}

    def leader(self) -> Whereabouts | None:
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
