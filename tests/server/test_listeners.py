"""Ports: on every address of a host, all the same, and a clear word when that cannot be."""

from __future__ import annotations

import socket

import pytest

from warren import Broker
from warren.errors import WarrenError
from warren.server.listeners import bind


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def greet(host: str, port: int) -> bytes:
    with socket.create_connection((host, port), timeout=10) as peer:
        peer.sendall(b"AMQP\x00\x00\x09\x01")
        return peer.recv(1)


@needs_ipv6
def test_an_ipv6_address_is_listened_on() -> None:
    with Broker(host="::1") as broker:
        assert greet("::1", broker.port) == b"\x01"


@needs_ipv6
def test_all_addresses_are_those_of_both_families() -> None:
    with Broker(host="::") as broker:
        assert greet("::1", broker.port) == greet("127.0.0.1", broker.port) == b"\x01"


def test_a_name_is_listened_on_at_all_its_addresses() -> None:
    sockets = bind("localhost", 0)
    ports = {each.getsockname()[1] for each in sockets}
    for each in sockets:
        each.close()
    assert len(ports) == 1


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(WarrenError, match=r"cannot listen on no\.such\.host\.invalid:1: "):
        bind("no.such.host.invalid", 1)


def test_a_taken_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(WarrenError, match=f"cannot listen on 127.0.0.1:{port}: the port is in use"):
            bind("127.0.0.1", port)
