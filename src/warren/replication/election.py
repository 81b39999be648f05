"""Who leads: a member's conversation with etcd, one request at a time.

Safety comes from etcd's transactions only. A campaign succeeds where there is no leader and the in-sync set is the one
that the candidate is in; a change of the set succeeds where the leader is still this one and the set the one it knows.
The revision in which the leader's key was made is the epoch. A lease only bounds how long a leader that is gone is
missed, and how long one that does not know it yet may speak.

Whether a request without an answer was carried out is not known. So it is asked again in a way of which only one can
succeed, and until then what it might have done is reckoned with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

# Of the lease's time: how often it is renewed, and how long after a renewal a leader may speak.
_RENEWALS: Final = 3
_SPEAKS_FOR: Final = 2 / 3
# Milliseconds between two looks of a follower, while nobody leads, and after a request without an answer: etcd may have
# other worries.
_LOOK_EVERY: Final = 500
_LOOK_LEADERLESS: Final = 100
_REST: Final = 200


class Role(Enum):
    FOLLOWER = "follower"
    LEADER = "leader"
    STOPPED = "stopped"


class LeaderKey(NamedTuple):
    uuid: str
    # Tells a process from one that had the same folder before.
    process: str
    epoch: int
    lease: int = 0


@dataclass(frozen=True)
class ClusterView:
    """What etcd had at one moment."""

    leader: LeaderKey | None
    members: frozenset[str]
    # The revision of the in-sync set; 0 when there is none.
    revision: int
    # Whom an operator wants to lead instead; "" for anybody.
    transfer: str | None = None


@dataclass(frozen=True)
class Look:
    """Renew the lease and read the keys. Answered by a ClusterView."""


@dataclass(frozen=True)
class Campaign:
    """Answered by the epoch, or 0."""

    revision: int


@dataclass(frozen=True)
class ChangeMembers:
    """Answered by the new revision of the set, or 0."""

    epoch: int
    revision: int
    members: frozenset[str]


@dataclass(frozen=True)
class Dismiss:
    """Revoke the lease of a process that is known to be dead, or one's own. Answered by anything."""

    lease: int


Request = Look | Campaign | ChangeMembers | Dismiss


