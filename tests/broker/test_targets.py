"""What connections remember of publish frames is bounded, one by one and all together."""

from __future__ import annotations

from tests.broker.harness import World
from warren.broker.publish import share_of_targets


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
