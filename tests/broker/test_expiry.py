"""Time in a queue: message TTL at the head only, never a late delivery, and queues that go when nobody uses them."""

from __future__ import annotations

import pytest

from tests.broker.harness import World
from warren.amqp import methods
from warren.amqp.properties import Properties


def expiring(milliseconds: int) -> Properties:
    return Properties(expiration=str(milliseconds))


def ready(world: World, queue: str = "q") -> int:
    return int(world.queue(queue).backing.length)


def test_a_message_leaves_when_the_queues_ttl_is_over(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=1000)
    channel.publish("m", "q")
    world.advance(999)
    assert ready(world) == 1
    world.advance(1)
    assert ready(world) == 0


def test_a_message_leaves_when_its_own_ttl_is_over(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q", properties=expiring(1000))
    world.advance(999)
    assert ready(world) == 1
    world.advance(1)
    assert ready(world) == 0


@pytest.mark.parametrize(("queue_ttl", "message_ttl"), [(1000, 5000), (5000, 1000)])
def test_the_shorter_ttl_counts(world: World, queue_ttl: int, message_ttl: int) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=queue_ttl)
    channel.publish("m", "q", properties=expiring(message_ttl))
    world.advance(999)
    assert ready(world) == 1
    world.advance(1)
    assert ready(world) == 0


