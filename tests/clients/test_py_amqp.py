"""py-amqp, the client below kombu and Celery: blocking calls and drain_events."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest
from amqp.exceptions import NotFound, PreconditionFailed

import amqp
from tests.clients.conftest import Secured
from warren import Broker


@pytest.fixture
def connection(warren_broker: Broker) -> Iterator[amqp.Connection]:
    with amqp.Connection(f"{warren_broker.host}:{warren_broker.port}", confirm_publish=True) as opened:
        yield opened


def test_what_is_published_is_consumed(connection: amqp.Connection) -> None:
    channel = connection.channel()
    channel.exchange_declare("news", "topic", durable=True, auto_delete=False)
    queue, _, _ = channel.queue_declare(exclusive=True)
    channel.queue_bind(queue, "news", "a.#")
    received: list[amqp.Message] = []
    channel.basic_consume(queue, callback=received.append)
    channel.basic_publish(amqp.Message("text", content_type="text/plain", application_headers={"n": 1}), "news", "a.b")
    # It may have come already, while the publish waited for its confirm.
    while not received:
        connection.drain_events(timeout=10)
    (message,) = received
    assert (message.body, message.headers, message.properties["content_type"]) == ("text", {"n": 1}, "text/plain")
    channel.basic_ack(message.delivery_tag)


def test_what_cannot_be_routed_is_returned(connection: amqp.Connection) -> None:
    channel = connection.channel()
    returned: list[tuple[int, str, str]] = []
    channel.events["basic_return"].add(
        lambda error, exchange, routing_key, message: returned.append((error.reply_code, routing_key, message.body))
    )
    channel.basic_publish(amqp.Message("lost"), "", "nowhere", mandatory=True)
    assert returned == [(312, "nowhere", "lost")]


def test_a_transaction_is_whole_or_nothing(warren_broker: Broker) -> None:
    with amqp.Connection(f"{warren_broker.host}:{warren_broker.port}") as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.tx_select()
        channel.basic_publish(amqp.Message("undone"), "", "q")
        channel.tx_rollback()
        channel.basic_publish(amqp.Message("done"), "", "q")
        assert channel.basic_get("q") is None
        channel.tx_commit()
        assert channel.basic_get("q", no_ack=True).body == "done"


def test_refusals_are_its_own_exceptions(connection: amqp.Connection) -> None:
    with pytest.raises(NotFound):
        connection.channel().queue_declare("absent", passive=True)
    connection.channel().queue_declare("q", auto_delete=False)
    with pytest.raises(PreconditionFailed):
        connection.channel().queue_declare("q", auto_delete=True)


def test_it_hears_that_the_broker_blocks_it(warren_broker: Broker) -> None:
    heard: list[str] = []
    with amqp.Connection(
        f"{warren_broker.host}:{warren_broker.port}",
        on_blocked=lambda _: heard.append("blocked"),
        on_unblocked=lambda: heard.append("unblocked"),
    ) as connection:
        channel = connection.channel()
        warren_broker.call(lambda node: node.set_alarm("disk", True))
        channel.basic_publish(amqp.Message(""), "", "anywhere")
        connection.drain_events(timeout=10)
        warren_broker.call(lambda node: node.set_alarm("disk", False))
        connection.drain_events(timeout=10)
        assert heard == ["blocked", "unblocked"]


def test_its_heartbeats_are_answered(warren_broker: Broker) -> None:
    with amqp.Connection(f"{warren_broker.host}:{warren_broker.port}", heartbeat=2) as connection:
        channel = connection.channel()
        for _ in range(10):
            connection.heartbeat_tick()
            with pytest.raises(TimeoutError):
                # Heartbeats are taken from the socket, but are no events.
                connection.drain_events(timeout=0.5)
        assert channel.queue_declare("q").queue == "q"


def test_tls(secured: Secured) -> None:
    options = {"ca_certs": secured.ca, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "127.0.0.1"}
    with amqp.Connection(f"127.0.0.1:{secured.broker.tls_port}", ssl=options) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish(amqp.Message("x" * 300_000), "", "q")
        assert channel.basic_get("q", no_ack=True).body == "x" * 300_000
