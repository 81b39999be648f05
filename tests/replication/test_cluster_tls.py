"""TLS everywhere: between nodes, to etcd, and for clients that come to a node that does not lead."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.credentials import ExternalCredentials

from tests.replication.real_nodes import Certificates, Cluster, NodeProcess, needs_etcd, wait_for
from warren.config_loading import load
from warren.errors import WarrenError
from warren.server.origin import ClientOrigin
from warren.server.peers import FOLLOW, VERSION, Greeting
from warren.server.tls import NodeTls, etcd_context_of

pytestmark = [
    needs_etcd,
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.new(tmp_path_factory.mktemp("certificates"))


def for_clients(certificates: Certificates) -> list[str]:
    more = ["--http-tls", "true", "--stream-tls", "true"]
    return ["--tls-verify", "optional", *more, *certificates.options("tls")]


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Cluster]:
    options = [*for_clients(certificates), *certificates.options("cluster")]
    cluster = Cluster.new(tmp_path_factory.mktemp("nodes"), 2, *options, certificates=certificates)
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(two_nodes: Cluster) -> Cluster:
    two_nodes.restore()
    return two_nodes


def connect(port: int, certificates: Certificates, is_anna: bool = False) -> pika.BlockingConnection:
    context = ssl.create_default_context(cafile=certificates.ca)
    if is_anna:
        context.load_cert_chain(certificates.client)
    credentials = ExternalCredentials() if is_anna else pika.PlainCredentials("guest", "guest")

    def attempt() -> pika.BlockingConnection | None:
        try:
            return pika.BlockingConnection(
                pika.ConnectionParameters(
                    "127.0.0.1", port, credentials=credentials, ssl_options=pika.SSLOptions(context, "127.0.0.1")
                )
            )
        except pika.exceptions.AMQPConnectionError:
            return None

    made = wait_for(attempt, 60, "a connection")
    assert isinstance(made, pika.BlockingConnection)
    return made


def api(node: NodeProcess, certificates: Certificates, path: str, body: object = None) -> tuple[str, Any]:
    """By way of whoever it sends us to."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"https://127.0.0.1:{node.http_port}{path}", data)
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    if body is not None:
        request.method = "PUT"
        request.add_header("Content-Type", "application/json")
    context = ssl.create_default_context(cafile=certificates.ca)
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        content = answer.read()
        return str(answer.url), json.loads(content) if content else None


def test_all_that_a_cluster_says_is_encrypted(cluster: Cluster, certificates: Certificates) -> None:
    leader, follower = cluster.leader(), cluster.followers()[0]
    url, _ = api(follower, certificates, "/api/overview")
    assert url == f"https://127.0.0.1:{leader.http_port}/api/overview"
    with connect(follower.tls_port, certificates) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", bytes(300_000), pika.BasicProperties(delivery_mode=2))
        found = wait_for(lambda: api(leader, certificates, "/api/connections")[1], 60, "the connection in the list")
        assert [(each["peer_host"], each["ssl"]) for each in found] == [("127.0.0.1", True)]
    # The name in a certificate is the client's, not that of the node that passes it on.
    api(leader, certificates, "/api/users/anna", {"password": "unused", "tags": ""})
    api(leader, certificates, "/api/permissions/%2F/anna", {"configure": ".*", "write": ".*", "read": ".*"})
    with connect(follower.tls_port, certificates, is_anna=True) as connection:
        found = wait_for(lambda: api(leader, certificates, "/api/connections")[1], 60, "the connection in the list")
        assert [each["user"] for each in found] == ["anna"]
    check_streams(cluster, certificates)
    with pytest.raises(pika.exceptions.AMQPError):
        pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", follower.amqp_port, credentials=ExternalCredentials())
        )
    leader.kill()
    with connect(follower.tls_port, certificates) as connection:
        assert connection.channel().basic_get("q", auto_ack=True)[2] == bytes(300_000)


