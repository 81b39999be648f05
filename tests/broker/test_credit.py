"""Credit flow: a disk that cannot follow slows down those who publish to it, and nobody else."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from warren.amqp import methods
from warren.amqp.properties import Properties
from warren.broker.session.credit import INITIAL

PERSISTENT = Properties(delivery_mode=2)


def flood(channel: ChannelClient, count: int, key: str = "q", exchange: str = "") -> None:
    """So many publishes in one read."""
    channel.client.feed(publish_frames(channel.number, "m", key, exchange, properties=PERSISTENT) * count)


@pytest.fixture
def publisher(world: World) -> ChannelClient:
    """A channel beside a durable queue q, with the disk behind."""
    channel = world.channel()
    channel.declare("q", durable=True)
    world.store.holds = True
    world.store.behind = True
    return channel


def ready(world: World, queue: str = "q") -> int:
    return int(world.queue(queue).backing.length)


def test_a_publisher_out_of_credit_is_not_read_any_more(world: World, publisher: ChannelClient) -> None:
    flood(publisher, INITIAL - 1)
    assert publisher.client.wire.is_reading()
    assert publisher.client.connection.state == "running"
    flood(publisher, 2)
    assert not publisher.client.wire.is_reading()
    assert publisher.client.connection.state == "flow"
    assert ready(world) == INITIAL


def test_what_was_read_beyond_the_credit_is_handled_when_the_disk_has_caught_up(
    world: World, publisher: ChannelClient
) -> None:
    publisher.confirm()
    flood(publisher, INITIAL + 5)
    assert ready(world) == INITIAL
    assert publisher.confirms() == []
    world.sync()
    assert publisher.client.wire.is_reading()
    assert ready(world) == INITIAL + 5
    world.sync()
    assert sorted(number for _, number, _ in publisher.confirms())[-1] == INITIAL + 5


def test_the_state_flow_stays_visible_for_a_second(world: World, publisher: ChannelClient) -> None:
    flood(publisher, INITIAL)
    world.sync()
    assert publisher.client.connection.state == "flow"
    world.advance(999)
    assert publisher.client.connection.state == "flow"
    world.advance(1)
    assert publisher.client.connection.state == "running"


def test_no_method_is_sent_for_flow(world: World, publisher: ChannelClient) -> None:
    flood(publisher, INITIAL)
    world.sync()
    assert publisher.take() == []
    assert publisher.client.take() == []


def test_a_disk_that_follows_never_stops_anybody(world: World, publisher: ChannelClient) -> None:
    world.store.behind = False
    flood(publisher, INITIAL * 2)
    assert publisher.client.wire.is_reading()


@pytest.mark.parametrize("what", ["transient message", "transient queue"])
def test_what_needs_no_disk_costs_no_credit(world: World, publisher: ChannelClient, what: str) -> None:
    publisher.declare("t")
    key = "t" if what == "transient queue" else "q"
    properties = PERSISTENT if what == "transient queue" else None
    publisher.client.feed(publish_frames(1, "m", key, properties=properties) * (INITIAL * 2))
    assert publisher.client.wire.is_reading()


def test_other_publishers_and_consumers_go_on(world: World, publisher: ChannelClient) -> None:
    other = world.channel()
    other.consume("q", no_ack=True)
    flood(publisher, INITIAL)
    assert len(other.deliveries()) == INITIAL
    assert other.client.wire.is_reading()
    other.persist("m", "q")
    assert len(other.deliveries()) == 1


def test_a_consumer_on_the_paused_connection_is_still_delivered_to(world: World, publisher: ChannelClient) -> None:
    listener = publisher.client.channel(2)
    publisher.declare("t")
    listener.consume("t", no_ack=True)
    flood(publisher, INITIAL)
    world.channel().publish("m", "t")
    assert listener.delivered() == [b"m"]


def test_credit_is_per_channel_and_queue_but_the_whole_socket_waits(world: World, publisher: ChannelClient) -> None:
    publisher.declare("r", durable=True)
    flood(publisher, INITIAL - 1)
    flood(publisher, INITIAL - 1, "r")
    assert publisher.client.wire.is_reading()
    flood(publisher, 1, "r")
    assert not publisher.client.wire.is_reading()


def test_a_message_to_many_queues_costs_credit_with_each(world: World, publisher: ChannelClient) -> None:
    publisher.declare("r", durable=True)
    for name in ("q", "r"):
        publisher.bind(name, "amq.fanout")
    flood(publisher, INITIAL, "", "amq.fanout")
    assert not publisher.client.wire.is_reading()
    other = world.channel()
    other.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    assert not publisher.client.wire.is_reading()
    other.call(methods.QueueDelete(queue="r"), methods.QueueDeleteOk)
    assert publisher.client.wire.is_reading()


def test_a_queue_that_dies_owes_nothing(world: World, publisher: ChannelClient) -> None:
    flood(publisher, INITIAL)
    world.channel().call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    assert publisher.client.wire.is_reading()


def test_a_queue_that_fails_owes_nothing(world: World, publisher: ChannelClient) -> None:
    flood(publisher, INITIAL)
    world.store.failing.add(("q", "publish"))
    world.channel().publish("m", "q")
    assert publisher.client.wire.is_reading()


def test_a_channel_closed_by_the_broker_does_not_leave_its_socket_unread(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True, x_consumer_timeout=1000)
    channel.publish("held", "q")
    channel.consume("q")
    world.store.holds = world.store.behind = True
    flood(channel, INITIAL)
    assert not channel.client.wire.is_reading()
    world.advance(1000)
    assert "channel.close" in channel.names()
    world.sync()
    assert channel.client.wire.is_reading()
    channel.send(methods.ChannelCloseOk())
    channel.client.channel(1)


def test_a_connection_lost_while_it_waits_is_forgotten(world: World, publisher: ChannelClient) -> None:
    flood(publisher, INITIAL + 10)
    publisher.client.lose()
    world.sync()
    assert world.node.in_debt == {}
    assert ready(world) == INITIAL


def test_acks_behind_a_flood_wait_with_it(world: World, publisher: ChannelClient) -> None:
    """The socket is one stream: what was sent after the flood is handled after it."""
    publisher.publish("held", "q")
    assert publisher.get("q") is not None
    publisher.client.feed(publish_frames(1, "m", "q", properties=PERSISTENT) * INITIAL + frame(methods.BasicAck(1), 1))
    assert world.queue("q").unacked == 1
    world.sync()
    assert world.queue("q").unacked == 0
