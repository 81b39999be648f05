"""The extensions that ship with Warren, named in the configuration and seen through a foreign client."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.cli.serving import Serving, run_warren
from warren import Broker
from warren.broker.rules.policies import ValidationFailed
from warren.extensions.queue_names import QueueNames

STAMP = "warren.extensions.stamp:Stamp"
COPY_TO = "warren.extensions.copy_to:CopyTo"
UNATTENDED = "warren.extensions.unattended:Unattended"
QUEUE_NAMES = "warren.extensions.queue_names:QueueNames"


class Shouting(QueueNames):
    pattern = "^[A-Z]+$"


@pytest.fixture
def connection() -> Iterator[pika.BlockingConnection]:
    with Broker(interceptors=[STAMP, QUEUE_NAMES], node_name="warren@here") as broker, connect(broker.url) as opened:
        yield opened


def connect(url: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(url))


def pass_through(
    connection: pika.BlockingConnection, properties: pika.BasicProperties, body: bytes
) -> pika.BasicProperties:
    """What becomes of a message on its way through the broker."""
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.basic_publish("", "q", body, properties)
    _, received, came = channel.basic_get("q", auto_ack=True)
    assert came == body
    return received


def test_a_message_is_stamped_with_time_and_broker(connection: pika.BlockingConnection) -> None:
    before = int(time.time())
    received = pass_through(connection, pika.BasicProperties(), b"hello")
    assert before <= received.timestamp <= time.time() + 1
    assert received.headers == {"x-received-by": "warren@here"}


def test_a_stamp_keeps_the_publishers_time_and_headers(connection: pika.BlockingConnection) -> None:
    headers = {"a": 1, "deep": {"b": [1, "two"]}}
    sent = pika.BasicProperties(timestamp=17, headers=headers, content_type="text/plain", delivery_mode=2)
    received = pass_through(connection, sent, b"hello")
    assert (received.timestamp, received.content_type, received.delivery_mode) == (17, "text/plain", 2)
    assert received.headers == {**headers, "x-received-by": "warren@here"}


def test_a_stamp_cannot_be_forged(connection: pika.BlockingConnection) -> None:
    sent = pika.BasicProperties(headers={"x-received-by": "somebody else"})
    assert pass_through(connection, sent, b"").headers == {"x-received-by": "warren@here"}


def test_a_body_of_many_frames_stays_whole(connection: pika.BlockingConnection) -> None:
    pass_through(connection, pika.BasicProperties(), bytes(range(256)) * 2048)


@pytest.mark.parametrize("name", ["q", "orders.new", "tenant-7_jobs"])
def test_names_of_the_convention_are_declared(connection: pika.BlockingConnection, name: str) -> None:
    assert connection.channel().queue_declare(name).method.queue == name


def test_a_name_for_the_broker_to_make_up_is_no_violation(connection: pika.BlockingConnection) -> None:
    assert connection.channel().queue_declare("", exclusive=True).method.queue.startswith("amq.gen-")


@pytest.mark.parametrize("name", ["Orders", "orders..new", "a b", ".q"])
def test_other_names_are_refused_and_cost_the_channel_only(connection: pika.BlockingConnection, name: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare(name)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - queue name '{name}' does not match '^[a-z0-9]+([._-][a-z0-9]+)*$'"
    )
    assert connection.channel().is_open


def test_whoever_only_asks_may_use_any_name(connection: pika.BlockingConnection) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare("Orders", passive=True)
    assert caught.value.reply_code == 404


def test_a_subclass_brings_a_convention_of_its_own() -> None:
    name = f"{Shouting.__module__}:{Shouting.__qualname__}"
    with Broker(interceptors=[name]) as broker, connect(broker.url) as connection:
        connection.channel().queue_declare("ORDERS")
        with pytest.raises(ChannelClosedByBroker, match="does not match"):
            connection.channel().queue_declare("orders")


def test_what_a_policy_names_is_copied_to_another_exchange() -> None:
    with Broker(exchange_decorators=[COPY_TO]) as broker, connect(broker.url) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("audit", "fanout")
        channel.queue_declare("trail")
        channel.queue_bind("trail", "audit")
        channel.exchange_declare("orders", "topic")
        broker.set_policy("trail", "^orders$", {"copy-to": "audit"}, apply_to="exchanges")
        for exchange in ("orders", "amq.topic"):
            channel.basic_publish(exchange, "new", exchange.encode())
        assert channel.basic_get("trail", auto_ack=True)[2] == b"orders"
        assert channel.basic_get("trail") == (None, None, None)


def test_a_copy_goes_where_a_name_is_and_nowhere_else() -> None:
    with Broker(exchange_decorators=[COPY_TO]) as broker:
        with pytest.raises(ValidationFailed, match="5 is not a valid copy-to value"):
            broker.set_policy("trail", "^orders$", {"copy-to": 5}, apply_to="exchanges")
        broker.set_policy("trail", "^amq.topic$", {"copy-to": "nowhere"}, apply_to="exchanges")
        with connect(broker.url) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(UnroutableError):
                channel.basic_publish("amq.topic", "new", b"", mandatory=True)


def test_a_queue_that_nobody_reads_any_more_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Broker(queue_decorators=[UNATTENDED]) as broker, connect(broker.url) as connection:
        channel = connection.channel()
        for name in ("watched", "other"):
            channel.queue_declare(name)
        broker.set_policy("watch", "^watched$", {"warn-unattended": True}, apply_to="queues")
        for name in ("watched", "other"):
            tag = channel.basic_consume(name, lambda *_: None)
            channel.basic_cancel(tag)
        channel.basic_consume("watched", lambda *_: None)
    told = [line for line in caplog.messages if "consume" in line and "queue" in line]
    assert told[:2] == [
        "nobody consumes from queue 'watched' in vhost '/' any more; 0 messages wait",
        "queue 'watched' in vhost '/' is consumed from again",
    ]
    assert not [line for line in told if "'other'" in line]


def test_extensions_are_named_in_the_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "warren.toml").write_text(f'interceptors = ["{STAMP}", "{QUEUE_NAMES}"]\n')
    with Serving(tmp_path) as serving, connect(serving.amqp_url) as connection:
        received = pass_through(connection, pika.BasicProperties(), b"hello")
        assert received.headers == {"x-received-by": "warren@localhost"}
        with pytest.raises(ChannelClosedByBroker, match="does not match"):
            connection.channel().queue_declare("Orders")


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        (f"{STAMP},{STAMP}", "two interceptors want basic.publish: Stamp and Stamp"),
        ("stamp", "'stamp' is not of the form package.module:Class"),
        ("nowhere:Stamp", "cannot load nowhere:Stamp: No module named 'nowhere'"),
        ("pathlib:Path", "pathlib:Path is not a subclass of warren.broker.session.interceptors.Interceptor"),
    ],
)
def test_a_mistake_in_the_configuration_stops_the_start_with_one_line(tmp_path: Path, named: str, reason: str) -> None:
    run = run_warren(
        "serve", "--amqp-port", "0", "--http-port", "-1", "--data-dir", "", "--interceptors", named, cwd=tmp_path
    )
    assert (run.returncode, run.stdout, run.stderr) == (1, "", f"error: interceptors: {reason}\n")
