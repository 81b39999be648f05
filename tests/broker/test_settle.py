"""What clients say about what they hold: ack, nack, reject, recover; and what basic.get hands out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.harness import ChannelClient, Seen, World
from warren.amqp import methods
from warren.broker.settings import Settings


def hold(channel: ChannelClient, *bodies: str, queue: str = "q") -> list[Seen]:
    """Publish to a new queue and take it all out, unacked."""
    channel.declare(queue)
    for body in bodies:
        channel.publish(body, queue)
    held = [channel.get(queue) for _ in bodies]
    return [seen for seen in held if seen is not None]


def test_get_says_how_many_are_left(channel: ChannelClient) -> None:
    channel.declare("q")
    for _ in range(3):
        channel.publish("m", "q")
    left = []
    for _ in range(3):
        seen = channel.got("q")
        assert isinstance(seen.received.method, methods.BasicGetOk)
        left.append(seen.received.method.message_count)
    assert left == [2, 1, 0]
    assert channel.get("q") is None


def test_get_needs_the_queue_and_the_right_to_read(world: World) -> None:
    assert world.channel().refused(methods.BasicGet(queue="missing"))[0] == 404
    world.add_user("bob", read="^$")
    assert world.connect("bob").channel().refused(methods.BasicGet(queue="missing"))[0] == 403


def test_an_acked_message_is_gone(world: World) -> None:
    channel = world.channel()
    hold(channel, "a")
    channel.ack(1)
    channel.close()
    queue = world.queue("q")
    assert (queue.backing.length, queue.unacked, queue.unacked_bytes) == (0, 0, 0)


def test_multiple_settles_all_up_to_the_tag(world: World) -> None:
    channel = world.channel()
    hold(channel, "a", "b", "c")
    channel.ack(2, multiple=True)
    assert world.queue("q").unacked == 1
    channel.ack(3)
    assert channel.take() == []


def test_multiple_covers_get_and_consume_and_several_queues(world: World) -> None:
    channel = world.channel()
    hold(channel, "a", queue="q")
    channel.declare("r")
    channel.consume("r")
    channel.publish("b", "r")
    assert channel.delivered() == [b"b"]
    channel.ack(2, multiple=True)
    assert (world.queue("q").unacked, world.queue("r").unacked) == (0, 0)


def test_tag_0_with_multiple_means_everything(world: World) -> None:
    channel = world.channel()
    hold(channel, "a", "b")
    channel.ack(0, multiple=True)
    assert world.queue("q").unacked == 0
    channel.ack(0, multiple=True)
    channel.nack(0, multiple=True)
    assert channel.take() == []


@pytest.mark.parametrize(
    "method",
    [
        methods.BasicAck(0),
        methods.BasicAck(9),
        methods.BasicAck(9, True),
        methods.BasicNack(9),
        methods.BasicNack(9, True),
        methods.BasicReject(9),
        methods.BasicAck(2**64 - 1),
        methods.BasicNack(2**63, True),
        methods.BasicReject(2**64 - 1),
    ],
    ids=repr,
)
def test_an_unknown_tag_closes_the_channel_and_gives_back_all(world: World, method: methods.Method) -> None:
    channel = world.channel()
    hold(channel, "a", "b")
    tag = int(method.delivery_tag)  # type: ignore[attr-defined]
    assert channel.refused(method) == (406, f"PRECONDITION_FAILED - unknown delivery tag {tag}")
    assert world.queue("q").backing.length == 2


def test_a_tag_can_be_settled_once(channel: ChannelClient) -> None:
    hold(channel, "a")
    channel.ack(1)
    assert channel.refused(methods.BasicAck(1)) == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_the_tag_of_a_no_ack_delivery_is_unknown(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("m", "q")
    channel.got("q")
    assert channel.refused(methods.BasicAck(1))[0] == 406


def test_a_tag_of_another_channel_is_unknown(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    hold(one, "a")
    assert two.refused(methods.BasicAck(1))[0] == 406
    one.ack(1)
    assert one.take() == []


def test_acks_may_come_in_any_order(world: World) -> None:
    channel = world.channel()
    hold(channel, *[str(number) for number in range(200)])
    # 77 and 200 have no common factor, so this visits every tag once.
    for step in range(200):
        channel.ack(step * 77 % 200 + 1)
    assert channel.take() == []
    assert world.queue("q").unacked == 0


def test_requeued_messages_go_back_to_their_places(channel: ChannelClient) -> None:
    hold(channel, "a", "b", "c", "d")
    channel.publish("e", "q")
    channel.nack(3)
    channel.reject(1, requeue=True)
    channel.ack(2)
    channel.nack(4)
    assert channel.bodies_in("q") == [b"a", b"c", b"d", b"e"]


def test_requeued_messages_are_marked_and_others_are_not(channel: ChannelClient) -> None:
    hold(channel, "a")
    channel.publish("b", "q")
    channel.nack(1)
    assert [(seen.body, seen.redelivered) for seen in (channel.got("q"), channel.got("q"))] == [
        (b"a", True),
        (b"b", False),
    ]


def test_a_requeued_message_may_come_back_to_the_same_consumer(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.consume("q")
    channel.publish("m", "q")
    channel.take()
    channel.nack(1)
    (seen,) = channel.deliveries()
    assert (seen.tag, seen.redelivered) == (2, True)


def test_requeueing_several_at_once_delivers_them_in_order(world: World) -> None:
    channel = world.channel()
    hold(channel, "a", "b", "c")
    consumer = world.channel()
    consumer.consume("q")
    channel.nack(3, multiple=True)
    assert consumer.delivered() == [b"a", b"b", b"c"]


def test_a_rejected_message_is_gone(world: World) -> None:
    channel = world.channel()
    hold(channel, "a", "b")
    channel.reject(1)
    channel.nack(2, requeue=False)
    channel.close()
    queue = world.queue("q")
    assert (queue.backing.length, queue.unacked) == (0, 0)


def test_recover_gives_back_everything_on_the_channel(world: World) -> None:
    channel = world.channel()
    hold(channel, "a", "b")
    channel.call(methods.BasicRecover(True), methods.BasicRecoverOk)
    assert [(seen.body, seen.redelivered) for seen in (channel.got("q"), channel.got("q"))] == [
        (b"a", True),
        (b"b", True),
    ]


def test_recover_is_answered_and_then_redelivers_to_consumers(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.consume("q")
    channel.publish("m", "q")
    channel.take()
    channel.send(methods.BasicRecover(True))
    assert channel.names() == ["basic.recover-ok", "basic.deliver"]


def test_recover_async_is_not_answered(channel: ChannelClient) -> None:
    hold(channel, "a")
    channel.send(methods.BasicRecoverAsync(True))
    assert channel.take() == []
    assert channel.bodies_in("q") == [b"a"]


def test_thousands_may_be_held_and_settled_from_the_middle(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.consume("q")
    for number in range(3000):
        channel.publish(str(number), "q")
    assert [seen.tag for seen in channel.deliveries()] == list(range(1, 3001))
    channel.ack(1500)
    channel.ack(1000, multiple=True)
    channel.nack(2999, requeue=False)
    assert world.queue("q").unacked == 3000 - 1002
    channel.close()
    other = world.channel()
    bodies = other.bodies_in("q")
    assert bodies == [str(n).encode() for n in range(1000, 3000) if n not in (1499, 2998)]


def test_a_delivery_held_too_long_costs_the_channel(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_consumer_timeout=1000)
    channel.consume("q")
    channel.publish("slow", "q")
    channel.publish("quick", "q")
    channel.take()
    channel.ack(2)
    world.advance(999)
    assert channel.take() == []
    world.advance(1)
    code, text = channel.expect_close()
    assert code == 406
    assert text.startswith(
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms."
    )
    assert world.queue("q").backing.length == 1


@pytest.mark.parametrize(("own", "allowed"), [({}, 1000), ({"x_consumer_timeout": 400}, 400)])
def test_the_brokers_timeout_holds_for_queues_without_one(own: dict[str, Any], allowed: int) -> None:
    world = World(Settings(consumer_timeout_ms=1000))
    channel = world.channel()
    channel.declare("q", **own)
    channel.consume("q")
    channel.publish("slow", "q")
    channel.take()
    world.advance(allowed - 1)
    assert channel.take() == []
    world.advance(1)
    assert channel.expect_close()[0] == 406


def test_a_queue_may_do_without_the_brokers_timeout() -> None:
    world = World(Settings(consumer_timeout_ms=1000))
    channel = world.channel()
    channel.declare("q", x_consumer_timeout=0)
    channel.consume("q")
    channel.publish("slow", "q")
    channel.take()
    world.advance(1_000_000)
    assert channel.take() == []


def test_without_a_timeout_a_delivery_may_be_held_for_ever(world: World) -> None:
    channel = world.channel()
    hold(channel, "a")
    world.advance(10**9)
    channel.ack(1)
    assert channel.take() == []