def check_streams(cluster: Cluster, certificates: Certificates) -> None:
    """Read from a follower over TLS, with a password and with a certificate, and by nobody in the clear."""
    leader, follower = cluster.leader(), cluster.followers()[0]
    with connect(leader.tls_port, certificates) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("history", durable=True, arguments={"x-queue-type": "stream"})
        for number in range(20):
            channel.basic_publish("", "history", b"%d" % number)
    for is_anna in (False, True):
        with connect(follower.stream_port, certificates, is_anna) as connection:
            channel = wait_for(lambda: channel_with(connection, "history"), 60, "the stream")
            channel.basic_qos(prefetch_count=20)
            found = channel.consume("history", arguments={"x-stream-offset": "first"}, inactivity_timeout=60)
            assert [next(found)[2] for _ in range(20)] == [b"%d" % number for number in range(20)]
    with pytest.raises(pika.exceptions.AMQPError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", follower.stream_port))
    nodes = {each["amqp"]: each["streams_tls"] for each in cluster.status()}
    assert nodes[follower.address] is True
    (mirror,) = [each for each in api(leader, certificates, "/api/nodes")[1] if each["role"] == "follower"]
    assert (mirror["streams"], mirror["streams_tls"]) == (f"127.0.0.1:{follower.stream_port}", True)


def channel_with(connection: pika.BlockingConnection, stream: str) -> Any:
    """None as long as the follower has not heard of it, or of the user's right to it."""
    channel = connection.channel()
    try:
        channel.queue_declare(stream, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return None
    return channel


def test_who_shows_no_certificate_of_the_cluster_gets_nothing(
    cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    address = cluster.replication_address()
    greeting = Greeting.new(FOLLOW, "x", VERSION).encode()
    with socket.create_connection(address, timeout=60) as stranger:
        stranger.sendall(greeting)
        assert not heard(stranger).startswith(b"\x16\x03")
    trusting = ssl.create_default_context(cafile=certificates.ca)
    # With none, and with one of another authority.
    foreign = Certificates.new(tmp_path)
    mallory = ssl.create_default_context(cafile=certificates.ca)
    mallory.load_cert_chain(foreign.cert, foreign.key)
    for context in (trusting, mallory):
        with socket.create_connection(address, timeout=60) as plain:
            assert refused(context, plain, greeting)
    # Nodes that speak no TLS, or are of another authority, do not join, and say why.
    for name, options, reason in (
        ("plain", [], "the leader speaks TLS and this node does not: all nodes need cluster_cert, or none"),
        ("foreign", foreign.options("cluster"), "CERTIFICATE_VERIFY_FAILED"),
    ):
        node = NodeProcess(cluster.etcd, tmp_path / name, *options).start()
        try:
            wait_for(lambda: reason in node.errors.read_text(), 60, reason)  # noqa: B023
            assert "Traceback" not in node.errors.read_text()
        finally:
            node.kill()
    assert sum(node["in_sync"] for node in cluster.status()) == 2
    renew(cluster, certificates)


def renew(cluster: Cluster, certificates: Certificates) -> None:
    """New files in the same places are shown after a SIGHUP, by leader and follower, to clients and between nodes."""
    renewed = certificates.authority.issue_cert("127.0.0.1")
    renewed.cert_chain_pems[0].write_to_path(certificates.cert)
    renewed.private_key_pem.write_to_path(certificates.key)
    leader, follower = cluster.leader(), cluster.followers()[0]
    for node in (leader, follower):
        node.signal(signal.SIGHUP)
        wait_for(lambda: "the configuration is reloaded" in node.errors.read_text(), 60, "a reload")  # noqa: B023
        assert "needs a restart" not in node.errors.read_text()
    context = ssl.create_default_context(cafile=certificates.ca)
    context.load_cert_chain(certificates.cert, certificates.key)
    ports = (leader.tls_port, follower.tls_port, leader.http_port, follower.http_port, follower.stream_port)
    for address in (*(("127.0.0.1", port) for port in ports), cluster.replication_address()):
        with (
            socket.create_connection(address, timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
        ):
            shown = encrypted.getpeercert(binary_form=True)
            assert shown == ssl.PEM_cert_to_DER_cert(renewed.cert_chain_pems[0].bytes().decode())


def refused(context: ssl.SSLContext, plain: socket.socket, said: bytes) -> bool:
    """With TLS 1.3 the answerer's refusal comes after the caller's handshake."""
    try:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as stranger:
            stranger.sendall(said)
            return stranger.recv(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_a_node_looks_whether_a_certificate_is_for_the_host_that_it_called(certificates: Certificates) -> None:
    nodes = {"cluster_ca": certificates.ca, "cluster_cert": certificates.cert, "cluster_key": certificates.key}
    assert NodeTls(load(None, {}, dict(nodes))).calling.check_hostname


def heard(connection: socket.socket) -> bytes:
    found = b""
    try:
        while data := connection.recv(4096):
            found += data
    except ConnectionError:
        pass
    return found


def test_where_a_client_came_from_is_told_and_understood_in_any_pieces() -> None:
    for origin in (
        ClientOrigin("::1", 5),
        ClientOrigin("10.0.0.1", 65535, True),
        ClientOrigin("h", 1, True, "ä" * 200),
    ):
        wire = origin.encode()
        for cut in range(len(wire)):
            assert ClientOrigin.decode(wire[:cut], origin.is_encrypted) is None
        assert ClientOrigin.decode(wire + b"AMQP", origin.is_encrypted) == (origin, b"AMQP")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"cluster_cert": "x"}, "cluster_cert needs cluster_ca"),
        ({"cluster_ca": "x"}, "cluster_ca and cluster_key need cluster_cert"),
        ({"etcd_key": "x"}, "etcd_key needs etcd_cert"),
        ({"stream_tls": True}, "stream_tls needs tls_cert"),
        ({"etcd_ca": "x", "etcd": "http://127.0.0.1:1"}, "need an address in etcd that begins with https://"),
    ],
)
def test_options_that_do_not_go_together_are_refused(flags: dict[str, object], said: str) -> None:
    with pytest.raises(WarrenError, match=said):
        load(None, {}, flags)


def test_files_that_cannot_be_read_are_named(certificates: Certificates, tmp_path: Path) -> None:
    nodes = {"cluster_ca": certificates.ca, "cluster_cert": certificates.cert, "cluster_key": certificates.key}
    etcd = {"etcd": "https://127.0.0.1:1", "etcd_ca": certificates.ca, "etcd_cert": certificates.client}
    missing = str(tmp_path / "missing.pem")
    for name in ("cluster_ca", "cluster_cert"):
        with pytest.raises(WarrenError, match=f"cannot load {name} {missing}"):
            NodeTls(load(None, {}, {**nodes, name: missing}))
    for name in ("etcd_ca", "etcd_cert"):
        with pytest.raises(WarrenError, match=f"cannot load {name} {missing}"):
            etcd_context_of(load(None, {}, {**etcd, name: missing}))
