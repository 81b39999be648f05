"""Alarms: who publishes is stopped at the next publish, who only consumes never notices."""

from __future__ import annotations

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from warren.amqp import methods


def clear(world: World, name: str = "memory") -> None:
    world.node.set_alarm(name, False)
    world.flush()


def test_a_publisher_is_blocked_by_its_next_publish_which_waits(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.node.set_alarm("memory", True)
    assert channel.client.take() == []
    assert channel.client.wire.is_reading()
    assert channel.client.connection.state == "blocking"
    channel.publish("m", "q")
    assert channel.client.expect(methods.ConnectionBlocked).reason == "low on memory"
    assert not channel.client.wire.is_reading()
    assert channel.client.connection.state == "blocked"
    assert world.queue("q").backing.length == 0
    clear(world)
    assert world.queue("q").backing.length == 1


def test_a_publish_in_pieces_blocks_too(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.node.set_alarm("disk", True)
    data = publish_frames(1, "pieces", "q")
    for byte in data:
        channel.client.feed(bytes([byte]))
    assert channel.client.expect(methods.ConnectionBlocked).reason == "low on disk"
    assert channel.client.take() == []
    clear(world, "disk")
    assert channel.bodies_in("q") == [b"pieces"]


def test_the_rest_of_a_publish_that_met_the_alarm_half_way_waits_as_well(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    data = publish_frames(1, "pieces", "q")
    channel.client.feed(data[:-3])
    world.node.set_alarm("disk", True)
    channel.client.feed(data[-3:])
    assert not channel.client.wire.is_reading()
    assert channel.client.connection.state == "blocked"
    assert world.queue("q").backing.length == 0
    world.node.set_alarm("disk", False)
    assert channel.client.wire.is_reading()
    assert world.queue("q").backing.length == 1


def test_both_alarms_are_told_as_one(world: World) -> None:
    channel = world.channel()
    world.node.set_alarm("memory", True)
    world.node.set_alarm("disk", True)
    channel.publish("m", "q")
    assert channel.client.expect(methods.ConnectionBlocked).reason == "low on memory & disk"


def test_nothing_behind_the_publish_is_handled_until_the_alarm_is_over(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.node.set_alarm("memory", True)
    more = publish_frames(1, "second", "q") + frame(methods.QueueDeclare(queue="q", passive=True), 1)
    channel.client.feed(publish_frames(1, "first", "q") + more)
    channel.client.feed(publish_frames(1, "third", "q"))
    assert world.queue("q").backing.length == 0
    assert channel.take() == []
    clear(world)
    channel.client.receive()
    assert [received.method.name for received in channel.client.take()] == [
        "connection.blocked",
        "connection.unblocked",
    ]
    assert channel.client.wire.is_reading()
    assert channel.expect(methods.QueueDeclareOk).message_count == 2
    assert channel.bodies_in("q") == [b"first", b"second", b"third"]


def test_all_alarms_must_be_over(world: World) -> None:
    channel = world.channel()
    world.node.set_alarm("memory", True)
    world.node.set_alarm("disk", True)
    channel.publish("m", "q")
    channel.client.expect(methods.ConnectionBlocked)
    clear(world, "memory")
    assert not channel.client.wire.is_reading()
    assert channel.client.take() == []
    clear(world, "disk")
    channel.client.expect(methods.ConnectionUnblocked)
    assert channel.client.connection.state in ("running", "flow")


def test_clients_that_did_not_ask_are_stopped_without_a_word(world: World) -> None:
    channel = world.connect(capabilities={}).channel()
    world.node.set_alarm("memory", True)
    channel.publish("m", "q")
    assert not channel.client.wire.is_reading()
    clear(world)
    assert channel.client.wire.is_reading()
    assert channel.client.take() == []


def test_a_connection_that_only_consumes_is_never_blocked(world: World) -> None:
    publisher, consumer = world.channel(), world.channel()
    consumer.declare("q")
    consumer.qos(1)
    consumer.consume("q")
    publisher.publish("a", "q")
    publisher.publish("b", "q")
    world.node.set_alarm("memory", True)
    assert consumer.delivered() == [b"a"]
    consumer.ack(1)
    assert consumer.delivered() == [b"b"]
    assert consumer.client.wire.is_reading()
    assert consumer.client.take() == []


def test_a_connection_may_be_opened_during_an_alarm(world: World) -> None:
    world.node.set_alarm("memory", True)
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q")
    channel.client.expect(methods.ConnectionBlocked)


def test_a_blocked_connection_still_gets_deliveries(world: World) -> None:
    channel, other = world.channel(), world.channel()
    channel.declare("q")
    other.publish("for you", "q")
    assert other.get("q") is not None
    channel.consume("q")
    world.node.set_alarm("memory", True)
    channel.publish("m", "nowhere")
    other.nack(1)
    assert channel.delivered() == [b"for you"]


def test_a_blocked_connection_can_be_closed_by_the_operator(world: World) -> None:
    channel = world.channel()
    world.node.set_alarm("memory", True)
    channel.publish("m", "q")
    channel.client.take()
    channel.client.connection.close_by_admin("go")
    world.flush()
    assert channel.client.expect_close()[0] == 320
    assert channel.client.wire.is_reading()
    channel.client.send(methods.ConnectionCloseOk())
    assert channel.client.wire.is_closed()


def test_a_blocked_connection_that_breaks_is_forgotten(world: World) -> None:
    channel: ChannelClient = world.channel()
    world.node.set_alarm("memory", True)
    channel.publish("m", "q")
    channel.client.lose()
    clear(world)
    assert world.node.connections == {}
