"""Sockets: what happens when bytes come in odd pieces, too slowly, or not at all, and when the core fails."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, cast

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker
from tests.broker.harness import publish_frames
from tests.faults.stalls import Client

from warren import Broker
from warren.amqp import methods
from warren.amqp.constants import PROTOCOL_HEADER
from warren.amqp.methods import Method
from warren.broker.node import Node
from warren.broker.queue.fifo import FifoQueue
from warren.broker.session.channel import Channel
from warren.broker.session.interceptors import Interceptor
from warren.config import Config
from warren.core import IS_COMPILED
from warren.server.turn.clock import Clock
from warren.server.turn.gate import Gate, address_of
from warren.server.turn.transport import ALONE_MS, FAREWELL, WRITE_HIGH_WATER, AmqpTransport, Roster, Turns

# What both loops read at once.
READ_MAX = 256 * 1024


@contextmanager
def raw(broker: Broker) -> Iterator[socket.socket]:
    with socket.create_connection((broker.host, broker.port), timeout=10) as opened:
        yield opened


def connect(broker: Broker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def read_to_the_end(peer: socket.socket) -> bytes:
    parts = []
    while part := peer.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_a_greeting_that_comes_byte_by_byte_is_understood(warren_broker: Broker) -> None:
    with raw(warren_broker) as peer:
        for at in range(len(PROTOCOL_HEADER)):
            peer.sendall(PROTOCOL_HEADER[at : at + 1])
        assert peer.recv(3) == b"\x01\x00\x00"


def test_whoever_speaks_something_else_is_told_the_version_and_let_go(warren_broker: Broker) -> None:
    with raw(warren_broker) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert read_to_the_end(peer) == PROTOCOL_HEADER


def test_a_peer_that_goes_at_once_leaves_nothing(warren_broker: Broker) -> None:
    for _ in range(10):
        with raw(warren_broker):
            pass
    # Another connection makes the loop turn until the others have been noticed.
    with connect(warren_broker):
        wait_for_connections(warren_broker, 1)


class Reads:
    """How much is read of the only connection between two looks of the loop at everybody else."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._last = 0
        self.most = 0
        broker.call(self._look)

    def _look(self, node: Node) -> None:
        for connection in node.connections.values():
            self.most = max(self.most, connection.received_bytes - self._last)
            self._last = connection.received_bytes
        self._broker._loop.call_soon(self._look, node)


def test_one_who_floods_while_nobody_else_speaks_is_read_a_turn_at_a_time(warren_broker: Broker) -> None:
    client = Client(warren_broker)
    warren_broker.advance(int(ALONE_MS))
    reads = Reads(warren_broker)
    client.socket.sendall(publish_frames(1, b"x" * 100, "nowhere") * 100_000)
    client.call(methods.QueueDeclare(queue="over"))
    client.close()
    assert reads.most <= READ_MAX


def test_a_handshake_that_does_not_come_is_not_waited_for() -> None:
    with Broker(handshake_timeout_ms=50) as broker, raw(broker) as peer:
        assert read_to_the_end(peer) == b""


def test_who_still_sends_while_we_close_can_read_our_last_word(warren_broker: Broker) -> None:
    with raw(warren_broker) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n")
        peer.recv(1, socket.MSG_PEEK)
        wait_for_connections(warren_broker, 0)
        for _ in range(100):
            peer.sendall(bytes(10_000))
        assert read_to_the_end(peer) == PROTOCOL_HEADER


def test_a_consumer_that_does_not_read_does_not_fill_the_memory(warren_broker: Broker) -> None:
    count = 400
    with connect(warren_broker) as publisher, connect(warren_broker) as slow:
        consumer, received = slow.channel(), []
        consumer.queue_declare("q")
        consumer.basic_consume("q", lambda channel, method, properties, body: received.append(body), auto_ack=True)
        out = publisher.channel()
        out.confirm_delivery()
        for _ in range(count):
            out.basic_publish("", "q", bytes(100_000))
        # What no socket buffer takes waits in the queue, not in the connection.
        assert warren_broker.call(ready) > 100
        assert warren_broker.call(most_pending) < 4 * WRITE_HIGH_WATER
        while len(received) < count:
            slow.process_data_events(10)


def ready(node: Node) -> int:
    return int(node.vhosts["/"].queues["q"].backing.length)


def most_pending(node: Node) -> int:
    return max(int(connection.pending_output) for connection in node.connections.values())


class Broken(Interceptor):
    """A plug-in with a bug."""

    def applies_to(self) -> list[str]:
        return ["queue.declare"]

    def intercept(self, channel: Channel, method: Method) -> Method:
        raise ZeroDivisionError("a bug")


