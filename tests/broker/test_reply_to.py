"""Direct reply-to: answers that go straight to whoever asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties

REPLY = "amq.rabbitmq.reply-to"


@pytest.fixture
def asker(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("service")
    channel.consume(REPLY, "answers", no_ack=True)
    return channel


def ask(channel: ChannelClient, body: str = "question") -> str:
    """Publish a request; the address that the service sees."""
    channel.publish(body, "service", properties=Properties(reply_to=REPLY, correlation_id="7"))
    other = channel.client.world.channel()
    address = other.got("service").received.properties.reply_to
    assert address is not None
    return address


def test_an_answer_reaches_the_asker_directly(world: World, asker: ChannelClient) -> None:
    address = ask(asker)
    assert address.startswith(f"{REPLY}.")
    server = world.channel()
    server.publish("answer", address, properties=Properties(correlation_id="7"))
    (seen,) = asker.deliveries()
    assert (seen.body, seen.consumer, seen.exchange, seen.routing_key) == (b"answer", "answers", "", address)
    assert seen.received.properties.correlation_id == "7"


def test_the_rest_of_the_request_is_untouched(asker: ChannelClient) -> None:
    sent = Properties(
        *("text/plain", "gzip", table_of({"CC": ["elsewhere"], "a": 1}), 2, 3, "correlated", REPLY, "60000", "m", 5),
        *("kind", "guest", "app", "cluster"),
    )
    asker.publish(bytes(300_000), "service", properties=sent)
    seen = asker.got("service")
    assert seen.body == bytes(300_000)
    received = seen.received.properties
    assert received.reply_to is not None
    assert received.reply_to.startswith(f"{REPLY}.")
    assert replace(received, reply_to=REPLY) == sent


def test_the_address_stays_the_same_for_a_channel(asker: ChannelClient) -> None:
    assert ask(asker) == ask(asker)


def test_each_channel_has_its_own_address(world: World, asker: ChannelClient) -> None:
    other = world.channel()
    other.consume(REPLY, no_ack=True)
    assert ask(other) != ask(asker)


def test_an_answer_reaches_all_whom_cc_and_bcc_name(world: World, asker: ChannelClient) -> None:
    other = world.channel()
    other.consume(REPLY, "others", no_ack=True)
    addresses = [ask(asker), ask(other)]
    server = world.channel()
    server.declare("log")
    copies = table_of({"CC": [addresses[0], addresses[0]], "BCC": [addresses[1]]})
    server.publish("answer", "log", mandatory=True, properties=Properties(headers=copies))
    server.publish("again", "nowhere", mandatory=True, properties=Properties(headers=copies))
    assert [seen.body for seen in asker.deliveries()] == [b"answer", b"again"]
    assert [seen.body for seen in other.deliveries()] == [b"answer", b"again"]
    assert server.take() == []
    assert server.got("log").body == b"answer"


def test_an_answer_counts_as_routed(world: World, asker: ChannelClient) -> None:
    server = world.channel()
    server.confirm()
    server.publish("answer", ask(asker), mandatory=True)
    assert server.confirms() == [("ack", 1, False)]


def test_an_answer_to_one_who_left_is_lost_without_an_error(world: World, asker: ChannelClient) -> None:
    address = ask(asker)
    asker.client.lose()
    server = world.channel()
    server.publish("too late", address)
    assert server.take() == []
    assert world.node.reply_channels == {}


def test_no_answer_comes_after_cancel(world: World, asker: ChannelClient) -> None:
    address = ask(asker)
    asker.cancel("answers")
    world.channel().publish("too late", address)
    assert asker.take() == []
    asker.consume(REPLY, "again", no_ack=True)


def test_asking_needs_a_reply_consumer_on_the_same_channel(asker: ChannelClient) -> None:
    other = asker.client.channel(2)
    other.publish("m", "service", properties=Properties(reply_to=REPLY))
    assert other.expect_close() == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")


def test_answers_cannot_be_acknowledged(channel: ChannelClient) -> None:
    assert channel.refused(methods.BasicConsume(queue=REPLY)) == (
        406,
        "PRECONDITION_FAILED - reply consumer cannot acknowledge",
    )


def test_a_channel_has_one_reply_consumer(asker: ChannelClient) -> None:
    assert asker.refused(methods.BasicConsume(queue=REPLY, no_ack=True)) == (
        406,
        "PRECONDITION_FAILED - reply consumer already set",
    )


def test_declaring_an_address_tells_whether_somebody_waits_there(world: World, asker: ChannelClient) -> None:
    address = ask(asker)
    server = world.channel()
    ok = server.declare(address)
    assert (ok.queue, ok.message_count, ok.consumer_count) == (address, 0, 1)
    assert server.declare(REPLY, passive=True).consumer_count == 1
    asker.client.lose()
    assert server.refused(methods.QueueDeclare(queue=address, passive=True))[0] == 404


def test_other_reply_addresses_are_left_as_they_are(asker: ChannelClient) -> None:
    asker.publish("m", "service", properties=Properties(reply_to="some.queue"))
    assert asker.got("service").received.properties.reply_to == "some.queue"


def test_the_pseudo_queue_is_not_listed(world: World, asker: ChannelClient) -> None:
    assert list(world.vhost.queues) == ["service"]
