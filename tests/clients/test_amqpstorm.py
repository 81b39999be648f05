"""AMQPStorm: a thread-safe blocking client with its own reader thread, and a client for the management API."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import amqpstorm
import pytest
from amqpstorm.management import ManagementApi

from tests.clients.conftest import Secured
from warren import Broker


@pytest.fixture
def channel(warren_broker: Broker) -> Iterator[amqpstorm.Channel]:
    with amqpstorm.Connection(warren_broker.host, "guest", "guest", port=warren_broker.port) as connection:
        yield connection.channel()


def test_what_is_published_is_consumed(channel: amqpstorm.Channel) -> None:
    channel.queue.declare("q")
    channel.basic.qos(1)
    for number in range(3):
        channel.basic.publish(str(number), "q", properties={"headers": {"number": number}, "content_type": "text/x"})
    seen = []
    channel.basic.consume(queue="q")
    for message in channel.build_inbound_messages():
        seen.append((message.body, message.properties["headers"], message.redelivered))
        message.ack()
        if len(seen) == 3:
            channel.basic.cancel(next(iter(channel.consumer_tags)))
            break
    assert seen == [(str(number), {"number": number}, False) for number in range(3)]


def test_a_confirmed_publish_tells_whether_it_was_routed(channel: amqpstorm.Channel) -> None:
    channel.confirm_deliveries()
    channel.queue.declare("q")
    assert channel.basic.publish("here", "q", mandatory=True) is True
    with pytest.raises(amqpstorm.AMQPMessageError) as caught:
        channel.basic.publish("there", "nowhere", mandatory=True)
    assert caught.value.error_code == 312


def test_a_transaction_is_whole_or_nothing(channel: amqpstorm.Channel) -> None:
    channel.queue.declare("q")
    channel.tx.select()
    channel.basic.publish("undone", "q")
    channel.tx.rollback()
    channel.basic.publish("done", "q")
    assert channel.basic.get("q") is None
    channel.tx.commit()
    assert channel.basic.get("q", no_ack=True).body == "done"


def test_a_refusal_costs_the_channel_and_not_the_connection(channel: amqpstorm.Channel) -> None:
    with pytest.raises(amqpstorm.AMQPChannelError) as caught:
        channel.queue.declare("absent", passive=True)
    assert caught.value.error_code == 404
    with channel._connection.channel() as other:
        assert other.queue.declare("q")["queue"] == "q"


def test_the_management_client_sees_what_amqp_made() -> None:
    with Broker(http=True) as broker:
        api = ManagementApi(broker.http_url, "guest", "guest")
        with amqpstorm.Connection(broker.host, "guest", "guest", port=broker.port) as connection:
            connection.channel().queue.declare("q", durable=True)
            assert [queue["name"] for queue in api.queue.list()] == ["q"]
            assert len(api.connection.list()) == 1
            api.basic.publish("over http", "q")
            assert api.basic.get("q")[0].body == "over http"
        assert api.aliveness_test("/") == {"status": "ok"}


def test_tls(secured: Secured) -> None:
    options = {"context": ssl.create_default_context(cafile=secured.ca), "server_hostname": "127.0.0.1"}
    port = secured.broker.tls_port
    with (
        amqpstorm.Connection("127.0.0.1", "guest", "guest", port=port, ssl=True, ssl_options=options) as connection,
        connection.channel() as channel,
    ):
        channel.queue.declare("q")
        channel.basic.publish("x" * 300_000, "q")
        assert channel.basic.get("q", no_ack=True).body == "x" * 300_000