@dataclass
class Member:
    """Time is in milliseconds of a clock that goes on while the process is stopped."""

    uuid: str
    process: str
    ttl: int
    role: Role = Role.FOLLOWER
    epoch: int = 0
    # False while its files are being copied, or are damaged: then it must not lead.
    is_fit: bool = True
    view: ClusterView | None = None
    # The set to ask for, as soon as possible.
    wanted: frozenset[str] | None = None
    # Why it does not lead although it could, for those who ask.
    reason: str = ""
    _asked: Request | None = None
    _asked_at: int = 0
    _looked_at: int = -(10**9)
    _rests_until: int = 0
    _speaks_until: int = 0
    _unsure: ChangeMembers | None = None
    _in_hurry: bool = False
    # Answers that the caller has not taken: the set that etcd is now known to have.
    decided: list[frozenset[str]] = field(default_factory=list)

    # -- asking ----------------------------------------------------------------------------------------------------

    def next_request(self, now: int) -> Request | None:
        """What to ask now; None while an answer is due, or when there is nothing."""
        if self._asked is not None or self.role is Role.STOPPED or now < self._rests_until:
            return None
        request = self._choose(now)
        if request is not None:
            self._asked, self._asked_at = request, now
        return request

    def _choose(self, now: int) -> Request | None:
        view = self.view
        every = self.ttl // _RENEWALS
        if self.role is not Role.LEADER:
            every = min(_LOOK_LEADERLESS if view is not None and view.leader is None else _LOOK_EVERY, every)
        if self._in_hurry or now - self._looked_at >= every:
            return Look()
        if view is None:
            return None
        if self.role is Role.LEADER:
            if self.wanted is not None and self._unsure is None:
                return ChangeMembers(self.epoch, view.revision, self.wanted)
            return None
        if view.leader is not None:
            if view.leader.uuid == self.uuid and view.leader.process != self.process:
                # That process had our folder, which is locked: it is dead.
                return Dismiss(view.leader.lease)
            return None
        if not self.may_campaign(view):
            return None
        return Campaign(view.revision)

    def may_campaign(self, view: ClusterView) -> bool:
        if self.uuid not in view.members:
            self.reason = "not in sync" if view.members else "the cluster was not initialised"
        elif not self.is_fit:
            self.reason = "its files are damaged, or were being copied"
        else:
            self.reason = ""
            return True
        return False

    def hurry(self) -> None:
        """Something happened: look at once."""
        self._in_hurry = True

    # -- answers ---------------------------------------------------------------------------------------------------

    def answered(self, request: Request, answer: object, now: int) -> None:
        sent_at, self._asked = self._asked_at, None
        if self.role is Role.STOPPED:
            # Asked before it resigned: its key may still be there, and it must not take it for a new one.
            return
        if isinstance(request, Look):
            assert isinstance(answer, ClusterView)
            self._in_hurry = False
            self._looked_at = sent_at
            self._take_view(answer, sent_at)
        elif isinstance(request, Campaign):
            if answer:
                assert isinstance(answer, int)
                self._lead(answer, sent_at)
            # Whoever won, and what else changed, is to be seen.
            self.hurry()
        elif isinstance(request, ChangeMembers):
            self._changed(request, answer)
        else:
            self.hurry()

    def failed(self, request: Request, now: int) -> None:
        """No answer. It may have been carried out."""
        self._asked = None
        self._rests_until = now + _REST
        if isinstance(request, ChangeMembers):
            self._unsure = request
        self.hurry()

    def _take_view(self, view: ClusterView, sent_at: int) -> None:
        self.view = view
        is_ours = view.leader is not None and view.leader.uuid == self.uuid and view.leader.process == self.process
        if self.role is Role.LEADER:
            if not is_ours or view.leader is None or view.leader.epoch != self.epoch:
                self.role = Role.STOPPED
                return
            self._speaks_until = sent_at + int(self.ttl * _SPEAKS_FOR)
            self._resolve(view)
        elif is_ours and view.leader is not None:
            # A campaign whose answer was lost.
            self._lead(view.leader.epoch, sent_at)

    def _lead(self, epoch: int, sent_at: int) -> None:
        self.role = Role.LEADER
        self.epoch = epoch
        self._speaks_until = sent_at + int(self.ttl * _SPEAKS_FOR)

    def _changed(self, request: ChangeMembers, answer: object) -> None:
        if answer:
            assert isinstance(answer, int)
            assert self.view is not None
            self.view = ClusterView(self.view.leader, request.members, answer, self.view.transfer)
            self._decide(request.members)
        else:
            # Another's, an older one's of ours, or we do not lead any more.
            self._unsure = request
            self.hurry()

    def _resolve(self, view: ClusterView) -> None:
        """What became of a change without an answer. One that can still come is made to fail by another before it."""
        unsure = self._unsure
        if unsure is None:
            return
        self._unsure = None
        if view.revision != unsure.revision:
            self._decide(view.members)
        elif self.wanted is None:
            self.wanted = unsure.members

    def _decide(self, members: frozenset[str]) -> None:
        self.wanted = None
        self.decided.append(members)

    # -- speaking --------------------------------------------------------------------------------------------------

    def may_speak(self, now: int) -> bool:
        """Asked before anything leaves. Alone in the set nobody else can be elected, whatever etcd does."""
        if self.role is not Role.LEADER:
            return False
        alone = self.view is not None and self.view.members == {self.uuid} and self.wanted is None
        return now < self._speaks_until or (alone and self._unsure is None)

    def resign(self) -> None:
        self.role = Role.STOPPED
