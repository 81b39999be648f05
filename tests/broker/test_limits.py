"""Max-length in its three modes: what is dropped, what is refused, what counts."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World

DEAD: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def fill(channel: ChannelClient, *bodies: str) -> None:
    for body in bodies:
        channel.publish(body, "q")


def test_drop_head_keeps_the_newest(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length=2)
    fill(channel, "a", "b", "c", "d")
    assert channel.bodies_in("q") == [b"c", b"d"]


def test_drop_head_by_bytes_counts_bodies(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length_bytes=10)
    fill(channel, "aaaa", "bbbb", "cc", "d")
    assert channel.bodies_in("q") == [b"bbbb", b"cc", b"d"]


def test_a_message_too_big_for_the_queue_is_itself_dropped(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length_bytes=3)
    fill(channel, "a", "bbbb")
    assert channel.bodies_in("q") == []


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_limit_of_0_bytes_keeps_empty_messages_only(channel: ChannelClient, overflow: str) -> None:
    channel.declare("q", x_max_length_bytes=0, x_overflow=overflow)
    fill(channel, "", "a", "")
    assert channel.bodies_in("q") == ([b""] if overflow == "drop-head" else [b"", b""])


def test_both_limits_hold_together(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length=3, x_max_length_bytes=5)
    fill(channel, "a", "b", "c", "d", "eee")
    assert channel.bodies_in("q") == [b"c", b"d", b"eee"]


def test_a_length_of_0_lets_messages_through_to_waiting_consumers_only(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length=0)
    fill(channel, "lost")
    channel.consume("q")
    fill(channel, "m")
    assert channel.delivered() == [b"m"]


def test_what_consumers_hold_does_not_count(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_length=2)
    channel.qos(3)
    channel.consume("q")
    fill(channel, "a", "b", "c", "d", "e")
    assert channel.delivered() == [b"a", b"b", b"c"]
    assert world.queue("q").backing.length == 2


def test_requeueing_over_the_limit_drops_the_oldest(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length=1)
    fill(channel, "a")
    assert channel.get("q") is not None
    fill(channel, "b")
    channel.nack(1)
    assert channel.bodies_in("q") == [b"b"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_the_reject_modes_keep_the_oldest(channel: ChannelClient, overflow: str) -> None:
    channel.declare("q", x_max_length=2, x_overflow=overflow)
    fill(channel, "a", "b", "c")
    assert channel.bodies_in("q") == [b"a", b"b"]
    fill(channel, "d")
    assert channel.bodies_in("q") == [b"d"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_the_reject_modes_count_bytes_too(channel: ChannelClient, overflow: str) -> None:
    channel.declare("q", x_max_length_bytes=5, x_overflow=overflow)
    fill(channel, "aaa", "bbb", "cc")
    assert channel.bodies_in("q") == [b"aaa", b"cc"]


def test_a_refused_message_is_not_offered_to_a_waiting_consumer(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length=0, x_overflow="reject-publish")
    channel.consume("q")
    fill(channel, "m")
    assert channel.delivered() == []


def test_a_dropped_head_is_dead_lettered(channel: ChannelClient) -> None:
    channel.declare("dead")
    channel.declare("q", x_max_length=1, more=DEAD)
    fill(channel, "a", "b")
    seen = channel.got("dead")
    assert (seen.body, seen.received.header("x-first-death-reason")) == (b"a", "maxlen")


def test_reject_publish_dead_letters_nothing(channel: ChannelClient) -> None:
    channel.declare("dead")
    channel.declare("q", x_max_length=1, x_overflow="reject-publish", more=DEAD)
    fill(channel, "a", "b")
    assert channel.bodies_in("dead") == []


def test_reject_publish_dlx_dead_letters_the_refused_one(channel: ChannelClient) -> None:
    channel.declare("dead")
    channel.declare("q", x_max_length=1, x_overflow="reject-publish-dlx", more=DEAD)
    channel.confirm()
    fill(channel, "a", "b")
    assert channel.confirms() == [("ack", 1, False), ("nack", 2, False)]
    seen = channel.got("dead")
    assert (seen.body, seen.received.header("x-first-death-reason")) == (b"b", "maxlen")


def test_a_limit_lowered_by_policy_drops_at_once(world: World) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.declare("q", x_max_length=10, more=DEAD)
    fill(channel, "a", "b", "c")
    world.set_policy("^q$", {"max-length": 1})
    assert channel.bodies_in("q") == [b"c"]
    assert channel.bodies_in("dead") == [b"a", b"b"]
    world.clear_policy()
    fill(channel, "a", "b", "c")
    assert channel.bodies_in("q") == [b"a", b"b", b"c"]


def test_a_limit_lowered_by_policy_drops_nothing_where_publishes_are_refused(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_overflow="reject-publish")
    fill(channel, "a", "b", "c")
    world.set_policy("^q$", {"max-length": 1})
    assert world.queue("q").backing.length == 3


def test_of_policy_and_argument_the_stricter_counts(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_length=2)
    world.set_policy("^q$", {"max-length": 5})
    fill(channel, "a", "b", "c")
    assert channel.bodies_in("q") == [b"b", b"c"]


def test_of_policy_and_argument_the_arguments_overflow_counts(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_max_length=1, x_overflow="drop-head")
    world.set_policy("^q$", {"overflow": "reject-publish"})
    fill(channel, "a", "b")
    assert channel.bodies_in("q") == [b"b"]


def test_purging_makes_room(channel: ChannelClient) -> None:
    channel.declare("q", x_max_length=1, x_overflow="reject-publish")
    fill(channel, "a")
    channel.bodies_in("q")
    fill(channel, "b")
    assert channel.bodies_in("q") == [b"b"]
