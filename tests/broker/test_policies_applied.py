"""Policies laid over things that already exist, and taken away again."""

from __future__ import annotations

from tests.broker.harness import World, put_policy
from warren.broker.rules.policies import OPERATOR_POLICY


def test_a_policy_applies_to_what_is_declared_later_too(world: World) -> None:
    world.set_policy("^q", {"max-length": 1})
    channel = world.channel()
    channel.declare("q1")
    channel.declare("other")
    for name in ("q1", "other"):
        channel.publish("a", name)
        channel.publish("b", name)
    assert channel.bodies_in("q1") == [b"b"]
    assert channel.bodies_in("other") == [b"a", b"b"]
    assert (world.queue("q1").policy, world.queue("other").policy) == ("p", None)


def test_the_policy_of_highest_priority_applies_alone(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    put_policy(world.vhost.policies, "low", "q", {"max-length": 1, "message-ttl": 5}, 1)
    put_policy(world.vhost.policies, "high", "q", {"max-length": 2}, 9)
    world.vhost.reapply_policies()
    queue = world.queue("q")
    assert (queue.policy, queue.options.max_length, queue.options.ttl) == ("high", 2, -1)
    world.vhost.policies.delete("high")
    world.vhost.reapply_policies()
    assert (queue.policy, queue.options.max_length, queue.options.ttl) == ("low", 1, 5)


def test_an_operators_policy_caps_what_the_policy_allows(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    put_policy(world.vhost.policies, "p", "q", {"max-length": 10})
    put_policy(world.vhost.policies, "cap", "q", {"max-length": 3}, kind=OPERATOR_POLICY)
    world.vhost.reapply_policies()
    queue = world.queue("q")
    assert (queue.operator_policy, queue.options.max_length) == ("cap", 3)


def test_a_policy_for_exchanges_leaves_queues_alone(world: World) -> None:
    channel = world.channel()
    channel.declare("thing")
    channel.declare_exchange("thing", "fanout")
    world.set_policy("thing", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    assert world.queue("thing").policy is None
    assert world.vhost.exchanges["thing"].policy == "p"
    assert world.vhost.exchanges["thing"].alternate == "amq.fanout"


def test_a_dead_letter_policy_holds_for_messages_that_were_there_before(world: World) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.declare("q")
    channel.publish("m", "q")
    assert channel.get("q") is not None
    world.set_policy("^q$", {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    channel.reject(1)
    assert channel.bodies_in("dead") == [b"m"]


def test_an_overflow_policy_changes_what_a_full_queue_does(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_length=1)
    channel.confirm()
    channel.publish("a", "q")
    world.set_policy("^q$", {"overflow": "reject-publish"})
    channel.publish("b", "q")
    world.clear_policy()
    channel.publish("c", "q")
    assert [kind for kind, _, _ in channel.confirms()] == ["ack", "nack", "ack"]
    assert channel.bodies_in("q") == [b"c"]
