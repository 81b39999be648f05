"""Browsing: copies of what is ready, by sequence, beside whoever consumes; and settling up to a sequence."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, Seen, World
from warren.amqp import methods
from warren.amqp.fields import Field, Table, table_of
from warren.amqp.properties import Properties


def browse(channel: ChannelClient, prefetch: int = 100, exclusive: bool = False, **arguments: object) -> list[Seen]:
    """A browser of its own tag; gives what it gets at once."""
    channel.qos(prefetch)
    table = table_of({"x-browse": True} | {key.replace("_", "-"): value for key, value in arguments.items()})
    method = methods.BasicConsume(queue="q", consumer_tag="b", exclusive=exclusive, arguments=table)
    channel.call(method, methods.BasicConsumeOk)
    return channel.deliveries()


def fill(channel: ChannelClient, count: int, first: int = 1) -> None:
    for number in range(first, first + count):
        channel.publish(f"m{number}", "q")


def sequences(seen: list[Seen]) -> list[object]:
    return [one.received.header("x-sequence") for one in seen]


@pytest.fixture
def filled(channel: ChannelClient) -> ChannelClient:
    channel.declare("q", durable=True)
    fill(channel, 5)
    return channel


def test_a_browser_gets_copies_and_the_queue_keeps_the_messages(world: World, filled: ChannelClient) -> None:
    seen = browse(world.channel())
    assert [one.body for one in seen] == [b"m1", b"m2", b"m3", b"m4", b"m5"]
    assert sequences(seen) == [1, 2, 3, 4, 5]
    assert filled.bodies_in("q") == [b"m1", b"m2", b"m3", b"m4", b"m5"]


@pytest.mark.parametrize(("first", "expected"), [(0, [1, 2, 3, 4, 5]), (3, [3, 4, 5]), (6, []), (-7, [1, 2, 3, 4, 5])])
def test_it_begins_at_the_sequence_that_was_asked_for(
    world: World, filled: ChannelClient, first: int, expected: list[int]
) -> None:
    assert sequences(browse(world.channel(), x_browse_from=first)) == expected


def test_it_follows_what_is_published(world: World, filled: ChannelClient) -> None:
    browser = world.channel()
    browse(browser, x_browse_from=5)
    fill(filled, 2, first=6)
    assert sequences(browser.deliveries()) == [6, 7]


@pytest.mark.parametrize("settle", ["ack", "reject", "requeue"])
def test_whatever_it_says_of_a_copy_makes_room_and_changes_nothing(
    world: World, filled: ChannelClient, settle: str
) -> None:
    browser = world.channel()
    (first,) = browse(browser, prefetch=1)
    if settle == "ack":
        browser.ack(first.tag)
    else:
        browser.reject(first.tag, requeue=settle == "requeue")
    assert sequences(browser.deliveries()) == [2]
    assert world.queue("q").backing.length == 5
    assert world.queue("q").unacked == 1
    browser.client.lose()
    assert world.queue("q").unacked == 0
    assert filled.bodies_in("q") == [b"m1", b"m2", b"m3", b"m4", b"m5"]


def test_a_rejected_copy_is_no_dead_letter(world: World, channel: ChannelClient) -> None:
    channel.declare("dead")
    channel.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    fill(channel, 1)
    browser = world.channel()
    (copy,) = browse(browser)
    browser.reject(copy.tag)
    assert channel.get("dead") is None
    assert channel.bodies_in("q") == [b"m1"]


def test_browsers_and_consumers_do_not_disturb_each_other(world: World, filled: ChannelClient) -> None:
    one, two, consumer = world.channel(), world.channel(), world.channel()
    assert sequences(browse(one, prefetch=2)) == [1, 2]
    consumer.qos(1)
    consumer.consume("q")
    (taken,) = consumer.deliveries()
    # What somebody else holds is not ready, so a browser passes over it.
    assert sequences(browse(two)) == [2, 3, 4, 5]
    consumer.ack(taken.tag)
    assert consumer.delivered() == [b"m2"]
    one.ack(0, multiple=True)
    assert sequences(one.deliveries()) == [3, 4]


def test_what_goes_straight_to_a_consumer_was_never_ready(world: World, channel: ChannelClient) -> None:
    channel.declare("q")
    browser, consumer = world.channel(), world.channel()
    assert browse(browser) == []
    consumer.consume("q", no_ack=True)
    fill(channel, 2)
    assert consumer.delivered() == [b"m1", b"m2"]
    assert browser.deliveries() == []


def test_a_message_that_comes_back_is_seen_at_its_place(world: World, filled: ChannelClient) -> None:
    holder = world.channel()
    first = holder.get("q")
    assert first is not None
    holder.reject(first.tag, requeue=True)
    seen = browse(world.channel())
    assert sequences(seen) == [1, 2, 3, 4, 5]
    assert [one.redelivered for one in seen] == [True, False, False, False, False]


def test_an_expired_message_is_not_shown(world: World, channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("stays", "q")
    channel.publish("goes", "q", properties=Properties(expiration="10"))
    channel.publish("stays too", "q")
    world.advance(50)
    assert [one.body for one in browse(world.channel())] == [b"stays", b"stays too"]


def test_an_exclusive_browser_keeps_every_other_consumer_out(world: World, filled: ChannelClient) -> None:
    browser, other = world.channel(), world.channel()
    browse(browser, exclusive=True)
    expected = (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
    assert other.refused(methods.BasicConsume(queue="q")) == expected
    browser.cancel("b")
    world.channel().consume("q")


def test_an_exclusive_browser_lets_others_browse_but_not_own(world: World, filled: ChannelClient) -> None:
    early, owner = world.channel(), world.channel()
    assert len(browse(early)) == len(browse(owner, exclusive=True)) == len(browse(world.channel())) > 0
    method = methods.BasicConsume(queue="q", exclusive=True, arguments={"x-browse": Field("t", True)})
    other = world.channel()
    other.qos(10)
    assert other.refused(method) == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


def test_a_browser_does_not_get_past_an_exclusive_consumer(world: World, filled: ChannelClient) -> None:
    world.channel().call(methods.BasicConsume(queue="q", exclusive=True), methods.BasicConsumeOk)
    other = world.channel()
    other.qos(10)
    method = methods.BasicConsume(queue="q", arguments={"x-browse": Field("t", True)})
    assert other.refused(method) == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


def test_a_browser_takes_no_turn_of_a_single_active_consumer(world: World, channel: ChannelClient) -> None:
    channel.declare("q", x_single_active_consumer=True)
    browser, one, two = world.channel(), world.channel(), world.channel()
    assert browse(browser) == []
    one.consume("q", no_ack=True)
    two.consume("q", no_ack=True)
    fill(channel, 1)
    assert one.delivered() == [b"m1"]
    one.close()
    fill(channel, 1, first=2)
    assert two.delivered() == [b"m2"]
    assert browser.deliveries() == []


def test_a_long_queue_is_shown_a_share_in_each_turn(world: World, channel: ChannelClient) -> None:
    channel.declare("q")
    for _ in range(400):
        channel.publish(bytes(2000), "q")
    assert sequences(browse(world.channel(), prefetch=1000)) == list(range(1, 401))


# ---- settling up to a sequence ----


def settle_to(channel: ChannelClient, sequence: int) -> None:
    channel.qos(100)
    channel.send(methods.BasicConsume(queue="q", consumer_tag="b", arguments=table_of({"x-settle-to": sequence})))


def test_settling_removes_what_is_ready_and_browses_on_behind_it(world: World, filled: ChannelClient) -> None:
    browser = world.channel()
    settle_to(browser, 3)
    browser.expect(methods.BasicConsumeOk)
    assert sequences(browser.deliveries()) == [4, 5]
    assert world.queue("q").backing.length == 2
    assert world.queue("q").counters.acked == 3
    assert filled.bodies_in("q") == [b"m4", b"m5"]


def test_consume_ok_waits_until_the_settling_is_durable(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    for number in range(3):
        channel.persist(f"m{number}", "q")
    world.store.holds = True
    browser = world.channel()
    settle_to(browser, 2)
    assert browser.take() == []
    world.sync()
    browser.expect(methods.BasicConsumeOk)
    assert sequences(browser.deliveries()) == [3]


def test_a_browser_that_left_before_hears_nothing(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    channel.persist("m", "q")
    world.store.holds = True
    browser = world.channel()
    settle_to(browser, 1)
    browser.client.lose()
    world.sync()
    assert world.queue("q").consumers.count == 0


def test_what_others_hold_is_not_settled(world: World, filled: ChannelClient) -> None:
    holder = world.channel()
    held = holder.get("q")
    assert held is not None
    settle_to(world.channel(), 5)
    holder.reject(held.tag, requeue=True)
    assert filled.bodies_in("q") == [b"m1"]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"x-browse": Field("S", "yes")},
            "invalid arg 'x-browse' for queue 'q' in vhost '/': {unacceptable_type,longstr}",
        ),
        (
            {"x-browse": Field("t", True), "x-browse-from": Field("S", "1")},
            "invalid arg 'x-browse-from' for queue 'q' in vhost '/': \"expected integer, got longstr\"",
        ),
        (
            {"x-settle-to": Field("d", 1.5)},
            "invalid arg 'x-settle-to' for queue 'q' in vhost '/': \"expected integer, got double\"",
        ),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(filled: ChannelClient, arguments: Table, text: str) -> None:
    filled.qos(1)
    assert filled.refused(methods.BasicConsume(queue="q", arguments=arguments)) == (
        406,
        f"PRECONDITION_FAILED - {text}",
    )


def test_browsing_takes_a_prefetch_and_acks(world: World, filled: ChannelClient) -> None:
    method = methods.BasicConsume(queue="q", arguments=table_of({"x-browse": True}))
    code, text = world.channel().refused(method)
    assert (code, text) == (
        406,
        "PRECONDITION_FAILED - consumer prefetch count is not set for browsing queue 'q' in vhost '/'",
    )
    channel = world.channel()
    channel.qos(1)
    method.no_ack = True
    code, text = channel.refused(method)
    assert (code, text) == (
        406,
        "PRECONDITION_FAILED - automatic acknowledgement not supported by browsing queue 'q' in vhost '/'",
    )


def test_a_queue_with_priorities_is_browsed_and_settled_in_the_order_of_publishing(
    world: World, channel: ChannelClient
) -> None:
    channel.declare("q", x_max_priority=5)
    for number, priority in enumerate((0, 5, 3, 1, 6, 4), 1):
        channel.publish(f"m{number}", "q", properties=Properties(priority=priority))
    assert sequences(browse(world.channel())) == [1, 2, 3, 4, 5, 6]
    assert sequences(browse(world.channel(), x_settle_to=3)) == [4, 5, 6]
    assert channel.bodies_in("q") == [b"m5", b"m6", b"m4"]


def test_a_stream_is_not_browsed(channel: ChannelClient) -> None:
    channel.declare("s", durable=True, x_queue_type="stream")
    channel.qos(1)
    code, text = channel.refused(methods.BasicConsume(queue="s", arguments=table_of({"x-browse": True})))
    assert (code, text.endswith("of queue type rabbit_stream_queue")) == (406, True)


def test_browse_false_is_an_ordinary_consumer(filled: ChannelClient) -> None:
    filled.consume("q", no_ack=True, x_browse=False)
    assert filled.delivered() == [b"m1", b"m2", b"m3", b"m4", b"m5"]
