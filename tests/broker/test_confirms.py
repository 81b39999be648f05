"""Publisher confirms: every number answered once, in as few frames as possible, never before its time."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from warren.amqp import methods
from warren.amqp.properties import Properties


@pytest.fixture
def publisher(world: World) -> ChannelClient:
    """A channel in confirm mode beside a durable queue q, on a disk that the test moves."""
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.confirm()
    world.store.holds = True
    return channel


def burst(channel: ChannelClient, *bodies: str, key: str = "q", persistent: bool = True) -> None:
    """Several publishes in one read."""
    properties = Properties(delivery_mode=2 if persistent else 1)
    channel.client.feed(b"".join(publish_frames(1, body, key, properties=properties) for body in bodies))


def test_a_transient_message_is_confirmed_at_once(publisher: ChannelClient) -> None:
    publisher.publish("m", "q")
    assert publisher.confirms() == [("ack", 1, False)]


def test_numbers_count_from_the_first_publish_after_select(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("before", "q")
    channel.confirm()
    channel.publish("a", "q")
    channel.publish("b", "q")
    assert channel.confirms() == [("ack", 1, False), ("ack", 2, False)]


def test_each_channel_counts_for_itself(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    one.confirm()
    two.confirm()
    one.publish("m", "nowhere")
    two.publish("m", "nowhere")
    assert (one.confirms(), two.confirms()) == ([("ack", 1, False)], [("ack", 1, False)])


def test_select_again_changes_nothing(channel: ChannelClient) -> None:
    channel.confirm()
    channel.publish("m", "nowhere")
    channel.take()
    channel.confirm()
    channel.publish("m", "nowhere")
    assert channel.confirms() == [("ack", 2, False)]


def test_select_with_no_wait_is_not_answered(channel: ChannelClient) -> None:
    channel.send(methods.ConfirmSelect(no_wait=True))
    assert channel.take() == []
    channel.publish("m", "nowhere")
    assert channel.confirms() == [("ack", 1, False)]


def test_confirm_and_tx_exclude_each_other(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    one.begin()
    assert one.refused(methods.ConfirmSelect())[1] == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    two.confirm()
    assert two.refused(methods.TxSelect())[1] == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"


def test_a_persistent_message_in_a_durable_queue_waits_for_the_disk(world: World, publisher: ChannelClient) -> None:
    publisher.persist("m", "q")
    assert publisher.confirms() == []
    world.sync()
    assert publisher.confirms() == [("ack", 1, False)]


def test_a_persistent_message_in_a_transient_queue_does_not_wait(world: World, publisher: ChannelClient) -> None:
    publisher.declare("t")
    publisher.persist("for the disk", "q")
    publisher.persist("m", "t")
    assert publisher.confirms() == [("ack", 2, False)]


def test_one_durable_queue_among_many_makes_it_wait(world: World, publisher: ChannelClient) -> None:
    publisher.declare("t")
    for name in ("t", "q"):
        publisher.bind(name, "amq.fanout")
    publisher.persist("m", "", "amq.fanout")
    assert publisher.confirms() == []
    world.sync()
    assert publisher.confirms() == [("ack", 1, False)]


def test_a_turn_is_answered_in_one_frame(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.confirm()
    burst(channel, "a", "b", "c", persistent=False)
    assert channel.confirms() == [("ack", 3, True)]


def test_multiple_never_covers_a_number_that_is_open(world: World, publisher: ChannelClient) -> None:
    data = [publish_frames(1, "t", "q") for _ in range(5)]
    data.insert(2, publish_frames(1, "p", "q", properties=Properties(delivery_mode=2)))
    publisher.client.feed(b"".join(data))
    assert publisher.confirms() == [("ack", 2, True), ("ack", 4, False), ("ack", 5, False), ("ack", 6, False)]
    world.sync()
    assert publisher.confirms() == [("ack", 3, False)]


def test_a_sync_covers_what_was_written_before_it_and_no_more(world: World, publisher: ChannelClient) -> None:
    for body in ("a", "b", "c"):
        publisher.persist(body, "q")
    world.sync(2)
    assert publisher.confirms() == [("ack", 2, True)]
    world.sync()
    assert publisher.confirms() == [("ack", 3, False)]


def test_nacks_and_acks_of_one_turn_do_not_cover_each_other(channel: ChannelClient) -> None:
    channel.declare("small", x_max_length=1, x_overflow="reject-publish")
    channel.declare("q")
    channel.confirm()
    keys = ["q", "small", "small", "q", "small"]
    channel.client.feed(b"".join(publish_frames(1, "m", key) for key in keys))
    assert channel.confirms() == [
        ("ack", 2, True),
        ("ack", 4, False),
        ("nack", 3, False),
        ("nack", 5, False),
    ]


def test_an_unroutable_message_is_acked(channel: ChannelClient) -> None:
    channel.confirm()
    channel.publish("m", "nowhere")
    assert channel.confirms() == [("ack", 1, False)]


def test_a_return_comes_before_its_ack(channel: ChannelClient) -> None:
    channel.confirm()
    burst_of_two = publish_frames(1, "a", "nowhere", mandatory=True) + publish_frames(1, "b", "nowhere", mandatory=True)
    channel.client.feed(burst_of_two)
    assert channel.names() == ["basic.return", "basic.return", "basic.ack"]


def test_a_full_queue_that_rejects_nacks(channel: ChannelClient) -> None:
    channel.declare("small", x_max_length=1, x_overflow="reject-publish")
    channel.confirm()
    channel.publish("in", "small")
    channel.publish("out", "small")
    assert channel.confirms() == [("ack", 1, False), ("nack", 2, False)]
    assert channel.bodies_in("small") == [b"in"]


def test_one_queue_that_refuses_makes_it_a_nack_though_others_have_it(channel: ChannelClient) -> None:
    channel.declare("full", x_max_length=0, x_overflow="reject-publish")
    channel.declare("q")
    for name in ("full", "q"):
        channel.bind(name, "amq.fanout")
    channel.confirm()
    channel.publish("m", "", "amq.fanout")
    assert channel.confirms() == [("nack", 1, False)]
    assert channel.bodies_in("q") == [b"m"]


def test_a_dropped_head_is_no_reason_to_nack(channel: ChannelClient) -> None:
    channel.declare("small", x_max_length=1)
    channel.confirm()
    channel.publish("a", "small")
    channel.publish("b", "small")
    assert channel.confirms() == [("ack", 1, False), ("ack", 2, False)]


def test_a_message_that_expires_at_the_door_is_acked(channel: ChannelClient) -> None:
    channel.declare("q", x_message_ttl=0)
    channel.confirm()
    channel.publish("m", "q")
    assert channel.confirms() == [("ack", 1, False)]


def test_a_message_taken_by_a_no_ack_consumer_is_acked(world: World, publisher: ChannelClient) -> None:
    consumer = world.channel()
    consumer.consume("q", no_ack=True)
    publisher.persist("m", "q")
    assert consumer.delivered() == [b"m"]
    assert publisher.confirms() == [("ack", 1, False)]


def test_a_message_in_a_consumers_hands_still_waits_for_the_disk(world: World, publisher: ChannelClient) -> None:
    consumer = world.channel()
    consumer.consume("q")
    publisher.persist("m", "q")
    (delivery,) = consumer.deliveries()
    assert publisher.confirms() == []
    consumer.ack(delivery.tag)
    world.sync()
    assert publisher.confirms() == [("ack", 1, False)]


def test_a_deleted_queue_counts_as_confirmed(world: World, publisher: ChannelClient) -> None:
    publisher.persist("m", "q")
    other = world.channel()
    other.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    world.sync()
    assert publisher.confirms() == [("ack", 1, False)]


def test_a_queue_that_fails_on_a_publish_nacks_it(world: World, publisher: ChannelClient) -> None:
    world.store.failing.add(("q", "publish"))
    publisher.persist("m", "q")
    assert publisher.confirms() == [("nack", 1, False)]


def test_a_queue_that_fails_nacks_all_that_is_open_with_it_and_nothing_else(
    world: World, publisher: ChannelClient
) -> None:
    publisher.declare("other", durable=True)
    publisher.persist("1", "q")
    publisher.persist("2", "other")
    publisher.persist("3", "q")
    world.store.failing.add(("q", "publish"))
    publisher.publish("4", "q")
    assert publisher.confirms() == [("nack", 1, True), ("nack", 3, False), ("nack", 4, False)]
    world.sync()
    assert publisher.confirms() == [("ack", 2, False)]


def test_a_closed_channel_is_sent_no_confirms(world: World, publisher: ChannelClient) -> None:
    publisher.persist("m", "q")
    publisher.close()
    world.sync()
    assert publisher.take() == []


def test_a_channel_that_fails_in_the_same_turn_is_sent_no_confirms(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.confirm()
    channel.client.feed(publish_frames(1, "m", "q") + frame(methods.BasicGet(queue="missing"), 1))
    assert channel.names() == ["channel.close"]


def test_a_lost_connection_does_not_disturb_the_sync(world: World, publisher: ChannelClient) -> None:
    publisher.persist("m", "q")
    other = world.channel()
    other.confirm()
    other.persist("m", "q")
    publisher.client.lose()
    world.sync()
    assert other.confirms() == [("ack", 1, False)]
