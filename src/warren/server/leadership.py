"""A broker that leads: its followers' connections, and what the host and the syncer ask before anything is answered."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.replication import messages
from warren.replication.disk import ReplicatedDisk
from warren.replication.files import copy_differences
from warren.replication.leader import Link, Replicas
from warren.replication.messages import Garbled, PeerMessage
from warren.replication.ops import OpMoment
from warren.store.damage import damaged_parts
from warren.store.disk import RealDisk

if TYPE_CHECKING:
    from warren.replication.election import Member
    from warren.server.replication_port import Peer

log = logging.getLogger("warren.cluster")

# Milliseconds.
HEARTBEAT_MS: Final = 500
# Between two words on what is committed, when there is more: readers of followers see it so much later.
COMMITTED_MS: Final = 50
PATIENCE_MS: Final = 3000
# Of ops in one message, and of what may wait to be sent to one follower. A follower gets memory for each message: more
# than this would come from the system, and be given back, each time.
_BATCH: Final = 1 << 16
_UNSENT_MAX: Final = 16 << 20


def now_ms() -> int:
    """A clock that goes on while the machine sleeps or the process is stopped."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Leadership:
    """One epoch of a leader."""

    def __init__(
        self,
        member: Member,
        members: set[str],
        present: set[str],
        base: OpMoment | None,
        loop: asyncio.AbstractEventLoop,
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        self.member = member
        self.replicas = Replicas(member.uuid, member.epoch, members, base=base)
        self.loop = loop
        # There is something to ask etcd for.
        self._ring = ring
        self._disk: ReplicatedDisk | None = None
        # Followers that called before there was a disk.
        self._callers: list[tuple[Peer, str, int, OpMoment | None]] = []
        self._links: dict[Peer, Link] = {}
        self._on_progress: Callable[[], None] = lambda: None
        # Whether all that was written is durable here.
        self._is_synced: Callable[[], bool] = lambda: False
        # What followers were told is committed, and when.
        self._told = 0
        self._told_at = 0
        # The last ops that were sent: after which op, and the last that there was then.
        self._encoded_for = (-1, -1)
        self._encoded: tuple[int, list[bytes]] = (0, [])
        self._opens_at = 0
        self._is_open = loop.create_future()
        self.is_recovered = threading.Event()
        self.is_over = False
        self._present = present
        # A follower has something whole that is damaged here.
        self.is_damaged = False

    # -- asked by the server ---------------------------------------------------------------------------------------

    def make_disk(self, folder: Path) -> ReplicatedDisk:
        self._disk = ReplicatedDisk(RealDisk(folder), self.replicas.window, threading.Lock())
        self.loop.call_soon(self._welcome_callers)
        return self._disk

    def watch(self, on_progress: Callable[[], None], is_synced: Callable[[], bool]) -> None:
        """Who waits for followers, and for whom they wait. What was found at the start is to be theirs too before
        anybody sees it."""
        self._on_progress = on_progress
        self._is_synced = is_synced
        self.is_recovered.set()
        now = now_ms()
        for uuid in self.replicas.members:
            # From here on they can call. Whose lease has ended was missed for long enough.
            self.replicas.missed_since[uuid] = now if uuid in self._present else now - PATIENCE_MS
        for link in self.replicas.links.values():
            link.heard_at = now
        self._opens_at = self.replicas.window.last
        self.tick()

    async def wait_open(self) -> None:
        await self._is_open

    async def wait_mirrored(self, seconds: float) -> None:
        """Until all that was written is durable everywhere, or for so long."""
        op, mirrored = self.last_op(), asyncio.Event()

        def look() -> None:
            if self.has(op):
                mirrored.set()

        self._on_progress = look
        look()
        with suppress(TimeoutError):
            await asyncio.wait_for(mirrored.wait(), seconds)

    def moment(self) -> OpMoment | None:
        """Of which the files are when everything is written. One that is damaged is compared with the next leader's."""
        return None if self.is_damaged else OpMoment(self.replicas.epoch, self.last_op())

    def may_speak(self) -> bool:
        return not self.is_over and self.member.may_speak(now_ms())

    def last_op(self) -> int:
        return self.replicas.window.last

    def has(self, op: int) -> bool:
        return self.replicas.committed() >= op

    def answered(self, op: int) -> None:
        self.replicas.answered = op

    def pump(self) -> None:
        """At the end of a turn: what was written goes to the followers, before it is synced here."""
        for peer, link in list(self._links.items()):
            self._send_ops(peer, link)

    def _progressed(self) -> None:
        if not self._is_open.done() and self._disk is not None and self.has(self._opens_at):
            self._is_open.set_result(None)
        self._on_progress()

    # -- the in-sync set -------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Every now and then: heartbeats, and who should be in the set."""
        member, replicas = self.member, self.replicas
        while member.decided:
            before = replicas.members
            replicas.decided(set(member.decided.pop(0)))
            if replicas.members != before:
                log.info("in sync: %s", ", ".join(sorted(replicas.members)))
        proposal = replicas.proposal(now_ms(), PATIENCE_MS) if self.is_recovered.is_set() else None
        if proposal is not None:
            replicas.propose(proposal)
            member.wanted = frozenset(proposal)
            self._ring()
        self._beat(self._shown())
        self._progressed()

    def tell_committed(self) -> None:
        """Before the next heartbeat is due, if there is anything to tell."""
        committed = self._shown()
        if committed > self._told and now_ms() - self._told_at >= COMMITTED_MS:
            self._beat(committed)

    def _shown(self) -> int:
        return self.replicas.shown(self._is_open.done() and self._is_synced())

    def _beat(self, committed: int) -> None:
        self._told, self._told_at = committed, now_ms()
        beat = messages.numbers(messages.HEARTBEAT, self.replicas.epoch, committed).encode()
        for peer in self._links:
            peer.write(beat)

    def lag(self) -> dict[str, dict[str, int]]:
        """How far each follower is behind, for those who look."""
        window = self.replicas.window
        return {
            link.uuid: {"ops": window.last - max(link.acked, 0), "bytes": window.bytes_after(max(link.acked, 0))}
            for link in self._links.values()
        }

    # -- followers -------------------------------------------------------------------------------------------------

    def follower_says(self, peer: Peer, message: PeerMessage) -> None:
        link = self._links.get(peer)
        if message.kind == messages.HELLO:
            self._welcome(peer, *messages.read_hello(message.payload))
        elif link is None:
            raise Garbled("nothing before its name")
        elif message.kind == messages.HAVE:
            peer.copying = self.loop.create_task(self._copy(peer, link, messages.read_have(message.payload)))
        elif message.kind == messages.ACK:
            epoch, op = messages.read_numbers(message.payload)
            if epoch == self.replicas.epoch:
                self.replicas.acknowledged(link, op, now_ms())
                self._send_ops(peer, link)
                self._progressed()
        elif message.kind == messages.FENCED:
            self.member.hurry()
        else:
            raise Garbled(f"kind {message.kind} from a follower")

    def _welcome(self, peer: Peer, uuid: str, epoch: int, moment: OpMoment | None) -> None:
        if epoch > self.replicas.epoch:
            log.warning("a follower knows of epoch %d, and this is %d: looking again", epoch, self.replicas.epoch)
            self.member.hurry()
            peer.close()
            return
        if self._disk is None:
            # Elected a moment ago.
            self._callers.append((peer, uuid, epoch, moment))
            return
        for other, link in list(self._links.items()):
            if link.uuid == uuid:
                self.follower_lost(other)
                other.close()
        link = self._links[peer] = self.replicas.connected(uuid, now_ms())
        if not self.replicas.can_resume(moment):
            log.info("%s follows", uuid)
            self._begin_copy(peer, link)
            return
        log.info("%s follows, and has all files as this node found them", uuid)
        peer.write(messages.resume(self.replicas.epoch, self._disk.first_files).encode())
        self.replicas.caught_up(link, 0)
        self._send_ops(peer, link)

    def _welcome_callers(self) -> None:
        callers, self._callers = self._callers, []
        for caller in callers:
            if not caller[0].is_closed:
                self._welcome(*caller)

    def _begin_copy(self, peer: Peer, link: Link) -> None:
        assert self._disk is not None
        link.sent = link.acked = -1
        peer.cut, peer.files = self._disk.manifest()
        peer.write(messages.manifest(self.replicas.epoch, peer.cut, peer.files).encode())

    async def _copy(self, peer: Peer, link: Link, have: dict[str, bytes]) -> None:
        """Files are read and compared off the loop, and sent as fast as the follower takes them."""
        assert self._disk is not None
        parts = copy_differences(self._disk, self._disk.digests, peer.files, have, self._damage_in)
        copied = 0
        try:
            while (part := await self.loop.run_in_executor(None, next, parts, None)) is not None:
                await peer.drained()
                if peer.is_closed:
                    return
                peer.write(part.encode())
                copied += len(part.payload)
        except OSError as error:
            log.error("files for %s cannot be read: %s", link.uuid, error)
            peer.close()
            return
        log.info("%s has got %d bytes of files", link.uuid, copied)
        peer.write(messages.caught_up(self.replicas.window.last).encode())
        self.replicas.caught_up(link, peer.cut)
        self._send_ops(peer, link)

    def _damage_in(self, name: str, size: int) -> list[tuple[int, int]]:
        """In a thread. It was whole when it was written, and may still be so where it was copied to."""
        assert self._disk is not None
        found = damaged_parts(self._disk, name, size)
        self.is_damaged = self.is_damaged or bool(found)
        for start, end in found:
            log.error(
                "%s is damaged here from byte %d to %d, and a follower has it otherwise: it keeps what it has. Let a "
                "node lead that has it whole (`warren cluster transfer`), and this one is repaired",
                name,
                start,
                end,
            )
        return found

    def _send_ops(self, peer: Peer, link: Link) -> None:
        window = self.replicas.window
        if link.sent < 0:
            return
        if not window.has_after(link.sent):
            log.info("%s is too far behind: it gets files instead", link.uuid)
            self._begin_copy(peer, link)
            return
        while link.sent < window.last and peer.unsent() < _UNSENT_MAX:
            link.sent, pieces = self._next_ops(link.sent)
            peer.write_pieces(pieces)

    def _next_ops(self, sent: int) -> tuple[int, list[bytes]]:
        """For one who was sent all up to that op: the last of them, and the message. All who keep up get the same."""
        window = self.replicas.window
        key = (sent, window.last)
        if key != self._encoded_for:
            found = window.after(sent, _BATCH)
            self._encoded_for, self._encoded = key, (found[-1].number, messages.ops(found))
        return self._encoded

    def follower_lost(self, peer: Peer) -> None:
        link = self._links.pop(peer, None)
        if link is not None:
            log.warning("%s does not follow any more", link.uuid)
            self.replicas.lost(link)
            # It may follow another, or lead: etcd can end a lease too early, and who led does not hear of it.
            self.member.hurry()
            self._ring()

    def end(self) -> None:
        self.is_over = True
        if not self._is_open.done():
            self._is_open.cancel()
        for peer in [*self._links, *(caller[0] for caller in self._callers)]:
            peer.close()
        self._links.clear()
        self._callers.clear()
