"""Limits at the gate: strangers, addresses, descriptors. Brokers here are processes of their own where limits are."""

from __future__ import annotations

import errno
import socket
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pika
import pytest
from tests.cli.serving import Serving
from tests.store.simulated_disk import SimulatedDisk

from warren import Broker
from warren.amqp.constants import PROTOCOL_HEADER
from warren.server.turn.gate import STRANGER_SECONDS
from warren.store.recovery import recover

LIMIT = 200
SILENT = 260


def place_of(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


def connect_silently(opened: ExitStack, place: tuple[str, int], count: int) -> list[socket.socket]:
    return [opened.enter_context(socket.create_connection(place, timeout=30)) for _ in range(count)]


def is_open(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def overview(url: str) -> int:
    request = urllib.request.Request(f"{url}/api/overview")
    request.add_header("authorization", f"Basic {b64encode(b'guest:guest').decode()}")
    with urllib.request.urlopen(request, timeout=30) as response:
        return int(response.status)


@pytest.mark.parametrize("port", ["amqp", "http"])
def test_silent_sockets_take_no_descriptor_from_the_store(tmp_path: Path, port: str) -> None:
    with (
        Serving(tmp_path, "--store-segment-bytes", "65536", files=(LIMIT, LIMIT)) as serving,
        ExitStack() as opened,
    ):
        connection = pika.BlockingConnection(pika.URLParameters(serving.amqp_url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        connect_silently(opened, place_of(getattr(serving, port)), SILENT)
        for _ in range(200):
            # Every second one needs a new file.
            channel.basic_publish("", "q", bytes(40_000), pika.BasicProperties(delivery_mode=2))
        for _ in range(200):
            assert channel.basic_get("q", auto_ack=True)[2] == bytes(40_000)
        connection.close()
        assert serving.process.poll() is None
        assert serving.stop() == 0
    assert "failed" not in serving.errors
    assert "was refused: " in serving.errors


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(http=True, strangers_max=20, strangers_per_address_max=8, http_connection_max=30) as broker:
        yield broker


@pytest.mark.parametrize("port", ["amqp", "http"])
def test_a_stranger_who_has_waited_makes_room_for_the_next(broker: Broker, port: str) -> None:
    place = (broker.host, broker.port) if port == "amqp" else place_of(broker.http_url.removeprefix("http://"))
    with ExitStack() as opened:
        silent = connect_silently(opened, place, 8)
        # From when the broker accepted them, which on a busy machine is later than they connected.
        time.sleep(STRANGER_SECONDS + 2)
        if port == "amqp":
            opened.enter_context(pika.BlockingConnection(pika.URLParameters(broker.url)))
        else:
            assert overview(broker.http_url) == 200
        assert [is_open(each) for each in silent] == [False, *[True] * 7]


def test_who_comes_too_soon_after_too_many_is_refused(broker: Broker) -> None:
    with ExitStack() as opened:
        connect_silently(opened, (broker.host, broker.port), 8)
        ninth = opened.enter_context(socket.create_connection((broker.host, broker.port), timeout=30))
        with suppress(ConnectionResetError):
            assert ninth.recv(1) == b""


def test_who_has_logged_in_is_no_stranger(broker: Broker) -> None:
    with ExitStack() as opened:
        clients = [opened.enter_context(pika.BlockingConnection(pika.URLParameters(broker.url))) for _ in range(12)]
        assert all(client.is_open for client in clients)
        assert broker.call(lambda node: node.open_connections) == 12


def test_open_connections_are_limited_and_told_so_whatever_strangers_there_are() -> None:
    with Broker(connection_max=2) as broker, ExitStack() as opened:
        for peer in connect_silently(opened, (broker.host, broker.port), 5):
            peer.sendall(PROTOCOL_HEADER)
        for _ in range(2):
            opened.enter_context(pika.BlockingConnection(pika.URLParameters(broker.url)))
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"node connection limit \(2\) is reached"):
            pika.BlockingConnection(pika.URLParameters(broker.url))


def test_http_connections_are_limited_also_of_those_who_have_logged_in(broker: Broker) -> None:
    place = place_of(broker.http_url.removeprefix("http://"))
    login = b64encode(b"guest:guest").decode()
    with ExitStack() as opened:
        for _ in range(30):
            [peer] = connect_silently(opened, place, 1)
            peer.sendall(f"GET /api/whoami HTTP/1.1\r\nhost: x\r\nauthorization: Basic {login}\r\n\r\n".encode())
            assert peer.recv(15) == b"HTTP/1.1 200 OK"
        [one_more] = connect_silently(opened, place, 1)
        assert one_more.recv(1) == b""


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with Serving(tmp_path, files=(100, 300)) as serving:
        limits = Path(f"/proc/{serving.process.pid}/limits").read_text()
    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == ["300", "300"]


class CrampedDisk(SimulatedDisk):
    """One that has no descriptor for the next new file, for a while."""

    is_cramped = False

    def create(self, name: str, room: int) -> int:
        if self.is_cramped:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().create(name, room)


def test_a_segment_that_cannot_be_begun_for_want_of_a_descriptor_is_begun_later() -> None:
    disk = CrampedDisk()
    store = recover(disk, 4096)
    before = store.active.number
    disk.is_cramped = True
    store.roll()
    assert store.active.number == before
    assert store.failure is None
    disk.is_cramped = False
    store.roll()
    assert store.active.number == before + 1
