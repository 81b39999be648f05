"""Quorum queues: durable or not at all, counted redeliveries, and a limit on them."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.settings import Settings


def declare(channel: ChannelClient, **arguments: object) -> None:
    more: dict[str, object] = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.declare("q", durable=True, x_queue_type="quorum", more=more)


def count_of(channel: ChannelClient, queue: str = "q") -> object:
    seen = channel.get(queue)
    assert seen is not None
    return seen.received.header("x-delivery-count")


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_what_a_quorum_queue_cannot_be_is_refused(channel: ChannelClient, flags: dict[str, bool], what: str) -> None:
    method = methods.QueueDeclare(queue="q", arguments=table_of({"x-queue-type": "quorum"}))
    for name, value in flags.items():
        setattr(method, name, value)
    assert channel.refused(method) == (
        406,
        f"PRECONDITION_FAILED - invalid property '{what}' for queue 'q' in vhost '/'",
    )


def test_a_quorum_queue_has_a_name_of_its_own(channel: ChannelClient) -> None:
    method = methods.QueueDeclare(queue="", durable=True, arguments=table_of({"x-queue-type": "quorum"}))
    code, text = channel.refused(method)
    assert code == 406
    assert "Cannot declare a server-named queue for type" in text


def test_the_first_delivery_has_no_count_and_each_return_adds_one(channel: ChannelClient) -> None:
    declare(channel)
    channel.publish("m", "q", properties=Properties(headers=table_of({"mine": "kept"})))
    assert count_of(channel) is None
    channel.nack(1)
    assert count_of(channel) == 1
    channel.reject(2, requeue=True)
    seen = channel.get("q")
    assert seen is not None
    assert (seen.received.header("x-delivery-count"), seen.received.header("mine")) == (2, "kept")
    assert (seen.body, seen.redelivered) == (b"m", True)


def test_consumers_see_the_count_too(world: World) -> None:
    channel = world.connect(frame_max=4096).channel(9)
    declare(channel)
    channel.consume("q")
    body = bytes(range(256)) * 40
    channel.publish(body, "q")
    channel.take()
    channel.nack(1)
    (seen,) = channel.deliveries()
    assert (seen.body, seen.received.header("x-delivery-count")) == (body, 1)
    assert max(seen.received.frames) <= 4088


def test_classic_queues_show_no_count(channel: ChannelClient) -> None:
    channel.declare("c")
    channel.publish("m", "c")
    assert count_of(channel, "c") is None
    channel.nack(1)
    assert count_of(channel, "c") is None


def test_a_message_returned_more_often_than_the_limit_is_dead_lettered(channel: ChannelClient) -> None:
    channel.declare("dead")
    declare(channel, x_delivery_limit=2, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    channel.publish("m", "q")
    for tag in (1, 2, 3):
        assert channel.get("q") is not None
        channel.nack(tag)
    assert channel.get("q") is None
    assert channel.got("dead").received.header("x-last-death-reason") == "delivery_limit"


def test_what_is_given_back_returns_to_its_place(channel: ChannelClient) -> None:
    declare(channel)
    for body in ("a", "b", "c", "d"):
        channel.publish(body, "q")
    for _ in range(3):
        channel.get("q")
    channel.nack(2)
    channel.nack(1)
    assert channel.bodies_in("q") == [b"a", b"b", b"d"]


def test_a_lost_consumer_counts_as_a_return(world: World) -> None:
    channel = world.channel()
    declare(channel, x_delivery_limit=1)
    channel.publish("m", "q")
    for _ in range(2):
        other = world.channel()
        assert other.get("q") is not None
        other.client.lose()
    assert channel.get("q") is None


def test_without_a_limit_a_message_may_be_returned_for_ever(channel: ChannelClient) -> None:
    declare(channel, x_delivery_limit=-1)
    channel.publish("m", "q")
    for tag in range(1, 51):
        assert channel.get("q") is not None
        channel.nack(tag)
    assert count_of(channel) == 50


def test_the_limit_may_come_from_a_policy(world: World) -> None:
    channel = world.channel()
    declare(channel)
    world.set_policy("^q$", {"delivery-limit": 0}, apply_to="quorum_queues")
    channel.publish("m", "q")
    assert channel.get("q") is not None
    channel.nack(1)
    assert channel.get("q") is None


def test_the_count_is_not_kept_by_the_dead_letter(channel: ChannelClient) -> None:
    channel.declare("dead")
    declare(channel, x_delivery_limit=0, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    channel.publish("m", "q")
    channel.get("q")
    channel.nack(1)
    assert channel.got("dead").received.header("x-delivery-count") is None


def test_get_is_refused_where_one_consumer_is_the_active_one(channel: ChannelClient) -> None:
    declare(channel, x_single_active_consumer=True)
    code, text = channel.refused(methods.BasicGet(queue="q"))
    assert code == 405
    assert text == (
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. "
        "basic.get operations are not supported by quorum queues with single active consumer"
    )


def test_reject_publish_dlx_falls_back_to_drop_head(channel: ChannelClient) -> None:
    declare(channel, x_max_length=1, x_overflow="reject-publish-dlx")
    channel.publish("a", "q")
    channel.publish("b", "q")
    assert channel.bodies_in("q") == [b"b"]


def test_a_queue_of_the_default_type_may_be_declared_again(world: World) -> None:
    world.vhost.default_queue_type = "quorum"
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.declare("q", durable=True)
    channel.declare("q", durable=True, x_queue_type="quorum")


def test_a_default_type_makes_quorum_queues_where_they_can_be(world: World) -> None:
    world.vhost.default_queue_type = "quorum"
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.declare("t")
    channel.declare("e", durable=True, exclusive=True)
    assert [world.queue(name).type for name in ("q", "t", "e")] == ["quorum", "classic", "classic"]


def returned_until_it_is_gone(channel: ChannelClient) -> int:
    for times in range(50):
        seen = channel.get("q")
        if seen is None:
            return times
        channel.send(methods.BasicNack(seen.tag, False, True))
    return -1


def test_a_message_comes_back_twenty_times_unless_the_queue_says_otherwise(world: World) -> None:
    channel = world.channel()
    declare(channel)
    channel.publish("m", "q")
    assert returned_until_it_is_gone(channel) == 21


@pytest.mark.parametrize("where", ["argument", "policy", "configuration"])
def test_a_limit_of_minus_one_is_none(where: str) -> None:
    world = World(Settings(delivery_limit=-1 if where == "configuration" else 20))
    channel = world.channel()
    if where == "policy":
        world.set_policy("^q$", {"delivery-limit": -1}, apply_to="quorum_queues")
    declare(channel, **({"x_delivery_limit": -1} if where == "argument" else {}))
    channel.publish("m", "q")
    assert returned_until_it_is_gone(channel) == -1


def test_a_classic_queue_has_no_such_limit(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q")
    assert returned_until_it_is_gone(channel) == -1
