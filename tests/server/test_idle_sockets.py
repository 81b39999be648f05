"""Sockets that never log in: all are dropped within the handshake timeout, and nobody else notices."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pika
import pytest

from warren import Broker
from warren.amqp.constants import PROTOCOL_HEADER

SOCKETS = 1000
TIMEOUT_MS = 5_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(handshake_timeout_ms=TIMEOUT_MS) as broker:
        yield broker


def is_dropped(peer: socket.socket) -> bool:
    """Reads to the end; a peer that is not dropped runs into its timeout."""
    try:
        while peer.recv(4096):
            pass
    except ConnectionResetError:
        # Refused at the gate, before what it had said was read.
        pass
    return True


def test_a_thousand_sockets_that_never_log_in_are_dropped(broker: Broker) -> None:
    with ExitStack() as opened:
        client = opened.enter_context(pika.BlockingConnection(pika.URLParameters(broker.url)))
        channel = client.channel()
        channel.queue_declare("q")
        peers = []
        for number in range(SOCKETS):
            peer = opened.enter_context(socket.create_connection((broker.host, broker.port), timeout=30))
            # Some say nothing, some greet, some begin a frame and never end it.
            with suppress(ConnectionError):
                peer.sendall((b"", PROTOCOL_HEADER, PROTOCOL_HEADER + b"\x01\x00\x00\x00\x00\x01\x00")[number % 3])
            peers.append(peer)
        channel.basic_publish("", "q", b"meanwhile")
        assert channel.basic_get("q", auto_ack=True)[2] == b"meanwhile"
        assert broker.call(lambda node: len(node.connections)) > SOCKETS // 10
        assert all(is_dropped(peer) for peer in peers)
        assert broker.call(lambda node: len(node.connections)) == 1
        channel.basic_publish("", "q", b"afterwards")
        assert channel.basic_get("q", auto_ack=True)[2] == b"afterwards"
