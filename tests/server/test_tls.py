"""TLS: who gets in, with which version, and under whose name."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pika
import pytest
import trustme
from pika.credentials import ExternalCredentials
from pika.exceptions import AMQPConnectionError, ProbableAuthenticationError

from warren import Broker
from warren.errors import WarrenError


@dataclass
class Files:
    ca: str
    cert: str
    key: str
    client: str


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("tls")
    server = authority.issue_cert("127.0.0.1")
    client = authority.issue_cert("alice@example.org", common_name="alice")
    files = Files(*(str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem", "client.pem")))
    authority.cert_pem.write_to_path(files.ca)
    server.cert_chain_pems[0].write_to_path(files.cert)
    server.private_key_pem.write_to_path(files.key)
    client.private_key_and_cert_chain_pem.write_to_path(files.client)
    return files


@pytest.fixture
def secured(files: Files) -> Iterator[Broker]:
    with Broker(tls_port=0, tls_cert=files.cert, tls_key=files.key, tls_ca=files.ca, tls_verify="optional") as broker:
        yield broker


def context_of(files: Files, shows_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    if shows_certificate:
        context.load_cert_chain(files.client)
    return context


def connect(broker: Broker, context: ssl.SSLContext, credentials: object = None) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            host=broker.host,
            port=broker.tls_port,
            ssl_options=pika.SSLOptions(context, broker.host),
            credentials=credentials or pika.PlainCredentials("guest", "guest"),
        )
    )


def test_messages_pass_through_tls(secured: Broker, files: Files) -> None:
    with connect(secured, context_of(files)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.basic_publish("", "q", bytes(300_000))
        assert channel.basic_get("q", auto_ack=True)[2] == bytes(300_000)


def test_the_name_in_a_certificate_is_a_login(secured: Broker, files: Files) -> None:
    secured.add_user("alice", "unused")
    secured.set_permission("alice")
    with connect(secured, context_of(files, shows_certificate=True), ExternalCredentials()):
        users = secured.call(lambda node: [connection.user for connection in node.connections.values()])
        assert users == ["alice"]


def test_a_name_that_is_no_user_is_refused(secured: Broker, files: Files) -> None:
    with pytest.raises(ProbableAuthenticationError, match="EXTERNAL"):
        connect(secured, context_of(files, shows_certificate=True), ExternalCredentials())


def test_without_a_certificate_there_is_no_external_login(secured: Broker, files: Files) -> None:
    with pytest.raises(AMQPConnectionError):
        connect(secured, context_of(files), ExternalCredentials())


def test_a_certificate_of_a_stranger_is_refused(secured: Broker, files: Files, tmp_path: Path) -> None:
    stranger = trustme.CA().issue_cert("mallory@example.org", common_name="alice")
    stranger.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "stranger.pem"))
    context = context_of(files)
    context.load_cert_chain(tmp_path / "stranger.pem")
    with pytest.raises(AMQPConnectionError):
        connect(secured, context, ExternalCredentials())


def test_required_certificates_are_required(files: Files) -> None:
    with (
        Broker(tls_port=0, tls_cert=files.cert, tls_key=files.key, tls_ca=files.ca, tls_verify="required") as broker,
        pytest.raises(AMQPConnectionError),
    ):
        connect(broker, context_of(files))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_tls_1_1_is_refused(secured: Broker, files: Files) -> None:
    context = context_of(files)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((AMQPConnectionError, ssl.SSLError)):
        connect(secured, context)


def test_a_taken_tls_port_leaves_no_other_port_open(secured: Broker, files: Files) -> None:
    with pytest.raises(WarrenError, match="the port is in use"):
        Broker(tls_port=secured.tls_port, tls_cert=files.cert, tls_key=files.key).start()


def test_a_plain_client_on_the_tls_port_is_let_go(secured: Broker) -> None:
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters(host=secured.host, port=secured.tls_port))


def test_a_key_that_does_not_fit_is_told(files: Files) -> None:
    with pytest.raises(WarrenError, match="cannot load tls_cert"):
        Broker(tls_port=0, tls_cert=files.cert, tls_key=files.ca).start()


def test_an_authority_that_is_not_there_is_told(files: Files) -> None:
    with pytest.raises(WarrenError, match="cannot load tls_ca"):
        Broker(tls_port=0, tls_cert=files.cert, tls_key=files.key, tls_ca="no.pem").start()
