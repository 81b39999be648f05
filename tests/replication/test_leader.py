"""Whom a leader waits for, and when it stops doing so."""

from __future__ import annotations

import pytest

from warren.replication.leader import Link, Replicas
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


def follows(replicas: Replicas, uuid: str, now: int = 0, acked: int = 0) -> Link:
    link = replicas.connected(uuid, now)
    replicas.acknowledged(link, acked, now)
    return link


def write(replicas: Replicas, ops: int, size: int = 1) -> None:
    for _ in range(ops):
        replicas.window.add(APPEND, "f", 0, b"x" * size)


def test_an_answer_waits_for_the_slowest_of_the_in_sync_set_and_for_nobody_else() -> None:
    replicas = leader_with({"a", "b"})
    write(replicas, 9)
    slow, fast = replicas.connected("a", 0), replicas.connected("b", 0)
    follows(replicas, "stranger")
    assert replicas.committed() == 0
    replicas.acknowledged(fast, 9, 10)
    assert replicas.committed() == 0
    replicas.acknowledged(slow, 4, 10)
    assert replicas.committed() == 4
    # An acknowledgement that was overtaken takes nothing back.
    replicas.acknowledged(slow, 3, 10)
    assert replicas.committed() == 4
    replicas.lost(slow)
    assert replicas.committed() == 0
    replicas.decided({"me", "b"})
    assert replicas.committed() == 9
    replicas.decided({"me"})
    write(replicas, 1)
    assert replicas.committed() == 10


def test_followers_show_what_was_answered_and_more_only_when_all_is_durable_here() -> None:
    replicas = leader_with({"a"})
    write(replicas, 5)
    link = follows(replicas, "a", acked=3)
    assert replicas.shown(False) == 0
    assert replicas.shown(True) == 3
    replicas.acknowledged(link, 5, 1)
    assert replicas.shown(False) == 3
    assert replicas.shown(True) == 5
    # What was shown stays, whoever is waited for next.
    replicas.lost(link)
    assert replicas.shown(True) == 5


def test_one_that_is_put_out_is_waited_for_until_etcd_has_said_so() -> None:
    replicas = leader_with({"a"})
    write(replicas, 3)
    assert replicas.proposal(PATIENCE - 1, PATIENCE) is None
    smaller = replicas.proposal(PATIENCE, PATIENCE)
    assert smaller == {"me"}
    replicas.propose(smaller)
    assert replicas.committed() == 0
    # It is asked once.
    assert replicas.proposal(PATIENCE, PATIENCE) is None
    replicas.decided(smaller)
    assert replicas.committed() == 3
    assert replicas.proposal(PATIENCE, PATIENCE) is None


def test_one_that_is_connected_and_silent_is_put_out_after_its_time() -> None:
    replicas = leader_with({"a"})
    follows(replicas, "a", 500)
    assert replicas.proposal(500 + PATIENCE - 1, PATIENCE) is None
    assert replicas.proposal(500 + PATIENCE, PATIENCE) == {"me"}


def test_a_member_that_was_never_there_has_its_time_from_when_it_is_missed() -> None:
    replicas = Replicas("me", 7, {"me", "a"})
    assert replicas.proposal(100_000, PATIENCE) is None
    assert replicas.proposal(100_000 + PATIENCE - 1, PATIENCE) is None
    assert replicas.proposal(100_000 + PATIENCE, PATIENCE) == {"me"}


def test_one_that_is_taken_in_is_waited_for_from_then_on() -> None:
    replicas = leader_with(set())
    write(replicas, 5)
    assert replicas.shown(True) == 5
    link = replicas.connected("a", 0)
    replicas.caught_up(link, 3)
    assert link.sent == 3
    # Its files are not those of the leader yet.
    assert replicas.proposal(1, PATIENCE) is None
    assert replicas.committed() == 5
    replicas.acknowledged(link, 3, 1)
    # It is near: answers wait for it, but it has not all yet that was answered.
    assert replicas.proposal(2, PATIENCE) is None
    assert replicas.committed() == 3
    replicas.acknowledged(link, 5, 3)
    larger = replicas.proposal(4, PATIENCE)
    assert larger == {"me", "a"}
    replicas.propose(larger)
    write(replicas, 1)
    assert replicas.committed() == 5
    replicas.decided(larger)
    assert replicas.committed() == 5
    # As a member, and no more as one that joins: with it the waiting ends, too.
    replicas.decided({"me"})
    assert replicas.committed() == 6


@pytest.mark.parametrize("way", ["it goes", "it is silent", "it falls behind"])
def test_one_that_was_to_be_taken_in_and_fails_is_waited_for_no_more(way: str) -> None:
    replicas = leader_with(set())
    write(replicas, 5)
    replicas.shown(True)
    link = follows(replicas, "a", 9000, 0)
    assert replicas.proposal(9000 + PATIENCE - 1, PATIENCE) is None
    assert replicas.committed() == 0
    now = 9000 + PATIENCE - 1
    if way == "it goes":
        replicas.lost(link)
    elif way == "it is silent":
        now = 9000 + PATIENCE
    else:
        write(replicas, 4, (1 << 20) - 3)
        assert replicas.proposal(now, PATIENCE) is None
        assert replicas.committed() == 0
        write(replicas, 1, 7)
    assert replicas.proposal(now, PATIENCE) is None
    assert replicas.committed() == replicas.window.last


def test_the_end_of_a_connection_is_not_that_of_the_one_which_took_its_place() -> None:
    replicas = leader_with({"a"})
    write(replicas, 3)
    old = follows(replicas, "a", 0, 1)
    new = follows(replicas, "a", 10, 3)
    replicas.lost(old)
    assert replicas.links == {"a": new}
    assert replicas.committed() == 3
