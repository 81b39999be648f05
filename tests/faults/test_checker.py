"""Each invariant turns red on a history that breaks it, and only on that."""

from __future__ import annotations

import random

import pytest

from tests.faults.checker import check
from tests.faults.history import LARGE, History, Op, body_for


def sent(history: History, number: int, *queues: str, confirmed: bool = True) -> str:
    identity = f"p-{number}"
    history.publish("c", number, identity, queues)
    if confirmed:
        history.confirm("c", number, False)
    return identity


def taken(history: History, queue: str, identity: str, redelivered: bool = False, kind: str = "ack") -> None:
    history.deliver("k", queue, identity, redelivered, True)
    history.settle(kind, "k", queue, identity)


def test_what_is_sent_confirmed_delivered_and_acked_is_in_order() -> None:
    history = History()
    taken(history, "q", sent(history, 1, "q"))
    verdict = check(history)
    assert verdict.is_good()
    assert (verdict.attempted, verdict.confirmed, verdict.delivered, verdict.settled) == (1, 1, 1, 1)


def test_a_confirmed_message_that_one_of_its_queues_never_gave_out_is_lost() -> None:
    history = History()
    identity = sent(history, 1, "q", "r")
    taken(history, "q", identity)
    assert check(history).violations() == {"lost": [("r", identity)]}


def test_a_message_that_was_delivered_but_not_settled_must_come_again() -> None:
    history = History()
    history.deliver("k", "q", sent(history, 1, "q"), False, True)
    assert check(history).violations() == {"lost": [("q", "p-1")]}


def test_an_unconfirmed_message_may_appear_or_not() -> None:
    history = History()
    taken(history, "q", sent(history, 1, "q", confirmed=False))
    sent(history, 2, "q", confirmed=False)
    assert check(history).is_good()


def test_a_rejected_message_must_be_among_the_dead_letters() -> None:
    history = History()
    taken(history, "q", sent(history, 1, "q"), kind="reject")
    assert check(history, {"q": "dead"}).violations() == {"lost": [("q", "p-1")]}
    taken(history, "dead", "p-1")
    assert check(history, {"q": "dead"}).is_good()


@pytest.mark.parametrize(("queue", "intact"), [("other", True), ("q", False)])
def test_a_message_in_the_wrong_queue_or_with_the_wrong_body_is_unexpected(queue: str, intact: bool) -> None:
    history = History()
    identity = sent(history, 1, "q")
    taken(history, "q", identity)
    history.deliver("k", queue, identity, True, intact)
    assert check(history).violations() == {"unexpected": [(queue, identity)]}


def test_a_second_delivery_must_be_flagged() -> None:
    history = History()
    identity = sent(history, 1, "q")
    history.deliver("k", "q", identity, False, True)
    taken(history, "q", identity, redelivered=True)
    assert check(history).is_good()
    history.deliver("k", "q", identity, False, True)
    assert check(history).violations() == {"unflagged": [("q", identity)]}


def test_a_delivery_after_a_crash_must_be_flagged_whatever_came_before_it() -> None:
    history = History()
    identity = sent(history, 1, "q")
    history.deliver("k", "q", identity, True, True)
    taken(history, "q", identity)
    # Two consumers: which of them noted its delivery first says nothing.
    assert check(history).is_good()
    history.ops.insert(-2, Op("crash"))
    assert check(history).violations() == {"unflagged": [("q", identity)]}


def test_what_was_acked_behind_a_fence_never_comes_back() -> None:
    history = History()
    identity = sent(history, 1, "q")
    taken(history, "q", identity)
    history.crash()
    history.deliver("k", "q", identity, True, True)
    assert check(history).is_good()
    history.settle("ack", "k", "q", identity)
    history.fence("k", 2)
    history.deliver("k", "q", identity, True, True)
    assert check(history).violations() == {"resurrected": [("q", identity)]}


def test_a_message_may_be_dead_lettered_as_often_as_it_was_rejected() -> None:
    """A crash within one write can leave it in both places; in neither is what must not be."""
    history = History()
    identity = sent(history, 1, "q")
    taken(history, "q", identity, kind="reject")
    taken(history, "dead", identity)
    taken(history, "q", identity, redelivered=True, kind="reject")
    taken(history, "dead", identity)
    history.fence("k", 4)
    assert check(history, {"q": "dead"}).is_good()
    taken(history, "dead", identity, redelivered=True)
    assert ("dead", identity) in check(history, {"q": "dead"}).resurrected


def test_a_fence_covers_only_what_was_settled_before_it_was_asked_for() -> None:
    history = History()
    identities = [sent(history, number, "q") for number in (1, 2)]
    for identity in identities:
        taken(history, "q", identity)
    history.fence("k", 1)
    history.deliver("k", "q", identities[1], True, True)
    assert check(history).is_good()


def test_first_deliveries_keep_the_order_of_their_publisher() -> None:
    history = History()
    first, second = sent(history, 1, "q"), sent(history, 2, "q")
    taken(history, "q", second)
    taken(history, "q", first)
    assert check(history).violations() == {"disordered": [("q", first)]}


def test_what_is_drained_at_the_end_is_in_order_whether_flagged_or_not() -> None:
    history = History()
    first, second = sent(history, 1, "q"), sent(history, 2, "q")
    history.draining()
    taken(history, "q", second, redelivered=True)
    taken(history, "q", first, redelivered=True)
    assert check(history).violations() == {"disordered": [("q", first)]}


def test_a_publish_is_answered_once_and_only_if_it_was_made() -> None:
    history = History()
    taken(history, "q", sent(history, 1, "q"))
    history.confirm("c", 1, False)
    history.confirm("c", 2, True)
    assert check(history).violations() == {"misconfirmed": [("c", "confirm 1"), ("c", "confirm 2")]}


def test_definitions_that_were_answered_are_there() -> None:
    history = History()
    history.definition("declare", "q")
    history.definition("absent", "q")
    history.definition("declare", "q")
    history.definition("declared", "q")
    assert check(history).is_good()
    history.definition("absent", "q")
    assert check(history).violations() == {"undefined": [("q", "absent")]}


def test_bodies_are_the_same_every_time_and_of_all_sizes() -> None:
    rng = random.Random(1)
    sizes = [len(body_for(f"p-{rng.random()}")) for _ in range(2000)]
    assert body_for("p-1") == body_for("p-1") != body_for("p-2")
    assert min(sizes) == 0
    assert sizes.count(LARGE) in range(20, 70)
    assert max(size for size in sizes if size < LARGE) <= 65536
