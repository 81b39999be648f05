"""Queues with priorities: the highest first, order within a level, and everything else as in other queues."""

from __future__ import annotations

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.properties import Properties


def publish(channel: ChannelClient, body: str, priority: int | None = None, expiration: str | None = None) -> None:
    channel.publish(body, "q", properties=Properties(priority=priority, expiration=expiration))


def test_the_highest_priority_comes_first_and_equals_keep_their_order(channel: ChannelClient) -> None:
    channel.declare("q", x_max_priority=5)
    for body, priority in (("a", 1), ("b", 3), ("c", 1), ("d", 3), ("e", 5)):
        publish(channel, body, priority)
    assert channel.bodies_in("q") == [b"e", b"b", b"d", b"a", b"c"]


def test_no_priority_is_the_lowest_and_one_too_high_is_the_highest(channel: ChannelClient) -> None:
    channel.declare("q", x_max_priority=2)
    for body, priority in (("none", None), ("over", 200), ("two", 2), ("zero", 0), ("one", 1)):
        publish(channel, body, priority)
    assert channel.bodies_in("q") == [b"over", b"two", b"one", b"none", b"zero"]


def test_the_property_itself_is_not_changed(channel: ChannelClient) -> None:
    channel.declare("q", x_max_priority=2)
    publish(channel, "m", 200)
    assert channel.got("q").received.properties.priority == 200


def test_without_the_argument_priorities_mean_nothing(channel: ChannelClient) -> None:
    channel.declare("q")
    publish(channel, "a", 1)
    publish(channel, "b", 9)
    assert channel.bodies_in("q") == [b"a", b"b"]


def test_a_requeued_message_goes_back_to_its_place_in_its_level(channel: ChannelClient) -> None:
    channel.declare("q", x_max_priority=5)
    for body, priority in (("a", 3), ("b", 3), ("c", 5)):
        publish(channel, body, priority)
    assert [seen.body for seen in (channel.get("q"), channel.get("q")) if seen is not None] == [b"c", b"a"]
    channel.nack(2, multiple=True)
    assert channel.bodies_in("q") == [b"c", b"a", b"b"]


def test_what_a_consumer_holds_is_not_overtaken(channel: ChannelClient) -> None:
    channel.declare("q", x_max_priority=5)
    channel.qos(1)
    channel.consume("q")
    publish(channel, "low", 0)
    publish(channel, "middle", 2)
    publish(channel, "high", 5)
    assert channel.delivered() == [b"low"]
    channel.ack(1)
    assert channel.delivered() == [b"high"]


def test_max_length_drops_from_the_highest_level_as_rabbitmq_does(channel: ChannelClient) -> None:
    channel.declare("q", x_max_priority=5, x_max_length=2)
    for body, priority in (("low", 0), ("high", 5), ("higher", 5)):
        publish(channel, body, priority)
    assert channel.bodies_in("q") == [b"higher", b"low"]


def test_an_expiring_message_that_overtakes_is_timed_all_the_same(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_priority=5)
    publish(channel, "low", 0)
    publish(channel, "high", 5, expiration="100")
    world.advance(100)
    assert world.queue("q").backing.length == 1
    assert channel.bodies_in("q") == [b"low"]


def test_an_expired_message_hides_behind_a_higher_level(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_priority=5)
    publish(channel, "low", 0, expiration="100")
    publish(channel, "high", 5)
    world.advance(100)
    assert world.queue("q").backing.length == 2
    assert channel.bodies_in("q") == [b"high"]


def test_purge_and_counts_cover_all_levels(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_priority=5)
    for priority in range(6):
        publish(channel, "xx", priority)
    backing = world.queue("q").backing
    assert (backing.length, backing.body_bytes) == (6, 12)
    assert [entry.message.priority for entry in backing.snapshot(4)] == [5, 4, 3, 2]
    assert channel.call(methods.QueuePurge(queue="q"), methods.QueuePurgeOk).message_count == 6
    assert (backing.length, backing.body_bytes) == (0, 0)
