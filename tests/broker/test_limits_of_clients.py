"""Limits on connections, channels and queues, each with its own refusal."""

from __future__ import annotations

import pytest

from tests.broker.harness import Client, World
from warren.amqp import methods
from warren.broker.settings import Settings


def refused_open(world: World, user: str = "guest") -> tuple[int, str]:
    client: Client = world.dial()
    client.log_in(user, user)
    client.expect(methods.ConnectionTune)
    client.send(methods.ConnectionTuneOk(2047, 131072, 0))
    client.send(methods.ConnectionOpen("/"))
    return client.expect_close()


def test_a_connection_opens_no_more_channels_than_agreed(world: World) -> None:
    client = world.connect(channel_max=2)
    client.channel(1)
    client.channel(7)
    client.send(methods.ChannelOpen(), 2)
    assert client.expect_close() == (
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
    )


def test_a_closed_channel_makes_room(world: World) -> None:
    client = world.connect(channel_max=1)
    client.channel(1).close()
    client.channel(2)


def test_a_server_without_a_limit_lets_clients_open_channels() -> None:
    world = World(Settings(channel_max=0))
    client = world.connect()
    client.channel(1)


def test_a_user_has_so_many_channels_in_all(world: World) -> None:
    world.add_user("alice", max_channels=2)
    one, two = world.connect("alice"), world.connect("alice")
    one.channel()
    two.channel()
    two.send(methods.ChannelOpen(), 2)
    assert two.expect_close() == (
        530,
        "NOT_ALLOWED - number of channels opened for user 'alice' has reached the maximum allowed user limit of 2",
    )


def test_a_user_has_so_many_connections(world: World) -> None:
    world.add_user("alice", max_connections=1)
    first = world.connect("alice")
    assert refused_open(world, "alice") == (
        530,
        "NOT_ALLOWED - connection refused for user 'alice': user connection limit (1) is reached",
    )
    first.lose()
    world.connect("alice")


def test_a_vhost_has_so_many_connections(world: World) -> None:
    world.vhost.limits["max-connections"] = 1
    first = world.connect()
    assert refused_open(world) == (
        530,
        "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached",
    )
    first.lose()
    world.connect()


def test_a_node_has_so_many_connections() -> None:
    world = World(Settings(connection_max=1))
    world.connect()
    assert refused_open(world) == (530, "NOT_ALLOWED - connection refused: node connection limit (1) is reached")


@pytest.mark.parametrize("limit", [0, -1])
def test_zero_allows_none_and_a_negative_limit_all(world: World, limit: int) -> None:
    world.vhost.limits["max-connections"] = limit
    if limit == 0:
        assert refused_open(world)[0] == 530
    else:
        world.connect()


def test_a_vhost_has_so_many_queues(world: World) -> None:
    world.vhost.limits["max-queues"] = 1
    channel = world.channel()
    channel.declare("q")
    channel.declare("q")
    assert channel.refused(methods.QueueDeclare(queue="r")) == (
        406,
        "PRECONDITION_FAILED - cannot declare queue 'r': queue limit in vhost '/' (1) is reached",
    )