def test_only_the_head_expires(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("long", "q", properties=expiring(5000))
    channel.publish("short", "q", properties=expiring(10))
    channel.publish("for ever", "q")
    world.advance(1000)
    assert ready(world) == 3
    world.advance(4000)
    assert ready(world) == 1
    assert channel.bodies_in("q") == [b"for ever"]


def test_an_expired_message_behind_the_head_is_never_delivered(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("long", "q")
    channel.publish("short", "q", properties=expiring(10))
    channel.publish("last", "q")
    world.advance(1000)
    assert channel.bodies_in("q") == [b"long", b"last"]


def test_a_message_past_its_time_is_not_delivered_even_if_no_timer_fired(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=1000)
    channel.publish("m", "q")
    world.node.now += 1000
    channel.consume("q")
    assert channel.take() == []
    channel.publish("n", "q")
    assert channel.delivered() == [b"n"]


def test_get_never_sees_a_message_past_its_time(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=1000)
    channel.publish("m", "q")
    world.node.now += 1000
    assert channel.get("q") is None


@pytest.mark.parametrize("per_queue", [True, False])
def test_ttl_0_is_for_consumers_that_wait_and_nobody_else(world: World, per_queue: bool) -> None:
    channel = world.channel()
    channel.declare("q", more={"x-message-ttl": 0} if per_queue else None)
    properties = None if per_queue else expiring(0)
    channel.publish("lost", "q", properties=properties)
    assert ready(world) == 0
    channel.consume("q")
    channel.publish("m", "q", properties=properties)
    assert channel.delivered() == [b"m"]


def test_ttl_0_with_a_dead_letter_exchange_dies_at_once(world: World) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.declare("q", x_message_ttl=0, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    channel.publish("m", "q")
    assert channel.bodies_in("dead") == [b"m"]


def test_an_expiring_message_does_not_expire_in_a_consumers_hands(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=1000)
    channel.consume("q")
    channel.publish("m", "q")
    (seen,) = channel.deliveries()
    world.advance(5000)
    channel.ack(seen.tag)
    assert channel.take() == []


def test_a_requeued_message_keeps_its_time(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=1000)
    channel.publish("m", "q")
    assert channel.get("q") is not None
    world.advance(600)
    channel.nack(1)
    world.advance(399)
    assert ready(world) == 1
    world.advance(1)
    assert ready(world) == 0


def test_a_message_requeued_after_its_time_expires_at_once(world: World) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.declare("q", x_message_ttl=1000, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    channel.publish("m", "q")
    assert channel.get("q") is not None
    world.advance(2000)
    channel.nack(1)
    assert channel.bodies_in("dead") == [b"m"]


@pytest.mark.parametrize("per_queue", [True, False])
def test_a_message_that_never_waited_expires_after_it_was_given_back(world: World, per_queue: bool) -> None:
    channel = world.channel()
    channel.declare("q", more={"x-message-ttl": 1000} if per_queue else None)
    channel.consume("q", "c")
    channel.publish("m", "q", properties=None if per_queue else expiring(1000))
    channel.take()
    channel.cancel("c")
    channel.nack(1)
    assert ready(world) == 1
    world.advance(1000)
    assert ready(world) == 0
    assert channel.get("q") is None


def test_a_policy_gives_a_ttl_to_later_messages_only(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("early", "q")
    world.set_policy("^q$", {"message-ttl": 1000})
    channel.publish("late", "q")
    world.advance(5000)
    assert ready(world) == 2
    assert channel.bodies_in("q") == [b"early"]


def test_of_policy_and_argument_the_shorter_ttl_counts(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=5000)
    world.set_policy("^q$", {"message-ttl": 1000})
    channel.publish("m", "q")
    world.advance(1000)
    assert ready(world) == 0


def test_what_a_dropped_head_leaves_at_the_head_is_timed(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_length=2)
    channel.publish("for ever", "q")
    channel.publish("short", "q", properties=expiring(100))
    channel.publish("last", "q")
    world.advance(100)
    assert ready(world) == 1
    world.set_policy("^q$", {"max-length": 2})
    channel.publish("short", "q", properties=expiring(100))
    world.set_policy("^q$", {"max-length": 1})
    world.advance(100)
    assert ready(world) == 0


def test_many_messages_expire_each_in_its_time(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=100)
    for _ in range(10):
        channel.publish("m", "q")
        world.advance(10)
    assert ready(world) == 9
    for left in range(8, -1, -1):
        world.advance(10)
        assert ready(world) == left


def test_a_node_without_ttls_has_no_timers(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q")
    assert world.node.next_deadline() == -1


# -- x-expires ---------------------------------------------------------------------------------------------------------


def test_a_queue_that_nobody_uses_goes_with_all_it_holds(world: World) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.declare("q", x_expires=1000, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    channel.publish("m", "q")
    world.advance(999)
    assert "q" in world.vhost.queues
    world.advance(1)
    assert "q" not in world.vhost.queues
    assert channel.bodies_in("dead") == []


@pytest.mark.parametrize("use", ["declare", "passive", "get"])
def test_using_a_queue_makes_it_live_longer(world: World, use: str) -> None:
    channel = world.channel()
    channel.declare("q", x_expires=1000)
    world.advance(900)
    if use == "get":
        channel.get("q")
    else:
        channel.declare("q", passive=use == "passive", x_expires=1000)
    world.advance(999)
    assert "q" in world.vhost.queues
    world.advance(1)
    assert "q" not in world.vhost.queues


def test_publishing_is_no_use_of_a_queue(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_expires=1000)
    world.advance(900)
    channel.publish("m", "q")
    world.advance(100)
    assert "q" not in world.vhost.queues


def test_a_queue_with_consumers_never_goes_and_counts_from_the_last_one(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_expires=1000)
    channel.consume("q", "c")
    world.advance(10_000)
    assert "q" in world.vhost.queues
    channel.cancel("c")
    world.advance(999)
    assert "q" in world.vhost.queues
    world.advance(1)
    assert "q" not in world.vhost.queues


def test_a_policy_makes_an_old_queue_go_only_after_its_time(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.advance(100_000)
    world.set_policy("^q$", {"expires": 1000})
    world.advance(999)
    assert "q" in world.vhost.queues
    world.advance(1)
    assert "q" not in world.vhost.queues


def test_a_policy_taken_back_lets_the_queue_live(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.set_policy("^q$", {"expires": 1000})
    world.clear_policy()
    world.advance(10_000)
    assert "q" in world.vhost.queues


def test_a_deleted_queue_does_not_take_its_successor_along(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_expires=1000, x_message_ttl=500)
    channel.publish("m", "q")
    channel.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    world.advance(600)
    channel.declare("q", x_expires=1000, x_message_ttl=500)
    channel.publish("m", "q")
    world.advance(450)
    assert ready(world) == 1
