"""What members of a cluster ask of etcd, and what the operator's commands write there.

leader        by a lease: who leads; the revision that made it is the epoch
isr           the in-sync set: every node that has all that was ever answered
members/UUID  by a lease: who is there, and where
secret        what nodes prove themselves with
transfer      an operator's wish that another should lead
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from typing import Any

from warren.errors import WarrenError
from warren.replication.election import Campaign, ChangeMembers, ClusterView, Dismiss, LeaderKey, Look, Request
from warren.server.etcd import Etcd, EtcdError

log = logging.getLogger("warren.cluster")

LEADER = "leader"
MEMBERS_KEY = "isr"
SECRET = "secret"
TRANSFER = "transfer"


@dataclass
class Desk:
    """One node's conversation with etcd. Blocking: used in a thread, one request at a time."""

    etcd: Etcd
    uuid: str
    process: str
    ttl_seconds: int
    # What others may know of this node; told again whenever it changes.
    about: dict[str, Any]
    lease: int = 0
    secret: str = ""
    # All keys, as the last look found them.
    keys: dict[str, dict[str, Any]] | None = None
    _told: dict[str, Any] | None = None

    def carry_out(self, request: Request) -> object:
        if isinstance(request, Look):
            return self._look()
        if isinstance(request, Campaign):
            value = {"uuid": self.uuid, "process": self.process, **self.about}
            return self.etcd.put_if(
                [(LEADER, "CREATE", 0), (MEMBERS_KEY, "MOD", request.revision)], LEADER, value, self.lease
            )
        if isinstance(request, ChangeMembers):
            return self.etcd.put_if(
                [(LEADER, "CREATE", request.epoch), (MEMBERS_KEY, "MOD", request.revision)],
                MEMBERS_KEY,
                {"epoch": request.epoch, "members": sorted(request.members)},
            )
        assert isinstance(request, Dismiss)
        self.etcd.revoke(request.lease)
        return True

    def _look(self) -> ClusterView:
        if self.lease == 0 or not self.etcd.keep_alive(self.lease):
            self.lease = self.etcd.grant(self.ttl_seconds)
            self._told = None
        if self._told != self.about:
            told = dict(self.about)
            self.etcd.put(f"members/{self.uuid}", {"uuid": self.uuid, **told}, self.lease)
            self._told = told
        self.keys = self.etcd.read()
        self.secret = str(self.keys[SECRET]["value"]) if SECRET in self.keys else ""
        return view_of(self.keys)

    def give_back_lease(self) -> None:
        try:
            if self.lease:
                self.etcd.revoke(self.lease)
        except EtcdError as error:
            log.warning("the lease is left to end by itself: %s", error)

    def leader_value(self) -> dict[str, Any] | None:
        if self.keys is None or LEADER not in self.keys:
            return None
        value = self.keys[LEADER]["value"]
        return value if isinstance(value, dict) else None


def view_of(keys: dict[str, dict[str, Any]]) -> ClusterView:
    leader: LeaderKey | None = None
    if LEADER in keys:
        entry = keys[LEADER]
        value = entry["value"]
        leader = LeaderKey(value["uuid"], value["process"], entry["create_revision"], entry["lease"])
    members: frozenset[str] = frozenset()
    revision = 0
    if MEMBERS_KEY in keys:
        members = frozenset(keys[MEMBERS_KEY]["value"]["members"])
        revision = keys[MEMBERS_KEY]["mod_revision"]
    return ClusterView(leader, members, revision, _transfer_in(keys, leader))


def transfer_value(to: str, leader: str) -> dict[str, str]:
    """The wish that this node leads, or any but the leader."""
    return {"to": to, "from": leader}


def _transfer_in(keys: dict[str, dict[str, Any]], leader: LeaderKey | None) -> str | None:
    if TRANSFER not in keys:
        return None
    wish = keys[TRANSFER]["value"]
    to = str(wish.get("to", ""))
    # One for anybody else has come true when another leads, whether or not the one before had time to say so.
    is_over = not to and leader is not None and wish.get("from", leader.uuid) != leader.uuid
    return None if is_over else to


def nodes_of(keys: dict[str, dict[str, Any]]) -> list[dict[str, object]]:
    """Those that are there, and those in the in-sync set that are not."""
    view = view_of(keys)
    present = {
        name.removeprefix("members/"): entry["value"] for name, entry in keys.items() if name.startswith("members/")
    }
    lags: dict[str, dict[str, int]] = next(
        (about.get("lag", {}) for about in present.values() if about.get("role") == "leader"), {}
    )
    nodes: list[dict[str, object]] = []
    for uuid in sorted({*present, *view.members}):
        about = present.get(uuid, {})
        is_leader = view.leader is not None and view.leader.uuid == uuid
        lag = lags.get(uuid, {})
        nodes.append(
            {
                "uuid": uuid,
                "name": about.get("node", ""),
                "role": "leader" if is_leader else "follower" if about else "gone",
                "in_sync": uuid in view.members,
                "amqp": about.get("amqp", ""),
                "http": about.get("http", ""),
                # Where it serves readers of streams, while it follows.
                "streams": "" if is_leader else about.get("streams", ""),
                "streams_tls": bool(about.get("streams_tls", False)),
                "version": about.get("version", ""),
                "lag_ops": lag.get("ops", 0),
                "lag_bytes": lag.get("bytes", 0),
            }
        )
    return nodes


def initialise(etcd: Etcd, cluster: str, uuid: str) -> None:
    """The first node of a cluster: what it has is what all will have."""
    etcd.put_if([(SECRET, "CREATE", 0)], SECRET, secrets.token_urlsafe(32))
    if not etcd.put_if([(MEMBERS_KEY, "CREATE", 0)], MEMBERS_KEY, {"epoch": 0, "members": [uuid]}):
        raise WarrenError(f"the cluster '{cluster}' is initialised already: start other nodes, they join by themselves")
