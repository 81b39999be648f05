"""Who gets the next message: order, priorities, prefetch, exclusiveness, and the ends of consumers."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from warren.amqp import methods
from warren.amqp.fields import table_of


def takers(channel: ChannelClient) -> list[str]:
    return [seen.consumer for seen in channel.deliveries()]


def test_consume_is_answered_before_the_first_delivery(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("m", "q")
    channel.send(methods.BasicConsume(queue="q"))
    assert channel.names() == ["basic.consume-ok", "basic.deliver"]


def test_consume_with_no_wait_is_not_answered(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("m", "q")
    channel.send(methods.BasicConsume(queue="q", no_wait=True))
    assert channel.names() == ["basic.deliver"]


def test_a_tag_is_made_up_where_none_is_given(channel: ChannelClient) -> None:
    channel.declare("q")
    assert channel.consume("q").startswith("amq.ctag-")
    assert channel.consume("q", "mine") == "mine"


def test_reusing_a_tag_closes_the_connection(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.consume("q", "c")
    channel.send(methods.BasicConsume(queue="q", consumer_tag="c"))
    assert channel.client.expect_close() == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'c'")


def test_a_tag_is_free_again_after_cancel_and_on_other_channels(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    one.declare("q")
    one.consume("q", "c")
    two.consume("q", "c")
    one.cancel("c")
    one.consume("q", "c")


def test_a_waiting_consumer_gets_a_publish_straight(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.consume("q")
    channel.publish("m", "q")
    assert channel.delivered() == [b"m"]
    queue = world.queue("q")
    assert (queue.backing.length, queue.unacked) == (0, 1)


def test_a_no_ack_consumer_leaves_nothing_unacked(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("before", "q")
    channel.consume("q", no_ack=True)
    channel.publish("after", "q")
    assert channel.delivered() == [b"before", b"after"]
    assert world.queue("q").unacked == 0


def test_consumers_take_turns(channel: ChannelClient) -> None:
    channel.declare("q")
    for tag in ("a", "b", "c"):
        channel.consume("q", tag)
    for _ in range(6):
        channel.publish("m", "q")
    assert takers(channel) == ["a", "b", "c", "a", "b", "c"]


def test_consumers_take_turns_over_a_backlog(world: World) -> None:
    one, two = world.channel(), world.channel()
    one.declare("q")
    for number in range(4):
        one.publish(str(number), "q")
    one.qos(1)
    two.qos(1)
    one.consume("q", "a")
    two.consume("q", "b")
    assert one.delivered() == [b"0"]
    assert two.delivered() == [b"1"]
    two.ack(1)
    assert two.delivered() == [b"2"]
    one.ack(1)
    assert one.delivered() == [b"3"]


def test_a_consumer_that_leaves_does_not_cost_another_its_turn(channel: ChannelClient) -> None:
    channel.declare("q")
    for tag in ("a", "b", "c"):
        channel.consume("q", tag)
    for _ in range(2):
        channel.publish("m", "q")
    channel.take()
    channel.cancel("a")
    channel.publish("m", "q")
    assert takers(channel) == ["c"]


def test_who_comes_later_is_served_after_everybody(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.consume("q", "a")
    channel.publish("m", "q")
    assert takers(channel) == ["a"]
    channel.consume("q", "b")
    channel.publish("m", "q")
    assert takers(channel) == ["a"]
    channel.consume("q", "c")
    for _ in range(4):
        channel.publish("m", "q")
    assert takers(channel) == ["b", "a", "c", "b"]


def test_those_who_wait_to_be_active_are_served_as_they_came(channel: ChannelClient) -> None:
    channel.declare("q", x_single_active_consumer=True)
    channel.consume("q", "a")
    channel.consume("q", "b")
    channel.publish("m", "q")
    assert takers(channel) == ["a"]
    channel.consume("q", "c")
    channel.cancel("a")
    channel.publish("m", "q")
    assert takers(channel) == ["b"]


def test_a_higher_priority_is_served_first_and_alone_while_it_can_take(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.qos(2)
    channel.consume("q", "low", x_priority=-1)
    channel.consume("q", "middle")
    channel.consume("q", "high", x_priority=10)
    channel.consume("q", "high too", x_priority=10)
    for _ in range(9):
        channel.publish("m", "q")
    assert takers(channel) == ["high", "high too", "high", "high too", "middle", "middle", "low", "low"]
    channel.ack(1)
    assert takers(channel) == ["high"]


@pytest.mark.parametrize("priority", ["high", True, None])
def test_a_priority_that_is_no_integer_is_refused(channel: ChannelClient, priority: object) -> None:
    channel.declare("q")
    method = methods.BasicConsume(queue="q", arguments=table_of({"x-priority": priority}))
    assert channel.refused(method)[0] == 406


def test_prefetch_counts_for_each_consumer_that_starts_after_it(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.consume("q", "unlimited")
    channel.qos(1)
    channel.consume("q", "one")
    channel.qos(2)
    channel.consume("q", "two")
    for _ in range(8):
        channel.publish("m", "q")
    seen = takers(channel)
    assert (seen.count("one"), seen.count("two"), seen.count("unlimited")) == (1, 2, 5)


def test_an_ack_frees_a_place_at_once(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.qos(2)
    channel.consume("q")
    for number in range(5):
        channel.publish(str(number), "q")
    assert channel.delivered() == [b"0", b"1"]
    channel.ack(2)
    assert channel.delivered() == [b"2"]
    channel.ack(3, multiple=True)
    assert channel.delivered() == [b"3", b"4"]


def test_no_ack_consumers_and_get_know_no_prefetch(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.qos(1)
    for number in range(3):
        channel.publish(str(number), "q")
    assert [channel.get("q"), channel.get("q")] != [None, None]
    channel.consume("q", no_ack=True)
    for _ in range(3):
        channel.publish("m", "q")
    assert len(channel.delivered()) == 4


def test_a_prefetch_for_the_whole_channel_is_shared(channel: ChannelClient) -> None:
    for name in ("a", "b"):
        channel.declare(name)
        channel.consume(name, name)
    channel.qos(2, whole_channel=True)
    for name in ("a", "a", "a", "b", "b"):
        channel.publish(name, name)
    assert takers(channel) == ["a", "a"]
    channel.ack(1)
    assert takers(channel) == ["a"]
    channel.ack(3, multiple=True)
    assert takers(channel) == ["b", "b"]


def test_a_place_freed_under_a_shared_prefetch_serves_the_other_queue(channel: ChannelClient) -> None:
    for name in ("a", "b"):
        channel.declare(name)
        channel.consume(name, name)
    channel.qos(1, whole_channel=True)
    channel.publish("m", "a")
    channel.publish("m", "b")
    assert takers(channel) == ["a"]
    channel.ack(1)
    assert takers(channel) == ["b"]
    channel.reject(2)
    channel.publish("m", "b")
    assert takers(channel) == ["b"]


def test_both_prefetches_hold_together(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.qos(1)
    channel.consume("q", "c")
    channel.qos(5, whole_channel=True)
    channel.publish("m", "q")
    channel.publish("m", "q")
    assert len(takers(channel)) == 1


def test_raising_the_channels_prefetch_delivers_more(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.qos(1, whole_channel=True)
    channel.consume("q")
    for _ in range(3):
        channel.publish("m", "q")
    assert len(channel.deliveries()) == 1
    channel.send(methods.BasicQos(0, 0, True))
    assert channel.names() == ["basic.qos-ok", "basic.deliver", "basic.deliver"]


def test_get_counts_not_against_the_channels_prefetch(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.qos(1, whole_channel=True)
    for number in range(3):
        channel.publish(str(number), "q")
    assert channel.get("q") is not None
    channel.consume("q")
    assert channel.delivered() == [b"1"]


def test_nothing_is_delivered_after_cancel_ok(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.qos(1)
    channel.consume("q", "c")
    for number in range(3):
        channel.publish(str(number), "q")
    channel.take()
    channel.client.feed(
        frame(methods.BasicCancel("c"), 1) + frame(methods.BasicAck(1), 1) + publish_frames(1, "late", "q")
    )
    assert channel.names() == ["basic.cancel-ok"]
    assert world.queue("q").backing.length == 3


def test_what_a_cancelled_consumer_holds_stays_unacked(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.consume("q", "c")
    channel.publish("m", "q")
    channel.take()
    channel.cancel("c")
    assert world.queue("q").unacked == 1
    channel.ack(1)
    assert world.queue("q").unacked == 0


def test_who_deletes_what_it_consumes_from_hears_delete_ok_first(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.consume("q", "c")
    channel.send(methods.QueueDelete(queue="q"))
    assert channel.names() == ["queue.delete-ok", "basic.cancel"]


def test_cancelling_an_unknown_tag_is_no_error(channel: ChannelClient) -> None:
    channel.cancel("nobody")


def test_cancel_with_no_wait_is_not_answered(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.consume("q", "c")
    channel.send(methods.BasicCancel("c", no_wait=True))
    assert channel.take() == []


def test_an_exclusive_consumer_is_alone(world: World) -> None:
    client = world.connect()
    one, two, three = client.channel(1), client.channel(2), client.channel(3)
    one.declare("q")
    one.consume("q", "c", exclusive=True)
    text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    assert two.refused(methods.BasicConsume(queue="q")) == (403, text)
    assert three.refused(methods.BasicConsume(queue="q", exclusive=True)) == (403, text)
    one.cancel("c")
    client.channel(4).consume("q")


def test_exclusive_consumption_needs_a_queue_without_consumers(world: World) -> None:
    one, two = world.channel(), world.channel()
    one.declare("q")
    one.consume("q")
    assert two.refused(methods.BasicConsume(queue="q", exclusive=True))[0] == 403


def test_get_works_beside_an_exclusive_consumer(world: World) -> None:
    one, two = world.channel(), world.channel()
    one.declare("q")
    one.qos(1)
    one.consume("q", exclusive=True)
    one.publish("a", "q")
    one.publish("b", "q")
    assert two.got("q").body == b"b"


def test_consuming_needs_the_queue_and_the_right_to_read(world: World) -> None:
    channel = world.channel()
    assert channel.refused(methods.BasicConsume(queue="missing"))[0] == 404
    world.add_user("bob", read="^$")
    bob = world.connect("bob").channel()
    bob.declare("q")
    assert bob.refused(methods.BasicConsume(queue="q")) == (
        403,
        "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'bob'",
    )


# -- single active consumer --------------------------------------------------------------------------------------------


def test_of_many_consumers_only_the_active_one_gets_messages(channel: ChannelClient) -> None:
    channel.declare("q", x_single_active_consumer=True)
    channel.consume("q", "first")
    channel.consume("q", "second", x_priority=5)
    for _ in range(3):
        channel.publish("m", "q")
    assert takers(channel) == ["first"] * 3


def test_the_next_takes_over_when_the_active_one_goes(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_single_active_consumer=True)
    other = world.channel()
    other.consume("q", "first")
    channel.consume("q", "second")
    channel.consume("q", "third", x_priority=5)
    other.publish("m", "q")
    assert takers(other) == ["first"]
    other.client.lose()
    (seen,) = channel.deliveries()
    assert (seen.consumer, seen.redelivered) == ("third", True)


def test_the_active_one_is_not_passed_over_when_its_prefetch_is_full(channel: ChannelClient) -> None:
    channel.declare("q", x_single_active_consumer=True)
    channel.qos(1)
    channel.consume("q", "first")
    channel.consume("q", "second")
    for _ in range(3):
        channel.publish("m", "q")
    assert takers(channel) == ["first"]
    channel.ack(1)
    assert takers(channel) == ["first"]


def test_a_waiting_one_may_leave_unnoticed(channel: ChannelClient) -> None:
    channel.declare("q", x_single_active_consumer=True)
    channel.consume("q", "first")
    channel.consume("q", "second")
    channel.cancel("second")
    channel.publish("m", "q")
    assert takers(channel) == ["first"]


def test_exclusive_and_single_active_exclude_each_other(channel: ChannelClient) -> None:
    channel.declare("q", x_single_active_consumer=True)
    assert channel.refused(methods.BasicConsume(queue="q", exclusive=True))[0] == 403


# -- ends --------------------------------------------------------------------------------------------------------------


def test_consumers_are_told_when_their_queue_is_deleted(world: World) -> None:
    one, two = world.channel(), world.channel()
    one.declare("q")
    one.consume("q", "c")
    two.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    assert one.expect(methods.BasicCancel) == methods.BasicCancel("c", True)
    one.declare("q")
    one.consume("q", "c")


def test_clients_that_did_not_ask_are_not_told(world: World) -> None:
    one, two = world.connect(capabilities={}).channel(), world.channel()
    one.declare("q")
    one.consume("q", "c")
    two.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    assert one.take() == []


def test_an_ack_for_a_message_of_a_deleted_queue_is_accepted(world: World) -> None:
    one, two = world.channel(), world.channel()
    one.declare("q")
    one.publish("m", "q")
    assert one.get("q") is not None
    two.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    one.ack(1)
    assert one.take() == []


def test_an_auto_delete_queue_goes_with_its_last_consumer(world: World) -> None:
    one, two = world.channel(), world.channel()
    one.declare("q", auto_delete=True)
    one.consume("q", "a")
    two.consume("q", "b")
    one.cancel("a")
    assert "q" in world.vhost.queues
    two.client.lose()
    assert "q" not in world.vhost.queues


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(world: World) -> None:
    channel = world.channel()
    channel.declare("q", auto_delete=True)
    channel.get("q")
    channel.close()
    assert "q" in world.vhost.queues


# -- slow sockets ------------------------------------------------------------------------------------------------------


def test_a_consumer_whose_socket_is_full_takes_nothing(world: World) -> None:
    slow, publisher = world.channel(), world.channel()
    slow.declare("q")
    slow.consume("q", no_ack=True)
    slow.client.connection.pause_writing()
    for _ in range(3):
        publisher.publish("m", "q")
    assert slow.take() == []
    assert world.queue("q").backing.length == 3
    slow.client.connection.resume_writing()
    world.flush()
    assert len(slow.deliveries()) == 3


def test_a_full_socket_does_not_hold_up_other_consumers(world: World) -> None:
    slow, quick = world.channel(), world.channel()
    slow.declare("q")
    slow.consume("q", "slow")
    quick.consume("q", "quick")
    slow.client.connection.pause_writing()
    for _ in range(4):
        quick.publish("m", "q")
    assert takers(quick) == ["quick"] * 4


def test_a_backlog_leaves_in_portions_that_memory_can_bear(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    body = bytes(100_000)
    for _ in range(40):
        channel.publish(body, "q")
    consumer = world.channel()
    writes = consumer.client.wire.writes
    consumer.send(methods.BasicConsume(queue="q", no_ack=True))
    assert consumer.client.wire.writes - writes >= 4
    assert consumer.names() == ["basic.consume-ok"] + ["basic.deliver"] * 40


@pytest.mark.parametrize("number", [1, 2], ids=["on the publisher's channel", "on another"])
def test_large_and_small_messages_keep_their_order(world: World, number: int) -> None:
    publisher, consumer = world.connect().channel(1), world.connect().channel(number)
    publisher.declare("q")
    bodies = [b"a", b"B" * 400_000, b"c", b"D" * 131_072, b"E" * 700_000, b"f"]
    for body in bodies:
        publisher.publish(body, "q")
    consumer.consume("q")
    assert consumer.delivered() == bodies
    consumer.nack(len(bodies), multiple=True)
    assert consumer.delivered() == bodies
    assert consumer.client.connection.sent_bytes > 2 * sum(map(len, bodies))


def test_priorities_are_in_order_whichever_order_they_come_in(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.qos(1)
    for priority in (10, 5, 7, 12, 6):
        channel.consume("q", str(priority), x_priority=priority)
    for _ in range(5):
        channel.publish("m", "q")
    assert takers(channel) == ["12", "10", "7", "6", "5"]
