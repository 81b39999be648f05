"""The broker inside a test: what `from warren import Broker` and the fixture promise."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError

from warren import Broker
from warren.errors import WarrenError


def connect(url: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(url))


def test_a_message_goes_in_and_comes_out() -> None:
    with Broker() as broker, connect(broker.url) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"hello")
        method, _, body = channel.basic_get("q", auto_ack=True)
        assert (method.routing_key, body) == ("q", b"hello")


def test_the_fixture_is_a_running_broker(warren_broker: Broker) -> None:
    with connect(warren_broker.url) as connection:
        assert connection.is_open


def test_what_clients_hold_when_it_stops_is_not_counted_against_the_message(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)) as broker:
        for life in range(4):
            connection = connect(broker.url)
            channel = connection.channel()
            channel.confirm_delivery()
            arguments = {"x-queue-type": "quorum", "x-delivery-limit": 1}
            channel.queue_declare("q", durable=True, arguments=arguments)
            if life == 0:
                channel.basic_publish("", "q", b"takes long", pika.BasicProperties(delivery_mode=2))
            method, properties, _ = channel.basic_get("q")
            assert method is not None and properties is not None
            assert (method.redelivered, properties.headers) == (life > 0, None)
            broker.restart()
            with pytest.raises(pika.exceptions.AMQPError):
                channel.queue_declare("q", passive=True)


def test_it_starts_and_stops_in_milliseconds() -> None:
    with Broker():
        pass  # modules are loaded
    began = time.perf_counter()
    with Broker() as broker:
        socket.create_connection((broker.host, broker.port)).close()
    # Some twenty in fact; the machine may be busy.
    assert time.perf_counter() - began < 1.0


def test_two_brokers_know_nothing_of_each_other() -> None:
    with Broker() as one, Broker() as other, connect(one.url) as connection:
        connection.channel().queue_declare("q")
        assert one.port != other.port
        assert one.call(lambda node: list(node.vhosts["/"].queues)) == ["q"]
        assert other.call(lambda node: list(node.vhosts["/"].queues)) == []


def test_stopping_tells_the_clients() -> None:
    with Broker() as broker:
        connection = connect(broker.url)
        broker.stop()
        with pytest.raises(ConnectionClosedByBroker) as caught:
            connection.process_data_events(10)
    assert caught.value.reply_code == 320
    assert caught.value.reply_text == ("CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")


def test_after_stopping_the_port_is_free() -> None:
    with Broker() as broker:
        port = broker.port
    with Broker(port=port) as broker:
        assert broker.port == port


def test_stopping_twice_is_no_mistake() -> None:
    broker = Broker().start()
    broker.stop()
    broker.stop()


def test_a_taken_port_is_told_and_leaves_no_thread() -> None:
    with Broker() as broker, pytest.raises(WarrenError, match=f":{broker.port}: the port is in use"):
        Broker(port=broker.port).start()


def test_options_are_those_of_the_configuration() -> None:
    with pytest.raises(WarrenError, match=r"^colour: there is no such option"):
        Broker(colour="red")
    with Broker(heartbeat=7) as broker, connect(broker.url + "?heartbeat=30") as connection:
        # pika proposes its own; the broker's proposal is in the core's settings.
        assert broker.call(lambda node: node.settings.heartbeat) == 7
        assert connection.is_open


def test_an_error_in_a_call_is_the_callers() -> None:
    with Broker() as broker, pytest.raises(ZeroDivisionError):
        broker.call(lambda node: 1 // 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"port": "many"}, "port must be a whole number, not 'many'"),
        ({"port": 70_000}, "port must be at most 65535, not 70000"),
        ({"max_message_size": "big"}, "max_message_size must be a whole number, not 'big'"),
        ({"hartbeat": 5}, "hartbeat: there is no such option (see docs/configuration.md); did you mean heartbeat?"),
    ],
)
def test_a_keyword_that_is_wrong_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(WarrenError) as caught:
        Broker(**options)
    assert str(caught.value) == said


def test_a_broker_has_no_port_before_its_first_start() -> None:
    broker = Broker()
    with pytest.raises(WarrenError, match="not running"):
        _ = broker.port


def test_where_it_was_is_known_after_it_has_stopped() -> None:
    with Broker(http=True) as broker:
        port, url, http_url = broker.port, broker.url, broker.http_url
    assert (broker.port, broker.url, broker.http_url) == (port, url, http_url)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker.url)
    with pytest.raises(WarrenError, match="is not running"):
        broker.advance(1)


def test_what_was_not_asked_for_has_no_address() -> None:
    with Broker() as broker:
        with pytest.raises(WarrenError, match="no HTTP without http=True"):
            _ = broker.http_url
        with pytest.raises(WarrenError, match="no TLS without tls_cert"):
            _ = broker.tls_port


def test_a_restart_keeps_ports_and_what_is_durable(tmp_path: Path) -> None:
    # Other tests of this process may keep a broker of theirs.
    before = threads_of_brokers()
    with Broker(http=True, data_dir=str(tmp_path)) as broker:
        where = (broker.port, broker.http_url)
        connection = connect(broker.url)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("gone")
        channel.basic_publish("", "kept", b"one tea", pika.BasicProperties(delivery_mode=2))
        assert broker.restart() is broker
        with pytest.raises(ConnectionClosedByBroker, match="320"):
            connection.process_data_events(10)
        assert (broker.port, broker.http_url) == where
        with urlopen(f"{broker.http_url}/api/openapi.json") as answer:
            assert answer.status == 200
        with connect(broker.url) as again:
            assert again.channel().basic_get("kept")[2] == b"one tea"
            assert broker.call(lambda node: list(node.vhosts["/"].queues)) == ["kept"]
    assert threads_of_brokers() == before


def test_a_restart_goes_on_in_the_time_that_was_moved_to(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path), heartbeat=0) as broker:
        broker.advance(3600)
        before = broker.call(lambda node: node.now)
        broker.restart()
        assert broker.call(lambda node: node.now) >= before


def test_an_outage_is_a_stop_and_a_start() -> None:
    with Broker() as broker:
        port = broker.port
        broker.stop()
        with pytest.raises(WarrenError, match="is not running"):
            broker.restart()
        broker.start()
        assert broker.port == port
        with pytest.raises(WarrenError, match="was started before"):
            broker.start()
        connect(broker.url).close()


def test_it_says_what_it_is(tmp_path: Path) -> None:
    broker = Broker(http=True, data_dir=str(tmp_path))
    assert repr(broker) == "<Broker, not started>"
    with broker:
        http = broker.http_url.rpartition(":")[2]
        assert repr(broker) == f"<Broker running: 127.0.0.1:{broker.port}, http {http}, data in {tmp_path}>"
    assert repr(broker).startswith("<Broker stopped: 127.0.0.1:")
    with Broker() as broker:
        assert repr(broker) == f"<Broker running: 127.0.0.1:{broker.port}, nothing on disk>"


def threads_of_brokers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "warren"]


def test_time_can_be_moved_forward() -> None:
    with Broker(heartbeat=0) as broker, connect(broker.url) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("late")
        channel.queue_declare(
            "q",
            arguments={"x-message-ttl": 3_600_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"},
        )
        channel.basic_publish("", "q", b"hello")
        broker.advance(3599)
        assert channel.queue_declare("late").method.message_count == 0
        broker.advance(1)
        assert channel.basic_get("late", auto_ack=True)[2] == b"hello"


def test_time_goes_on_from_where_it_was_moved_to() -> None:
    received: list[bytes] = []
    with Broker(heartbeat=0) as broker, connect(broker.url) as connection:
        channel = connection.channel()
        channel.queue_declare("late")
        arguments = {"x-message-ttl": 600_100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
        channel.queue_declare("q", arguments=arguments)
        channel.basic_publish("", "q", b"hello")
        channel.basic_consume("late", lambda *delivery: received.append(delivery[3]), auto_ack=True)
        broker.advance(600)
        # Nothing is sent from here on that could wake the broker: its own timer must.
        connection.process_data_events(10)
    assert received == [b"hello"]


def test_time_cannot_be_moved_back() -> None:
    with Broker() as broker, pytest.raises(WarrenError, match="backwards"):
        broker.advance(-1)


def test_users_vhosts_and_permissions_can_be_set() -> None:
    with Broker() as broker:
        broker.add_vhost("other")
        broker.add_user("alice", "secret")
        with pytest.raises(ProbableAccessDeniedError):
            connect(broker.url_of("alice", "secret", "other"))
        broker.set_permission("alice", "other", configure="^mine")
        with connect(broker.url_of("alice", "secret", "other")) as connection:
            connection.channel().queue_declare("mine")
        with pytest.raises(ProbableAuthenticationError):
            connect(broker.url_of("alice", "wrong", "other"))


def test_policies_can_be_set() -> None:
    with Broker() as broker, connect(broker.url) as connection:
        broker.set_policy("short", "^q$", {"max-length": 1})
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        for body in (b"first", b"second"):
            channel.basic_publish("", "q", body)
        assert channel.basic_get("q", auto_ack=True)[2] == b"second"


def test_topic_permissions_can_be_set() -> None:
    with Broker() as broker:
        broker.set_topic_permission("guest", "amq.topic", write="^a")
        with connect(broker.url) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("amq.topic", "a.b", b"")
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="403"):
                channel.basic_publish("amq.topic", "b.a", b"")
