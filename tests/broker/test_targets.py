"""What connections remember of publish frames is bounded, one by one and all together."""

from __future__ import annotations

from tests.broker.harness import World
from warren.broker.publish.publish import share_of_targets


def test_many_keys_are_remembered_and_no_more_than_a_share(world: World) -> None:
    channel = world.channel()
    connection = channel.client.connection
    for number in range(10_000):
        channel.publish(b"", f"key.{number}")
    assert len(connection.targets) == 10_000
    others = [world.connect() for _ in range(15)]
    assert share_of_targets(1 + len(others)) == 4096
    channel.publish(b"", "one more")
    assert len(connection.targets) == 1


def test_each_may_remember_some_however_many_they_are() -> None:
    assert share_of_targets(100_000) == 256


def test_keys_that_lead_to_the_same_queues_share_the_list(world: World) -> None:
    channel = world.channel()
    channel.declare("one")
    channel.declare("two")
    for key in ("a", "b", "c"):
        channel.bind("one", "amq.direct", key)
    channel.bind("two", "amq.direct", "c")
    for key in ("a", "b", "c", "b"):
        channel.publish(b"", key, "amq.direct")
    first, second, third = channel.client.connection.targets.values()
    assert first.queues is second.queues
    assert first.queues == [world.queue("one")]
    assert third.queues == [world.queue("one"), world.queue("two")]
    assert (world.queue("one").backing.length, world.queue("two").backing.length) == (4, 1)
