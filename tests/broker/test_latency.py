"""Latency is measured on single messages, when somebody asks, and leaves all others alone."""

from __future__ import annotations

from tests.broker.harness import World
from warren.amqp import methods


def test_a_message_is_followed_from_its_read_to_its_delivery(world: World) -> None:
    latency = world.node.latency
    channel = world.channel()
    channel.declare("q")
    channel.consume("q", no_ack=True)
    latency.ask()
    assert world.node.is_watched
    world.host.arrived = world.host.nanoseconds + 1_000
    world.host.nanoseconds += 51_000
    channel.publish("m", "q")
    assert latency.samples == 1
    assert 50_000 <= latency.latest < 51_000
    assert (world.node.is_watched, world.node.watches_deliveries, latency.waiting()) == (False, False, -1)
    channel.publish("m", "q")
    assert latency.samples == 1


def test_one_that_waits_says_how_long_until_it_is_delivered(world: World) -> None:
    latency = world.node.latency
    channel = world.channel()
    channel.declare("q")
    channel.qos(1)
    channel.consume("q")
    channel.publish("held", "q")
    (held,) = channel.deliveries()
    latency.ask()
    world.host.arrived = world.host.nanoseconds
    channel.publish("waits", "q")
    assert latency.samples == 0
    # Publishes go the short way again while it waits.
    assert (world.node.is_watched, world.node.watches_deliveries) == (False, True)
    world.host.nanoseconds += 7_000
    assert latency.waiting() >= 7_000
    channel.ack(held.tag)
    assert latency.samples == 1
    assert latency.latest >= 7_000
    assert not world.node.watches_deliveries


def test_queues_without_consumers_end_the_search_soon(world: World) -> None:
    channel = world.channel()
    channel.declare("idle")
    world.node.latency.ask()
    for _ in range(25):
        channel.publish("m", "idle")
    assert (world.node.is_watched, world.node.latency.waiting()) == (False, -1)


def test_one_that_is_never_delivered_is_forgotten(world: World) -> None:
    latency = world.node.latency
    channel = world.channel()
    channel.declare("q")
    channel.qos(1)
    channel.consume("q")
    channel.publish("held", "q")
    latency.ask()
    world.host.arrived = world.host.nanoseconds
    channel.publish("purged", "q")
    channel.send(methods.QueuePurge(queue="q"))
    assert latency.waiting() >= 0
    world.host.nanoseconds += 61_000_000_000
    latency.ask()
    assert latency.waiting() == -1
