"""x-delayed-retry-*: what was given back waits before it is handed out again, longer each time."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods


def nacked(channel: ChannelClient, queue: str = "q") -> None:
    seen = channel.get(queue)
    assert seen is not None
    channel.nack(seen.tag)


def test_the_wait_grows_with_every_try_up_to_a_bound(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_delayed_retry_min=100, x_delayed_retry_max=250)
    channel.publish("m", "q")
    for wait in (100, 200, 250, 250):
        nacked(channel)
        world.advance(wait - 1)
        assert channel.get("q") is None
        world.advance(1)
        assert world.queue("q").backing.length == 1
    assert channel.got("q").redelivered


def test_others_overtake_what_waits(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_delayed_retry_min=100)
    channel.publish("first", "q")
    nacked(channel)
    channel.publish("second", "q")
    assert channel.bodies_in("q") == [b"second"]
    world.advance(100)
    assert channel.bodies_in("q") == [b"first"]


def test_a_consumer_gets_it_when_it_is_due(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_delayed_retry_min=100)
    channel.publish("m", "q")
    channel.consume("q")
    (seen,) = channel.deliveries()
    channel.nack(seen.tag)
    assert channel.deliveries() == []
    world.advance(100)
    (again,) = channel.deliveries()
    assert again.redelivered


@pytest.mark.parametrize(("kind", "waits_after_nack", "waits_after_close"), [
    ("all", True, True), ("failed", True, False), ("returned", False, True), ("disabled", False, False),
])  # fmt: skip
def test_the_type_says_what_waits(world: World, kind: str, waits_after_nack: bool, waits_after_close: bool) -> None:
    channel = world.channel()
    channel.declare("q", x_delayed_retry_min=100, x_delayed_retry_type=kind)
    channel.publish("m", "q")
    nacked(channel)
    assert (world.queue("q").backing.length == 0) == waits_after_nack
    world.advance(1000)
    other = world.channel()
    other.get("q")
    other.close()
    assert (world.queue("q").backing.length == 0) == waits_after_close


def test_after_so_many_tries_it_is_a_dead_letter(world: World) -> None:
    channel = world.channel()
    channel.declare(
        "q",
        x_delayed_retry_min=10,
        x_delayed_retry_limit=2,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    channel.declare("dead")
    channel.publish("m", "q")
    for _ in range(3):
        nacked(channel)
        world.advance(1000)
    dead = channel.got("dead")
    assert dead.received.header("x-first-death-reason") == "delivery_limit"
    assert world.queue("q").backing.length == 0


def test_a_policy_does_the_same(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.set_policy("q", {"delayed-retry-min": 100, "delayed-retry-type": "failed"})
    channel.publish("m", "q")
    nacked(channel)
    assert channel.get("q") is None
    world.advance(100)
    assert channel.bodies_in("q") == [b"m"]


def test_a_purge_takes_those_that_wait_along(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_delayed_retry_min=100)
    channel.publish("m", "q")
    nacked(channel)
    assert channel.call(methods.QueuePurge(queue="q"), methods.QueuePurgeOk).message_count == 1
    world.advance(100)
    assert channel.get("q") is None


def test_a_deleted_queue_forgets_them(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_delayed_retry_min=100)
    channel.publish("m", "q")
    nacked(channel)
    world.vhost.delete_queue(world.queue("q"))
    world.advance(1000)
