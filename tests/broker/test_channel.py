"""Channels: opened once, closed by either side, and what a closed one still hears."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from warren.amqp import methods


def test_each_channel_is_answered_on_its_own_number(world: World) -> None:
    client = world.connect()
    one, nine = client.channel(1), client.channel(9)
    client.feed(frame(methods.QueueDeclare(queue="a"), 9) + frame(methods.QueueDeclare(queue="b"), 1))
    assert one.expect(methods.QueueDeclareOk).queue == "b"
    assert nine.expect(methods.QueueDeclareOk).queue == "a"


def test_a_channel_error_spares_the_connection_and_its_other_channels(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    two.declare("q")
    assert one.refused(methods.QueueDeclare(queue="missing", passive=True)) == (
        404,
        "NOT_FOUND - no queue 'missing' in vhost '/'",
    )
    two.publish("m", "q")
    assert two.got("q").body == b"m"


def test_the_close_names_the_method_that_failed(channel: ChannelClient) -> None:
    channel.send(methods.BasicGet(queue="missing"))
    close = channel.expect(methods.ChannelClose)
    assert (close.class_id, close.method_id) == (60, 70)


def test_after_a_channel_error_all_but_close_is_ignored(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.refused(methods.BasicGet(queue="missing"))
    channel.publish("late", "q")
    channel.send(methods.BasicAck(7))
    channel.send(methods.QueueDeclare(queue="never"))
    assert channel.take() == []
    assert world.queue("q").backing.length == 0
    assert "never" not in world.vhost.queues
    channel.send(methods.ChannelCloseOk())
    channel.client.channel(1)


def test_a_client_that_closes_while_being_closed_is_answered(channel: ChannelClient) -> None:
    channel.refused(methods.BasicGet(queue="missing"))
    channel.close()
    channel.send(methods.ChannelCloseOk())
    channel.client.channel(1)


def test_publishes_that_were_on_the_way_when_the_channel_failed_are_dropped(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    late = publish_frames(1, "one", "q") + publish_frames(1, "two", "q", frame_max=12)
    channel.client.feed(frame(methods.BasicGet(queue="missing"), 1) + late)
    assert channel.names() == ["channel.close"]
    assert channel.client.take() == []
    assert world.queue("q").backing.length == 0


def test_unacked_messages_are_back_before_close_is_answered(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    one.declare("q")
    one.publish("m", "q")
    assert one.get("q") is not None
    one.close()
    seen = two.got("q")
    assert (seen.body, seen.redelivered) == (b"m", True)


def test_auto_delete_queues_are_gone_when_close_is_answered(world: World) -> None:
    channel = world.channel()
    channel.declare("q", auto_delete=True)
    channel.consume("q")
    channel.close()
    assert "q" not in world.vhost.queues


def test_messages_given_back_by_one_channel_never_visit_another_of_the_same_dying_connection(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    one.declare("q", durable=True, x_queue_type="quorum", x_delivery_limit=1)
    one.qos(1)
    two.qos(1)
    one.consume("q")
    one.publish("m", "q")
    assert one.delivered() == [b"m"]
    two.consume("q")
    client.lose()
    seen = world.channel().get("q")
    assert seen is not None
    assert seen.redelivered
    assert seen.received.header("x-delivery-count") == 1


def test_an_empty_name_is_the_last_queue_declared_on_this_channel(world: World) -> None:
    client = world.connect()
    channel = client.channel(1)
    channel.declare("a")
    channel.declare("b")
    channel.declare("a", passive=True)
    channel.publish("m", "a")
    channel.call(methods.QueueBind(exchange="amq.direct"), methods.QueueBindOk)
    channel.publish("bound by its name", "a", "amq.direct")
    assert channel.bodies_in("") == [b"m", b"bound by its name"]
    assert channel.call(methods.QueuePurge(), methods.QueuePurgeOk).message_count == 0
    tag = channel.call(methods.BasicConsume(), methods.BasicConsumeOk).consumer_tag
    channel.cancel(tag)
    channel.call(methods.QueueUnbind(exchange="amq.direct"), methods.QueueUnbindOk)
    channel.call(methods.QueueDelete(), methods.QueueDeleteOk)
    assert sorted(world.vhost.queues) == ["b"]
    assert client.channel(2).refused(methods.BasicGet()) == (404, "NOT_FOUND - no previously declared queue")


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (methods.ChannelFlow(False), "NOT_IMPLEMENTED - active=false"),
        (methods.BasicQos(prefetch_size=5), "NOT_IMPLEMENTED - prefetch_size!=0 (5)"),
        (methods.BasicRecover(False), "NOT_IMPLEMENTED - requeue=false"),
        (methods.BasicRecoverAsync(False), "NOT_IMPLEMENTED - requeue=false"),
    ],
)
def test_what_rabbitmq_does_not_do_closes_the_connection_with_540(
    channel: ChannelClient, method: methods.Method, text: str
) -> None:
    channel.send(method)
    assert channel.client.expect_close() == (540, text)


def test_immediate_closes_the_connection_with_540(channel: ChannelClient) -> None:
    data = frame(methods.BasicPublish(routing_key="q", immediate=True), 1) + publish_frames(1, "m", "q")
    head = len(frame(methods.BasicPublish(routing_key="q"), 1))
    channel.client.feed(data[:head] + data[2 * head :])
    assert channel.client.expect_close() == (540, "NOT_IMPLEMENTED - immediate=true")


def test_flow_on_and_access_request_are_answered(channel: ChannelClient) -> None:
    assert channel.call(methods.ChannelFlow(True), methods.ChannelFlowOk).active
    assert channel.call(methods.AccessRequest(), methods.AccessRequestOk).ticket == 1


def test_a_method_of_the_server_sent_by_a_client_is_503(channel: ChannelClient) -> None:
    channel.send(methods.QueueDeclareOk("q"))
    assert channel.client.expect_close()[0] == 503


def test_delivery_tags_count_every_delivery_of_the_channel(channel: ChannelClient) -> None:
    channel.declare("q")
    for body in ("a", "b", "c", "d"):
        channel.publish(body, "q")
    tags = [seen.tag for seen in (channel.get("q"), channel.get("q", no_ack=True)) if seen is not None]
    channel.consume("q", no_ack=True)
    tags += [seen.tag for seen in channel.deliveries()]
    assert tags == [1, 2, 3, 4]
