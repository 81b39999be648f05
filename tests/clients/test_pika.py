"""pika: the blocking adapter for what a script does, the select adapter for what a service does."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionBlockedTimeout,
    ConnectionClosedByBroker,
    NackError,
    UnroutableError,
)

from tests.clients.conftest import Secured
from warren import Broker


def parameters(broker: Broker, **more: object) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(broker.host, broker.port, **more)


@pytest.fixture
def channel(warren_broker: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(parameters(warren_broker)) as connection:
        yield connection.channel()


def test_what_is_published_comes_back_with_all_its_properties(channel: BlockingChannel) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"n": 1, "long": 2**40, "nested": {"list": [1, "two", None, True]}},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"body", sent)
    method, received, body = channel.basic_get("q")
    assert (body, received, method.routing_key, method.redelivered) == (b"body", sent, "q", False)
    channel.basic_ack(method.delivery_tag)
    assert channel.queue_declare("q", passive=True).method.message_count == 0


def test_a_confirmed_publish_tells_no_route_and_no_room_apart(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    channel.queue_declare("small", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", "small", b"1", mandatory=True)
    with pytest.raises(NackError):
        channel.basic_publish("", "small", b"2", mandatory=True)
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", "nowhere", b"3", mandatory=True)
    assert [(each.method.reply_code, each.body) for each in caught.value.messages] == [(312, b"3")]


def test_a_consumer_holds_its_prefetch_and_gives_back_what_it_rejects(channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    for number in range(5):
        channel.basic_publish("", "q", str(number))
    channel.basic_qos(prefetch_count=2)
    seen: list[tuple[bytes, bool]] = []
    for method, _, body in channel.consume("q", inactivity_timeout=10):
        seen.append((body, method.redelivered))
        if len(seen) == 1:
            assert channel.queue_declare("q", passive=True).method.message_count == 3
            channel.basic_nack(method.delivery_tag, requeue=True)
            continue
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 6:
            break
    assert seen[0] == (b"0", False)
    assert (b"0", True) in seen
    channel.cancel()
    assert channel.queue_declare("q", passive=True).method.message_count == 0


def test_a_transaction_is_whole_or_nothing(channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    channel.tx_select()
    channel.basic_publish("", "q", b"undone")
    channel.tx_rollback()
    channel.basic_publish("", "q", b"done")
    assert channel.basic_get("q") == (None, None, None)
    channel.tx_commit()
    assert channel.basic_get("q", auto_ack=True)[2] == b"done"


def test_a_consumer_is_told_that_its_queue_is_gone(channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume("q", lambda *_: None)
    channel.queue_delete("q")
    channel.connection.process_data_events(0)
    assert (cancelled, channel.consumer_tags) == ([tag], [])


def test_a_refusal_costs_the_channel_and_not_the_connection(channel: BlockingChannel) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("absent", passive=True)
    assert (caught.value.reply_code, caught.value.reply_text) == (404, "NOT_FOUND - no queue 'absent' in vhost '/'")
    assert channel.connection.channel().is_open


def test_a_blocked_publisher_gives_up_after_its_own_timeout(warren_broker: Broker) -> None:
    settings = parameters(warren_broker, blocked_connection_timeout=0.1)
    with pytest.raises(ConnectionBlockedTimeout), pika.BlockingConnection(settings) as connection:
        channel = connection.channel()
        warren_broker.call(lambda node: node.set_alarm("memory", True))
        channel.basic_publish("", "anywhere", b"")
        connection.process_data_events(10)


def test_heartbeats_keep_an_idle_connection_open(warren_broker: Broker) -> None:
    with pika.BlockingConnection(parameters(warren_broker, heartbeat=1)) as connection:
        channel = connection.channel()
        # Longer than the two timeouts of silence after which either side gives up.
        connection.process_data_events(3.5)
        assert channel.queue_declare("q").method.queue == "q"


def test_requests_are_answered_through_amq_rabbitmq_reply_to(channel: BlockingChannel) -> None:
    channel.queue_declare("server")
    answers: list[bytes] = []
    channel.basic_consume("amq.rabbitmq.reply-to", lambda _, __, ___, body: answers.append(body), auto_ack=True)
    channel.basic_publish("", "server", b"ping", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    method, properties, body = channel.basic_get("server", auto_ack=True)
    assert method is not None
    channel.basic_publish("", properties.reply_to, body + b" pong")
    channel.connection.process_data_events(10)
    assert answers == [b"ping pong"]


def test_a_stopping_broker_says_so(warren_broker: Broker) -> None:
    connection = pika.BlockingConnection(parameters(warren_broker))
    stopping = threading.Thread(target=warren_broker.stop)
    stopping.start()
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.process_data_events(10)
    stopping.join()
    assert caught.value.reply_code == 320


def test_tls(secured: Secured) -> None:
    options = pika.SSLOptions(ssl.create_default_context(cafile=secured.ca), "127.0.0.1")
    settings = pika.ConnectionParameters("127.0.0.1", secured.broker.tls_port, ssl_options=options)
    with pika.BlockingConnection(settings) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", bytes(1_000_000))
        assert channel.basic_get("q", auto_ack=True)[2] == bytes(1_000_000)


class Service:
    """Publishes with confirms and consumes what it published, all in callbacks, then closes."""

    COUNT = 300

    def __init__(self, broker: Broker) -> None:
        self.confirmed = 0
        self.bodies: list[bytes] = []
        self.reason: object = None
        self.connection = pika.SelectConnection(
            parameters(broker), self._opened, lambda _, error: self._end(error), lambda _, reason: self._end(reason)
        )

    def run(self) -> None:
        self.connection.ioloop.call_later(30, lambda: self._end("too slow"))
        self.connection.ioloop.start()
        self.connection.ioloop.close()

    def _end(self, reason: object) -> None:
        self.reason = reason
        self.connection.ioloop.stop()

    def _opened(self, connection: pika.SelectConnection) -> None:
        connection.channel(on_open_callback=self._declare)

    def _declare(self, channel: pika.channel.Channel) -> None:
        channel.queue_declare("q", callback=lambda _: self._start(channel))

    def _start(self, channel: pika.channel.Channel) -> None:
        channel.confirm_delivery(self._confirm)
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume("q", self._received)
        for number in range(self.COUNT):
            channel.basic_publish("", "q", str(number))

    def _confirm(self, frame: pika.frame.Method) -> None:
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        self.confirmed = max(self.confirmed, frame.method.delivery_tag)
        self._close_when_done()

    def _received(self, channel: pika.channel.Channel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        self.bodies.append(body)
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self.confirmed == self.COUNT == len(self.bodies):
            self.connection.close()


def test_a_service_of_callbacks_confirms_and_consumes_in_order(warren_broker: Broker) -> None:
    service = Service(warren_broker)
    service.run()
    assert "Normal shutdown" in str(service.reason)
    assert service.bodies == [str(number).encode() for number in range(Service.COUNT)]
