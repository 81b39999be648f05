"""Where a publish goes: default exchange, bindings, alternates, CC and BCC; and what comes back from nowhere."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties


def with_headers(**headers: object) -> Properties:
    return Properties(headers=table_of(headers))


def bind_exchange(channel: ChannelClient, source: str, destination: str, key: str = "") -> None:
    channel.call(methods.ExchangeBind(destination=destination, source=source, routing_key=key), methods.ExchangeBindOk)


def test_a_publish_has_no_answer(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("m", "q")
    channel.publish("m", "nowhere")
    assert channel.take() == []


def test_the_default_exchange_leads_to_the_queue_of_that_name(channel: ChannelClient) -> None:
    channel.declare("a")
    channel.declare("b")
    channel.publish("m", "a")
    assert channel.bodies_in("a") == [b"m"]
    assert channel.bodies_in("b") == []


def test_a_queue_declared_after_an_unroutable_publish_gets_the_next(channel: ChannelClient) -> None:
    channel.publish("lost", "late")
    channel.declare("late")
    channel.publish("found", "late")
    assert channel.bodies_in("late") == [b"found"]


def test_a_delivery_names_exchange_and_key_as_published(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.bind("q", "amq.topic", "a.#")
    channel.publish("m", "a.b.c", "amq.topic")
    seen = channel.got("q")
    assert (seen.exchange, seen.routing_key) == ("amq.topic", "a.b.c")


def test_two_bindings_that_match_give_one_copy(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.bind("q", "amq.topic", "a.*")
    channel.bind("q", "amq.topic", "#")
    channel.publish("m", "a.b", "amq.topic")
    assert channel.bodies_in("q") == [b"m"]


def test_bindings_made_and_undone_hold_for_the_next_publish(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.declare("r")
    channel.bind("q", "amq.direct", "k")
    channel.publish("1", "k", "amq.direct")
    channel.bind("r", "amq.direct", "k")
    channel.publish("2", "k", "amq.direct")
    channel.call(methods.QueueUnbind(queue="q", exchange="amq.direct", routing_key="k"), methods.QueueUnbindOk)
    channel.publish("3", "k", "amq.direct")
    assert channel.bodies_in("q") == [b"1", b"2"]
    assert channel.bodies_in("r") == [b"2", b"3"]


def test_exchanges_lead_to_exchanges(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.declare_exchange("y", "fanout")
    bind_exchange(channel, "amq.direct", "y", "k")
    channel.bind("q", "y")
    channel.publish("m", "k", "amq.direct")
    assert channel.bodies_in("q") == [b"m"]


def test_exchanges_in_a_circle_are_each_asked_once(channel: ChannelClient) -> None:
    channel.declare("q")
    for name in ("x", "y"):
        channel.declare_exchange(name, "fanout")
        channel.bind("q", name)
    bind_exchange(channel, "x", "y")
    bind_exchange(channel, "y", "x")
    channel.publish("m", "", "x")
    assert channel.bodies_in("q") == [b"m"]


def test_the_alternate_gets_what_the_exchange_cannot_route(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.declare_exchange("other", "fanout")
    channel.bind("q", "other")
    channel.declare_exchange("x", "direct", alternate_exchange="other")
    channel.publish("m", "nobody", "x", mandatory=True)
    assert channel.bodies_in("q") == [b"m"]


def test_the_alternate_of_the_alternate_is_asked_too(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.declare_exchange("x", "direct", alternate_exchange="y")
    channel.declare_exchange("y", "direct", alternate_exchange="z")
    channel.declare_exchange("z", "fanout")
    channel.bind("q", "z")
    channel.publish("m", "k", "x")
    assert channel.bodies_in("q") == [b"m"]


def test_a_missing_alternate_is_no_error_but_returns(channel: ChannelClient) -> None:
    channel.declare_exchange("x", "direct", alternate_exchange="missing")
    channel.publish("m", "k", "x", mandatory=True)
    assert channel.names() == ["basic.return"]


def test_an_alternate_may_come_from_a_policy(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.declare_exchange("x", "direct")
    channel.publish("lost", "k", "x")
    channel.bind("q", "amq.fanout")
    world.set_policy("^x$", {"alternate-exchange": "amq.fanout"})
    channel.publish("m", "k", "x")
    world.clear_policy()
    channel.publish("lost", "k", "x")
    assert channel.bodies_in("q") == [b"m"]


def test_cc_and_bcc_add_routing_keys(channel: ChannelClient) -> None:
    for name in ("a", "b", "c"):
        channel.declare(name)
    channel.publish("m", "a", properties=with_headers(CC=["b"], BCC=["c"], kept="yes"))
    for name in ("a", "b", "c"):
        seen = channel.got(name)
        assert seen.routing_key == "a"
        assert seen.received.header("kept") == "yes"
        assert [item.value for item in seen.received.header("CC")] == ["b"]  # type: ignore[attr-defined]
        assert seen.received.header("BCC") is None


def test_the_same_queue_by_key_and_cc_gets_one_copy(channel: ChannelClient) -> None:
    channel.declare("a")
    channel.publish("m", "a", properties=with_headers(CC=["a", "a"], BCC=["a"]))
    assert channel.bodies_in("a") == [b"m"]


def test_elements_of_cc_that_are_no_strings_do_not_count(channel: ChannelClient) -> None:
    channel.declare("a")
    channel.publish("m", "nowhere", properties=with_headers(CC=[1, True, "a", None]))
    assert channel.bodies_in("a") == [b"m"]


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_cc_must_be_an_array(channel: ChannelClient, name: str) -> None:
    channel.publish("m", "a", properties=with_headers(**{name: 5}))
    assert channel.expect_close() == (
        406,
        f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{name}",signedint}}',
    )


def test_a_large_body_survives_the_removal_of_bcc(channel: ChannelClient) -> None:
    channel.declare("a")
    body = bytes(300_000)
    channel.publish(body, "a", properties=with_headers(BCC=["a"]))
    assert channel.got("a").body == body


def test_a_mandatory_message_without_a_queue_comes_back_whole(channel: ChannelClient) -> None:
    properties = Properties(content_type="text/plain", message_id="7")
    channel.publish("body", "nowhere", "amq.direct", mandatory=True, properties=properties)
    (received,) = channel.take()
    assert received.method == methods.BasicReturn(312, "NO_ROUTE", "amq.direct", "nowhere")
    assert (received.properties, received.body) == (properties, b"body")


def test_a_returned_message_has_lost_its_bcc(channel: ChannelClient) -> None:
    channel.publish("m", "nowhere", mandatory=True, properties=with_headers(BCC=["nowhere either"], kept=1))
    (received,) = channel.take()
    assert list(received.properties.headers or {}) == ["kept"]


def test_a_mandatory_message_without_a_consumer_does_not_come_back(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("m", "q", mandatory=True)
    assert channel.take() == []


def test_a_return_goes_to_the_channel_that_published(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    two.publish("m", "nowhere", mandatory=True)
    assert one.take() == []
    assert two.names() == ["basic.return"]


def test_vhosts_do_not_share_names(world: World) -> None:
    world.node.add_vhost("other")
    world.node.access.set_permission("guest", "other", ".*", ".*", ".*")
    here, there = world.channel(), world.connect(vhost="other").channel()
    here.declare("q")
    there.declare("q")
    here.publish("here", "q")
    assert there.bodies_in("q") == []
    assert here.bodies_in("q") == [b"here"]


def test_two_connections_see_each_others_messages(world: World) -> None:
    one, two = world.channel(), world.channel()
    one.declare("q")
    two.publish("m", "q")
    assert one.got("q").body == b"m"


def test_messages_from_one_channel_keep_their_order(channel: ChannelClient) -> None:
    channel.declare("q")
    sent = [str(number) for number in range(100)]
    for body in sent:
        channel.publish(body, "q")
    assert channel.bodies_in("q") == [body.encode() for body in sent]


def test_only_delivery_mode_2_is_persistent(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True)
    for mode in (None, 0, 1, 2, 3):
        channel.publish("m", "q", properties=Properties(delivery_mode=mode))
    for mode in (None, 2):
        channel.publish("m", "q", properties=Properties(delivery_mode=mode, message_id="x"))
    kept = [entry.message.persistent for entry in world.queue("q").backing.snapshot(10)]
    assert kept == [False, False, False, True, False, False, True]
