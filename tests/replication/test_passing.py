"""The ports of a follower have the limits of the leader's: who is silent there keeps nobody out who logs in."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.replication.real_nodes import Cluster, NodeProcess, connect, needs_etcd, wait_for
from tests.server.test_gate import connect_silently, is_open
from warren.amqp.constants import PROTOCOL_HEADER
from warren.server.passing import LoginWatch

PATIENCE = 60
pytestmark = pytest.mark.timeout(180)
LIMITS = ("--strangers-per-address-max", "4", "--http-connection-max", "6")


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    cluster = Cluster.new(tmp_path_factory.mktemp("nodes"), 2, *LIMITS)
    try:
        cluster.wait_in_sync(2)
        yield cluster.followers()[0]
    finally:
        cluster.stop()


def place_of(node: NodeProcess, port: str) -> tuple[str, int]:
    return node.machine.host, node.amqp_port if port == "amqp" else node.http_port


def is_answered(place: tuple[str, int], asked: bytes) -> bool:
    with socket.create_connection(place, timeout=10) as peer:
        peer.sendall(asked)
        try:
            return peer.recv(1) != b""
        except ConnectionResetError:
            return False


@needs_etcd
def test_a_follower_lets_those_go_who_have_waited_when_others_come(follower: NodeProcess) -> None:
    for port, asked in (("amqp", PROTOCOL_HEADER), ("http", b"GET / HTTP/1.1\r\n\r\n")):
        place = place_of(follower, port)
        with ExitStack() as opened:
            silent = connect_silently(opened, place, 4)
            # A fifth has to wait until the first has had the time that a login may take.
            wait_for(lambda place=place, asked=asked: is_answered(place, asked), PATIENCE, "an answer")
            assert not is_open(silent[0])
    assert "have not logged in" in follower.errors.read_text()


@needs_etcd
def test_a_follower_does_not_take_its_clients_for_strangers(follower: NodeProcess) -> None:
    with ExitStack() as opened:
        clients = [opened.enter_context(closing(connect([follower.amqp_port]))) for _ in range(8)]
        connect_silently(opened, place_of(follower, "amqp"), 4)
        for client in clients:
            client.channel().queue_declare("q")


def test_a_login_is_noticed_however_the_bytes_come() -> None:
    # A method that has the number of another in its arguments.
    start = b"\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x0a\x00\x0a\x00\x29\x00\x0a\x00\x29\xce"
    open_ok = b"\x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x29\x00\xce"
    for cut in range(len(start + open_ok)):
        times: list[str] = []
        login = LoginWatch(lambda noted=times: noted.append("in"))  # type: ignore[misc]
        login.hear((start + open_ok)[:cut])
        assert times == []
        login.hear((start + open_ok)[cut:])
        login.hear(open_ok)
        assert times == ["in"]
