"""Heartbeats: sent when nothing else was, missed when nothing at all came."""

from __future__ import annotations

from tests.broker.harness import World
from warren.amqp import methods
from warren.amqp.constants import HEARTBEAT_FRAME


def test_an_idle_connection_is_sent_one_every_half_timeout(world: World) -> None:
    client = world.connect(heartbeat=10)
    world.advance(4_999)
    client.receive()
    assert client.heartbeats == 0
    world.advance(1)
    client.receive()
    assert client.heartbeats == 1
    for _ in range(20):
        world.advance(1_000)
    client.receive()
    assert client.heartbeats == 5


def test_there_is_never_a_whole_timeout_of_silence(world: World) -> None:
    client = world.connect(heartbeat=10)
    for _ in range(20):
        before = len(client.wire.written)
        for _ in range(10):
            world.advance(1_000)
            client.feed(HEARTBEAT_FRAME)
        assert len(client.wire.written) > before


def test_a_connection_that_is_sent_other_things_needs_no_heartbeats(world: World) -> None:
    client = world.connect(heartbeat=10)
    channel = client.channel()
    world.advance(5_000)
    client.receive()
    sent = client.heartbeats
    for _ in range(20):
        world.advance(2_500)
        channel.call(methods.BasicQos(0, 1), methods.BasicQosOk)
    assert client.heartbeats == sent


def test_without_a_heartbeat_nothing_is_sent_and_nothing_expected(world: World) -> None:
    client = world.connect(heartbeat=0)
    world.advance(10_000_000)
    assert client.heartbeats == 0
    assert not client.wire.is_closed()
    assert world.node.next_deadline() == -1


def test_a_silent_client_is_dropped_after_two_to_three_timeouts_without_a_word(world: World) -> None:
    client = world.connect(heartbeat=10)
    elapsed = 0
    while not client.wire.is_closed():
        world.advance(500)
        elapsed += 500
        assert elapsed <= 30_000
    assert elapsed >= 20_000
    assert client.take() == []
    assert "missed heartbeats from client, timeout: 10s" in world.host.logged()


def test_any_byte_counts_as_a_sign_of_life(world: World) -> None:
    client = world.connect(heartbeat=10)
    for byte in HEARTBEAT_FRAME * 3:
        world.advance(15_000)
        client.feed(bytes([byte]))
    assert not client.wire.is_closed()


def test_a_blocked_client_cannot_be_heard_and_is_not_dropped(world: World) -> None:
    client = world.connect(heartbeat=10)
    channel = client.channel()
    world.node.set_alarm("memory", True)
    channel.publish("m", "q")
    for _ in range(40):
        world.advance(5_000)
    assert not client.wire.is_closed()
    client.receive()
    assert client.heartbeats > 5
    world.node.set_alarm("memory", False)
    for _ in range(7):
        world.advance(5_000)
    assert client.wire.is_closed()


def test_a_dropped_client_gives_back_what_it_held(world: World) -> None:
    client = world.connect(heartbeat=10)
    channel = client.channel()
    channel.declare("q")
    channel.publish("m", "q")
    assert channel.get("q") is not None
    for _ in range(7):
        world.advance(5_000)
    assert client.wire.is_closed()
    client.lose()
    assert world.queue("q").backing.length == 1
