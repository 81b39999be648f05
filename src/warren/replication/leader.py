"""A leader: who follows, how far each has come, and how much is durable everywhere.

What is answered waits for every member of the in-sync set **as etcd records it**. So a member that is being taken in is
waited for from the moment that this is asked of etcd, and one that is being put out until etcd has said that it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from warren.replication.ops import OpMoment, Window

# A follower that is no further behind is waited for, so that it can catch up for good and be taken in.
_NEARLY_BYTES: Final = 4 * 1024 * 1024


@dataclass
class Link:
    """A follower that is connected."""

    uuid: str
    # Up to where ops were sent, and acknowledged as durable; -1 until its files are those of the leader.
    sent: int = -1
    acked: int = -1
    # When it last acknowledged anything, over this connection or one before it.
    heard_at: int = 0


@dataclass
class Replicas:
    """Time is in milliseconds of any clock that never goes back."""

    me: str
    epoch: int
    # The in-sync set, as etcd is known to have it.
    members: set[str]
    window: Window = field(default_factory=Window)
    # Of which moment this node's files were before the first op, if that is known.
    base: OpMoment | None = None
    links: dict[str, Link] = field(default_factory=dict)
    # What etcd was asked to have instead, until its answer is known.
    proposed: set[str] | None = None
    # Those that are waited for already, to be taken in as soon as they have all that was answered.
    joining: set[str] = field(default_factory=set)
    # The op that the last answer relied on.
    answered: int = 0
    # The same of members that are not connected, or when this epoch began.
    missed_since: dict[str, int] = field(default_factory=dict)

    def required(self) -> set[str]:
        """Those that an answer waits for."""
        return (self.members | (self.proposed or set()) | self.joining) - {self.me}

    def committed(self) -> int:
        """All up to this op is durable on every member, the leader not counted."""
        waited_for = self.required()
        if not waited_for:
            return self.window.last
        return min(max(self.links[uuid].acked, 0) if uuid in self.links else 0 for uuid in waited_for)

    def shown(self, is_synced: bool) -> int:
        """Followers may show what they have up to this op, which counts as answered. `is_synced`: all that there is, is
        durable on the leader; otherwise it is known only of what was answered."""
        if is_synced:
            self.answered = max(self.answered, self.committed())
        return self.answered

    def connected(self, uuid: str, now: int) -> Link:
        # Who only calls again, and never has what it is sent, must not be waited for.
        link = Link(uuid, heard_at=self.missed_since.get(uuid, now))
        self.links[uuid] = link
        return link

    def caught_up(self, link: Link, op: int) -> None:
        link.sent = op

    def can_resume(self, moment: OpMoment | None) -> bool:
        """Whether a follower whose files are of that moment needs nothing but the ops of this epoch."""
        return moment is not None and moment == self.base and self.window.has_after(0)

    def acknowledged(self, link: Link, op: int, now: int) -> None:
        link.heard_at = now
        link.acked = max(link.acked, op)

    def lost(self, link: Link) -> None:
        if self.links.get(link.uuid) is link:
            del self.links[link.uuid]
            self.joining.discard(link.uuid)
            self.missed_since[link.uuid] = link.heard_at

    # -- the in-sync set -------------------------------------------------------------------------------------------

    def proposal(self, now: int, patience: int) -> set[str] | None:
        """The in-sync set as it should be, when that is another than it is and nobody has been asked yet."""
        if self.proposed is not None:
            return None
        members = {uuid for uuid in self.members if uuid == self.me or not self._is_missing(uuid, now, patience)}
        for uuid, link in self.links.items():
            if uuid not in self.members and self._is_joining(link, now, patience) and link.acked >= self.answered:
                members.add(uuid)
        return None if members == self.members else members

    def _is_missing(self, uuid: str, now: int, patience: int) -> bool:
        link = self.links.get(uuid)
        if link is None:
            return now - self.missed_since.setdefault(uuid, now) >= patience
        return now - link.heard_at >= patience

    def _is_joining(self, link: Link, now: int, patience: int) -> bool:
        """From here on answers wait for it: then what it has over this connection is all that was answered."""
        is_near = (
            link.acked >= 0
            and now - link.heard_at < patience
            and self.window.has_after(link.acked)
            and self.window.bytes_after(link.acked) < _NEARLY_BYTES
        )
        if is_near:
            self.joining.add(link.uuid)
        else:
            self.joining.discard(link.uuid)
        return is_near

    def propose(self, members: set[str]) -> None:
        self.proposed = members

    def decided(self, members: set[str]) -> None:
        """etcd has this set, whoever asked for it."""
        self.members = members
        self.proposed = None
        self.joining -= members
