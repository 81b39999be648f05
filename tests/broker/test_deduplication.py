"""Deduplication where a queue asks for it: a second copy is answered for, but not queued."""

from __future__ import annotations

from tests.broker.harness import ChannelClient, World
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties


def publish(channel: ChannelClient, body: str, identity: object, header: str = "x-deduplication-header") -> None:
    headers = {} if identity is None else {header: identity}
    channel.publish(body, "q", properties=Properties(headers=table_of(headers)))


def test_a_second_copy_is_acked_and_not_queued(channel: ChannelClient) -> None:
    channel.declare("q", x_message_deduplication=True)
    channel.confirm()
    publish(channel, "a", "1")
    publish(channel, "again", "1")
    publish(channel, "b", "2")
    assert channel.confirms() == [("ack", 1, False), ("ack", 2, False), ("ack", 3, False)]
    assert channel.bodies_in("q") == [b"a", b"b"]


def test_a_copy_is_one_even_after_the_first_was_consumed(channel: ChannelClient) -> None:
    channel.declare("q", x_message_deduplication=True)
    publish(channel, "a", 7)
    assert channel.bodies_in("q") == [b"a"]
    publish(channel, "again", 7)
    assert channel.bodies_in("q") == []


def test_messages_without_an_id_are_all_different(channel: ChannelClient) -> None:
    channel.declare("q", x_message_deduplication=True)
    publish(channel, "a", None)
    publish(channel, "b", None)
    channel.publish("c", "q")
    assert channel.bodies_in("q") == [b"a", b"b", b"c"]


def test_without_the_argument_the_header_means_nothing(channel: ChannelClient) -> None:
    channel.declare("q")
    publish(channel, "a", "1")
    publish(channel, "b", "1")
    assert channel.bodies_in("q") == [b"a", b"b"]


def test_the_header_may_have_another_name(channel: ChannelClient) -> None:
    channel.declare("q", x_message_deduplication=True, x_deduplication_header="id")
    publish(channel, "a", "1", "id")
    publish(channel, "b", "1", "id")
    publish(channel, "c", "1")
    assert channel.bodies_in("q") == [b"a", b"c"]


def test_an_id_is_forgotten_after_its_time(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_deduplication=True, x_cache_ttl=1000)
    publish(channel, "a", "1")
    world.advance(999)
    publish(channel, "b", "1")
    world.advance(1)
    publish(channel, "c", "1")
    assert channel.bodies_in("q") == [b"a", b"c"]


def test_only_so_many_ids_are_remembered_the_newest(channel: ChannelClient) -> None:
    channel.declare("q", x_message_deduplication=True, x_cache_size=2)
    for body, identity in (("a", "1"), ("b", "2"), ("c", "3"), ("d", "1"), ("e", "3")):
        publish(channel, body, identity)
    assert channel.bodies_in("q") == [b"a", b"b", b"c", b"d"]


def test_a_refused_message_is_not_remembered(channel: ChannelClient) -> None:
    channel.declare("q", x_message_deduplication=True, x_max_length=1, x_overflow="reject-publish")
    publish(channel, "a", "1")
    publish(channel, "refused", "2")
    channel.bodies_in("q")
    publish(channel, "tried again", "2")
    assert channel.bodies_in("q") == [b"tried again"]
