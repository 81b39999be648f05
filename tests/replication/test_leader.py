"""Whom a leader waits for, and when it stops doing so."""

from __future__ import annotations

from warren.replication.leader import Replicas
from warren.replication.ops import APPEND

PATIENCE = 3000


def leader_with(members: set[str]) -> Replicas:
    replicas = Replicas("me", 7, {"me", *members})
    replicas.missed_since = dict.fromkeys(members, 0)
    return replicas


def test_a_member_that_calls_again_and_again_and_never_acknowledges_is_not_waited_for() -> None:
    replicas = leader_with({"a"})
    replicas.acknowledged(replicas.connected("a", 0), 0, 1000)
    for now in range(1000, 1000 + PATIENCE, 250):
        assert replicas.proposal(now, PATIENCE) is None
        replicas.lost(replicas.links["a"])
        replicas.caught_up(replicas.connected("a", now), 0)
    assert replicas.proposal(1000 + PATIENCE, PATIENCE) == {"me"}


def test_one_that_comes_back_in_time_stays_in_sync() -> None:
    replicas = leader_with({"a"})
    replicas.acknowledged(replicas.connected("a", 0), 0, 1000)
    replicas.window.add(APPEND, "f", 0, b"x")
    replicas.lost(replicas.links["a"])
    link = replicas.connected("a", 2000)
    assert replicas.committed() == 0
    replicas.acknowledged(link, 1, 1000 + PATIENCE - 1)
    assert replicas.proposal(1000 + 2 * PATIENCE - 2, PATIENCE) is None
    assert replicas.committed() == 1
