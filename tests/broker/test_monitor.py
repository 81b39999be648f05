"""A queue that fails: its publishers hear nack, its consumers cancel, and everybody else hears nothing."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, put_policy
from warren.amqp import methods


@pytest.fixture
def failing(world: World) -> ChannelClient:
    """A channel beside a queue q that fails on the next publish."""
    channel = world.channel()
    channel.declare("q", durable=True)
    world.store.failing.add(("q", "publish"))
    return channel


def heal(world: World) -> None:
    world.store.failing.clear()


def test_a_failure_is_nacked_and_the_channel_lives(world: World, failing: ChannelClient) -> None:
    failing.confirm()
    failing.publish("m", "q")
    assert failing.confirms() == [("nack", 1, False)]
    heal(world)
    failing.publish("n", "q")
    assert failing.confirms() == [("ack", 2, False)]
    assert failing.bodies_in("q") == [b"n"]


def test_a_failure_is_logged_once_and_counted(world: World, failing: ChannelClient) -> None:
    failing.publish("m", "q")
    assert world.host.logged().count("queue 'q' in vhost '/' failed") == 1
    assert "the disk of q failed" in world.host.logged()
    assert world.node.monitor.failures == 1


def test_the_other_queues_of_the_message_get_it(world: World, failing: ChannelClient) -> None:
    failing.declare("r")
    for name in ("q", "r"):
        failing.bind(name, "amq.fanout")
    failing.confirm()
    failing.publish("m", "", "amq.fanout")
    assert failing.confirms() == [("nack", 1, False)]
    assert failing.bodies_in("r") == [b"m"]


@pytest.mark.parametrize("confirms", [False, True])
def test_a_mandatory_message_is_returned_when_all_its_queues_failed(failing: ChannelClient, confirms: bool) -> None:
    if confirms:
        failing.confirm()
    failing.publish("m", "q", mandatory=True)
    assert failing.names() == ["basic.return", "basic.nack"][: 1 + confirms]


def test_a_mandatory_message_that_one_queue_has_taken_is_not_returned(failing: ChannelClient) -> None:
    failing.declare("r")
    for name in ("q", "r"):
        failing.bind(name, "amq.fanout")
    failing.publish("m", "", "amq.fanout", mandatory=True)
    assert failing.take() == []


def test_a_mandatory_message_that_is_refused_is_not_returned(failing: ChannelClient) -> None:
    failing.declare("full", x_max_length=0, x_overflow="reject-publish")
    failing.publish("m", "full", mandatory=True)
    assert failing.take() == []


def test_consumers_are_cancelled_and_may_consume_anew(world: World, failing: ChannelClient) -> None:
    consumer = world.channel()
    consumer.consume("q", "c")
    failing.publish("m", "q")
    assert consumer.expect(methods.BasicCancel).consumer_tag == "c"
    heal(world)
    consumer.consume("q", "c")
    failing.publish("n", "q")
    assert consumer.delivered() == [b"n"]


def test_an_exclusive_consumer_does_not_lock_the_queue_after_its_failure(world: World, failing: ChannelClient) -> None:
    consumer = world.channel()
    consumer.consume("q", "c", exclusive=True)
    failing.publish("m", "q")
    heal(world)
    world.channel().consume("q", exclusive=True)


def test_single_active_consumers_are_all_cancelled(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_single_active_consumer=True)
    channel.consume("q", "a")
    channel.consume("q", "b")
    world.store.failing.add(("q", "publish"))
    channel.publish("m", "q")
    assert sorted(method.consumer_tag for method in channel.heard()) == ["a", "b"]  # type: ignore[attr-defined]


def test_what_a_client_held_may_still_be_acknowledged_to_no_effect(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    for body in ("a", "b", "c"):
        channel.publish(body, "q")
        assert channel.get("q") is not None
    world.store.failing.add(("q", "publish"))
    channel.publish("m", "q")
    heal(world)
    channel.ack(1)
    channel.nack(2)
    channel.reject(3)
    assert channel.take() == []
    queue = world.queue("q")
    assert (queue.unacked, queue.unacked_bytes, queue.backing.length) == (0, 0, 0)


def test_what_a_client_held_does_not_come_back_when_it_leaves(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("a", "q")
    assert channel.get("q") is not None
    world.store.failing.add(("q", "publish"))
    channel.publish("m", "q")
    heal(world)
    channel.close()
    assert (world.queue("q").unacked, world.queue("q").backing.length) == (0, 0)


def test_a_failure_while_delivering_costs_the_queue_and_nobody_else(world: World) -> None:
    channel, other = world.channel(), world.channel()
    for name in ("q", "r"):
        channel.declare(name)
        for body in ("a", "b", "c"):
            channel.publish(body, name)
    channel.qos(1)
    channel.consume("q", "c")
    other.qos(1)
    other.consume("r")
    channel.take()
    other.take()
    world.store.failing.add(("q", "fetch"))
    channel.ack(1)
    other.ack(1)
    assert [method.name for method in channel.heard()] == ["basic.cancel"]
    assert other.delivered() == [b"b"]
    assert "queue 'q' in vhost '/' failed" in world.host.logged()


def test_a_failure_of_a_timer_costs_the_queue_and_nobody_else(world: World) -> None:
    channel = world.channel()
    for name in ("q", "r"):
        channel.declare(name, x_message_ttl=1000)
        channel.publish("m", name)
    world.store.failing.add(("q", "fetch"))
    world.advance(1000)
    assert world.queue("r").backing.length == 0
    assert "queue 'q' in vhost '/' failed" in world.host.logged()


def test_a_failure_under_a_new_limit_costs_the_queue_and_nobody_else(world: World) -> None:
    channel = world.channel()
    for name in ("q", "r"):
        channel.declare(name)
        for body in ("a", "b", "c"):
            channel.publish(body, name)
    world.store.failing.add(("q", "fetch"))
    world.set_policy("^[qr]$", {"max-length": 1})
    assert world.queue("r").backing.length == 1
    assert world.host.logged().count("queue 'q' in vhost '/' failed") == 1


def test_a_queue_that_failed_while_it_was_trimmed_is_trimmed_again(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    for _ in range(3000):
        channel.publish("m", "q")
    put_policy(world.vhost.policies, "p", "^q$", {"max-length": 1})
    world.vhost.reapply_policies()
    # The first thousand are gone, and the rest goes in pieces.
    assert world.queue("q").backing.length == 2000
    world.store.failing.add(("q", "fetch"))
    world.flush()
    assert "queue 'q' in vhost '/' failed" in world.host.logged()
    assert "work of more than one turn failed" not in world.host.logged()
    heal(world)
    world.clear_policy()
    for _ in range(3000):
        channel.publish("m", "q")
    world.set_policy("^q$", {"max-length": 1})
    assert world.queue("q").backing.length == 1


def test_a_dead_letter_for_a_failing_queue_is_lost_with_it_alone(world: World, failing: ChannelClient) -> None:
    failing.declare("source", x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    failing.publish("m", "source")
    failing.get("source")
    failing.reject(1)
    assert failing.take() == []
    failing.declare("still here")


@pytest.mark.parametrize("verb", ["get", "ack", "reject", "requeue"])
def test_a_failure_while_settling_costs_the_queue_and_nobody_else(world: World, verb: str) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("a", "q")
    channel.publish("b", "q")
    assert channel.get("q") is not None
    world.store.failing |= {("q", "fetch"), ("q", "settle"), ("q", "requeue")}
    if verb == "get":
        channel.call(methods.BasicGet(queue="q"), methods.BasicGetEmpty)
    elif verb == "ack":
        channel.ack(1)
    elif verb == "reject":
        channel.send(methods.BasicReject(1, False))
    else:
        channel.send(methods.BasicReject(1, True))
    heal(world)
    channel.publish("c", "q")
    assert channel.bodies_in("q")[-1:] == [b"c"]
    assert "queue 'q' in vhost '/' failed" in world.host.logged()
