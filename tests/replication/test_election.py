"""One member's conversation with etcd, answer by answer."""

from __future__ import annotations

from warren.replication.election import Campaign, ClusterView, LeaderKey, Look, Member, Role

ALL = frozenset({"me", "other"})


def elected() -> Member:
    member = Member("me", "p1", 3000)
    member.answered(member.next_request(0) or Look(), ClusterView(None, ALL, 5), 0)
    campaign = member.next_request(1)
    assert campaign == Campaign(5)
    member.answered(campaign, 7, 1)
    assert (member.role, member.epoch, member.may_speak(1)) == (Role.LEADER, 7, True)
    return member


def test_one_that_resigned_does_not_lead_again_by_an_answer_that_was_on_its_way() -> None:
    member = elected()
    look = member.next_request(2)
    assert look == Look()
    member.resign()
    member.answered(look, ClusterView(LeaderKey("me", "p1", 7), ALL, 5), 3)
    assert (member.role, member.may_speak(3)) == (Role.STOPPED, False)
    assert member.next_request(10_000) is None


def test_requests_without_an_answer_are_not_repeated_at_once() -> None:
    member = Member("me", "p1", 3000)
    member.answered(member.next_request(0) or Look(), ClusterView(None, ALL, 5), 0)
    asked = 0
    for now in range(1, 1001):
        request = member.next_request(now)
        if request is not None:
            asked += 1
            member.failed(request, now)
    assert 3 <= asked <= 6


def test_who_sees_no_leader_looks_more_often() -> None:
    for leader, waits in ((LeaderKey("other", "p2", 7), 500), (None, 100)):
        member = Member("me", "p1", 3000)
        # It cannot stand itself.
        member.is_fit = False
        member.answered(member.next_request(0) or Look(), ClusterView(leader, ALL, 5), 0)
        assert member.next_request(waits - 1) is None
        assert member.next_request(waits) == Look()
