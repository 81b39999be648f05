"""A node that follows: a thread that copies the leader's files, ports that pass clients on, and one for who reads
streams from the copy."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.assembly import preload
from warren.cluster.candidacy import Candidacy
from warren.config import Config
from warren.replication.ops import OpMoment
from warren.server.following import Following
from warren.server.identity import Identity
from warren.server.passing import Passage
from warren.server.stream_reading import StreamReading
from warren.server.tls import NodeTls

log = logging.getLogger("warren.cluster")

# Seconds between two attempts to reach the leader, and how much longer after one that it refused. A new leader opens
# when its members have called.
_AGAIN: Final = 0.1
_REFUSED: Final = 2.0


class Mirroring:
    """As long as the node does not lead. Each connection to a leader is a Following of its own."""

    def __init__(
        self, config: Config, identity: Identity, messages: Path, candidacy: Candidacy, tls: NodeTls | None
    ) -> None:
        self._config = config
        self._identity = identity
        self._messages = messages
        self._candidacy = candidacy
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._passage: Passage | None = None
        self._following: Following | None = None
        self._followed_at = 0.0
        # Of which the files are while nobody writes them.
        self.moment: OpMoment | None = None
        # Why it does not follow the leader that there is.
        self._obstacle = ""
        self._reading = StreamReading(config, messages)

    def is_copying(self) -> bool:
        """The files may be changing."""
        return self._following is not None and self._following.has_begun

    def reload(self) -> None:
        if self._passage is not None:
            self._passage.reload(self._config)
        self._reading.reload()

    async def follow(self) -> bool:
        """Look after the ports and the connection. True when there is a leader to follow."""
        candidacy, calling = self._candidacy, None if self._tls is None else self._tls.calling
        if self._passage is None:
            uuid = self._identity.uuid
            self._passage = Passage(self._config, uuid, lambda: candidacy.desk.secret, candidacy.leader, calling)
            self._passage.open()
            # When it is elected, clients wait for it.
            self._loop.run_in_executor(None, preload, self._config)
        view, leader = candidacy.member.view, candidacy.leader()
        if view is not None and view.leader is None and self._following is not None:
            # It has given up, or was given up, and may not be able to say so.
            self._following.stop()
        if view is None or view.leader is None or leader is None or view.leader.uuid == self._identity.uuid:
            return False
        self._passage.leave(leader.process)
        if self._following is not None and self._following.leader.process != leader.process:
            self._following.stop()
            return True
        if self._following is not None and self._following.machine.is_streaming:
            candidacy.make_ready()
        obstacle = leader.obstacle(self._tls is not None)
        if obstacle != self._obstacle:
            self._obstacle = obstacle
            if obstacle:
                log.error("this node does not follow: %s", obstacle)
        if not obstacle and self._following is None and time.monotonic() - self._followed_at > _AGAIN:
            self._followed_at = time.monotonic()
            identity, secret = self._identity, candidacy.desk.secret
            self._following = Following(
                leader,
                secret,
                identity.uuid,
                identity,
                self.moment,
                self._messages,
                self._ended,
                self._committed,
                calling,
            )
        return True

    def _ended(self, following: Following) -> None:
        """In the follower's thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lost_leader, following)

    def _committed(self, following: Following, sizes: dict[str, int]) -> None:
        """In the follower's thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._may_show, following, sizes)

    def _may_show(self, following: Following, sizes: dict[str, int]) -> None:
        if self._following is following:
            self._reading.committed(sizes)

    def _lost_leader(self, following: Following) -> None:
        if self._following is not following:
            return
        self._following = None
        self.moment = following.machine.moment
        # Before another is called: what follows may change files that are read.
        self._reading.close("the leader of this follower is gone")
        if following.is_refused:
            self._followed_at = time.monotonic() + _REFUSED
        if following.has_begun:
            self._candidacy.files_changed(self.moment)
        self._candidacy.leader_lost()

    async def stop(self) -> None:
        following, self._following = self._following, None
        self._reading.close("this node does not follow any more")
        if following is not None:
            following.stop()
            while following.has_begun and not await self._loop.run_in_executor(None, following.join, 1.0):
                log.warning("the disk does not answer: waiting for it")
            self.moment = following.machine.moment
        passage, self._passage = self._passage, None
        if passage is not None:
            await passage.close()
