"""What is made once and shared: the call that ends a turn, the options of plain queues, the greeting."""

from __future__ import annotations

import pytest

from tests.broker.harness import World, publish_frames
from warren.amqp import methods
from warren.amqp.constants import PROTOCOL_HEADER
from warren.amqp.methods import ConnectionStart


def test_the_host_is_told_once_that_a_turn_has_to_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.confirm()
    told: list[bool] = []
    monkeypatch.setattr(world.host, "wake", lambda: told.append(True))
    for _ in range(2):
        for _ in range(3):
            channel.client.connection.feed(publish_frames(1, "m", "q"))
        assert told == [True]
        told.clear()
        world.node.flush()
    channel.client.receive()
    assert channel.confirms() == [("ack", 3, True), ("ack", 6, True)]


def test_confirms_and_deliveries_leave_in_the_turn_that_brings_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, channel = world.channel(), world.channel()
    consumer.declare("q")
    consumer.send(methods.BasicConsume(queue="q", no_ack=True))
    channel.confirm()
    told: list[bool] = []
    monkeypatch.setattr(world.host, "wake", lambda: told.append(True))
    channel.client.connection.feed(publish_frames(1, "m", "q"))
    assert told == [True]
    world.node.flush()
    # Written and not asked for again: a turn in which nothing is left to do costs as much as one with a message.
    assert told == [True]
    assert channel.confirms() == [("ack", 1, False)]
    assert [received.body for received in consumer.take() if received.body] == [b"m"]


def test_queues_that_ask_for_nothing_share_their_options_until_a_policy_comes(world: World) -> None:
    channel = world.channel()
    for name in ("a", "b"):
        channel.declare(name)
    channel.declare("limited", x_max_length=1)
    a, b, limited = (world.queue(name) for name in ("a", "b", "limited"))
    assert a.options is b.options
    assert limited.options.max_length == 1
    world.set_policy("a", {"max-length": 5})
    assert (int(a.options.max_length), int(b.options.max_length)) == (5, -1)
    world.clear_policy()
    assert a.options is b.options


def test_a_new_name_of_the_cluster_is_in_the_next_greeting(world: World) -> None:
    names: list[object] = []
    for name in ("one", "one", "two"):
        world.node.settings.cluster_name = name
        client = world.dial()
        client.feed(PROTOCOL_HEADER)
        names.append(client.expect(ConnectionStart).server_properties["cluster_name"].value)
    assert names == ["one", "one", "two"]
