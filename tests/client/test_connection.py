"""The blocking client: addresses, TLS, heartbeats, and what it says when a broker is gone or refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from warren import Broker
from warren.amqp.fields import Field
from warren.amqp.methods import QueueDeclare, QueueDeclareOk
from warren.client.address import BrokerAddress, parse_uri
from warren.client.connection import Client, ConnectionLost
from warren.client.duplex import Duplex
from warren.client.session import Refused
from warren.errors import WarrenError


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[Broker, str]]:
    authority = trustme.CA()
    ca, chain = tmp_path / "ca.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(str(ca))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(chain))
    with Broker(tls_port=0, tls_cert=str(chain)) as broker:
        yield broker, str(ca)


def test_an_address_has_its_parts_and_defaults() -> None:
    assert parse_uri("amqp://h") == BrokerAddress("h", 5672, "guest", "guest", "/")
    target = parse_uri("amqps://u%40x:p%2F@h:99/v%2F1?heartbeat=5&connection_timeout=1500&verify=verify_none")
    assert (target.user, target.password, target.vhost, target.port) == ("u@x", "p/", "v/1", 99)
    assert (target.is_tls, target.is_verified, target.heartbeat, target.connect_timeout) == (True, False, 5, 1.5)


@pytest.mark.parametrize(
    "uri",
    [
        "amqp:h",
        "amqp://h:x",
        "amqp://h?colour=red",
        "amqp://h?heartbeat=soon",
        "amqp://h?verify=verify_none",
        "amqps://h?verify=maybe",
    ],
)
def test_what_is_no_address_is_refused(uri: str) -> None:
    with pytest.raises(WarrenError):
        parse_uri(uri)


def test_tls_with_a_trusted_broker(secured: tuple[Broker, str]) -> None:
    broker, ca = secured
    uri = f"amqps://127.0.0.1:{broker.tls_port}?cacertfile={ca}"
    with Client(parse_uri(uri), heartbeat=1) as client:
        duplex = Duplex(client)
        assert not duplex.read(0.01)
        duplex.restore()
        assert client.call(QueueDeclare(queue="q"), QueueDeclareOk).queue == "q"


def test_a_broker_that_nobody_vouches_for_is_refused(secured: tuple[Broker, str]) -> None:
    broker, _ = secured
    with pytest.raises(WarrenError, match=f"no TLS with 127.0.0.1:{broker.tls_port}"):
        Client(parse_uri(f"amqps://127.0.0.1:{broker.tls_port}"))


def test_certificates_that_are_not_there_are_told(secured: tuple[Broker, str]) -> None:
    broker, ca = secured
    with pytest.raises(WarrenError, match="cannot load cacertfile /no-such"):
        Client(parse_uri(f"amqps://127.0.0.1:{broker.tls_port}?cacertfile=/no-such"))
    with pytest.raises(WarrenError, match="cannot load certfile /no-such"):
        Client(parse_uri(f"amqps://127.0.0.1:{broker.tls_port}?cacertfile={ca}&certfile=/no-such"))


def test_heartbeats_keep_a_silent_connection(warren_broker: Broker) -> None:
    with Client(parse_uri(warren_broker.url), heartbeat=1) as client:
        # Three times as long as a broker waits for a sign of life.
        time.sleep(3.2)
        client.call(QueueDeclare(queue="q"), QueueDeclareOk)


def test_a_refusal_tells_code_and_text(warren_broker: Broker) -> None:
    with pytest.raises(Refused) as refused, Client(parse_uri(warren_broker.url)) as client:
        client.call(QueueDeclare(queue="no", passive=True), QueueDeclareOk)
    assert refused.value.code == 404
    assert "no queue 'no'" in refused.value.text


def test_silence_is_told_after_the_timeout(warren_broker: Broker) -> None:
    with pytest.raises(ConnectionLost, match=r"has sent nothing for 0\.2 s"):  # noqa: SIM117
        with Client(parse_uri(warren_broker.url), timeout=0.2) as client:
            client.receive()


def test_what_the_broker_says_of_itself_is_kept(warren_broker: Broker) -> None:
    with Client(parse_uri(warren_broker.url)) as client:
        assert isinstance(client.server_properties["warren_version"], Field)


def test_a_connection_that_was_abandoned_can_be_left(warren_broker: Broker) -> None:
    client = Client(parse_uri(warren_broker.url))
    client.abandon()
    client.leave()