def test_a_bug_costs_one_connection_and_is_logged_once(warren_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    warren_broker.call(lambda node: node.install_interceptor(Broken()))
    with connect(warren_broker) as healthy:
        unlucky = connect(warren_broker)
        with pytest.raises(ConnectionClosedByBroker) as caught:
            unlucky.channel().queue_declare("q")
        assert (caught.value.reply_code, "bug" in caught.value.reply_text) == (541, False)
        healthy.channel().exchange_declare("still here")
    assert caplog.text.count("ZeroDivisionError: a bug") == 1


class BrokenCore:
    """Stands for a core that fails where nothing in it catches."""

    client_properties: ClassVar[dict[str, object]] = {}

    def tick(self, now: int) -> None:
        pass

    def connect(self, *_: object) -> BrokenCore:
        return self

    def feed(self, data: bytes) -> None:
        raise ZeroDivisionError("a worse bug")

    def lost(self) -> None:
        raise ZeroDivisionError("and another")


class NoTurns(Turns):
    def hold(self) -> None:
        pass

    def let_go(self, at_once: bool) -> None:
        pass

    def after_turn(self, leaving: AmqpTransport) -> None:
        pass


class Outgoing(asyncio.Transport):
    """What a socket's transport was told."""

    def __init__(self) -> None:
        super().__init__({"socket": socket.socket(), "peername": ("::1", 1, 0, 0), "sockname": ("::1", 2, 0, 0)})
        self.written = b""
        self.is_closed = asyncio.Event()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_closed.is_set()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed.set()
        self.get_extra_info("socket").close()


@pytest.mark.skipif(IS_COMPILED, reason="a compiled server takes no other core")
def test_nothing_that_the_core_raises_reaches_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> Outgoing:
        core = cast(Node, BrokenCore())
        loop = asyncio.get_running_loop()
        transport = AmqpTransport(core, Clock(), loop, Roster(loop), NoTurns(), Gate(Config(), 0), None)
        outgoing = Outgoing()
        transport.connection_made(outgoing)
        transport.data_received(b"anything")
        await asyncio.wait_for(outgoing.is_closed.wait(), 10)
        transport.connection_lost(None)
        return outgoing

    outgoing = asyncio.run(play())
    assert outgoing.written == FAREWELL
    assert caplog.text.count("ZeroDivisionError: a worse bug") == 1


@pytest.mark.parametrize(
    ("name", "address"),
    [
        (("127.0.0.1", 5), ("127.0.0.1", 5)),
        (("::1", 5, 0, 0), ("::1", 5)),
        (("::ffff:10.0.0.1", 5, 0, 0), ("10.0.0.1", 5)),
        (("fe80::1%eth0", 5, 0, 2), ("fe80::1", 5)),
        ("", ("unknown", 0)),
        (None, ("unknown", 0)),
    ],
)
def test_a_peer_is_known_by_its_real_address(name: object, address: tuple[str, int]) -> None:
    assert address_of(name) == address


def wait_for_connections(broker: Broker, count: int) -> None:
    for _ in range(1000):
        if broker.call(lambda node: len(node.connections)) == count:
            return
    raise AssertionError(f"not {count} connections")


def test_a_connection_that_is_closed_leaves_no_object_of_the_server(warren_broker: Broker) -> None:
    """Nothing but counting references may be needed: the collector looks at what is old once in a lifetime."""

    def transports() -> int:
        return sum(type(each) is AmqpTransport for each in gc.get_objects())

    connect(warren_broker).close()
    wait_for_connections(warren_broker, 0)
    gc.collect()
    # Of brokers that other tests share, and that run on.
    before = transports()
    gc.disable()
    try:
        for _ in range(20):
            connect(warren_broker).close()
        deadline = time.monotonic() + 60
        while transports() > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert transports() <= before
    finally:
        gc.enable()


def test_a_queue_that_is_deleted_leaves_no_object_of_the_broker(tmp_path: Path) -> None:
    def queues() -> int:
        return sum(type(each) is FifoQueue for each in gc.get_objects())

    with Broker(data_dir=str(tmp_path)) as broker, connect(broker) as connection:
        channel = connection.channel()
        gc.collect()
        before = queues()
        gc.disable()
        try:
            for durable in (False, True):
                for _ in range(10):
                    channel.queue_declare("q", durable=durable, exclusive=not durable)
                    channel.queue_bind("q", "amq.direct", "key")
                    channel.queue_delete("q")
            assert queues() == before
        finally:
            gc.enable()
