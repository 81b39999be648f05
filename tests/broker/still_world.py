"""A world in which nothing moves by itself: for tests of the core that need a node but no sockets."""

from __future__ import annotations

from warren.amqp.constants import PROTOCOL_HEADER
from warren.amqp.fields import Field, table_of
from warren.amqp.frames import method_frame
from warren.amqp.methods import (
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    encode_method,
)
from warren.broker.node import Node
from warren.broker.settings import Settings
from warren.broker.world import Login

Row = tuple[str, tuple[str, ...], dict[str, object]]


class StillHost:
    def __init__(self) -> None:
        self.tokens = 0

    def wake(self) -> None:
        pass

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:022d}"

    def draw(self) -> int:
        return 4

    def stopwatch(self) -> int:
        return 0

    def arrival(self) -> int:
        return 0

    def verify_password(self, login: Login, algorithm: str, password_hash: str, password: str) -> None:
        login.password_verified(True)

    def log(self, level: int, text: str) -> None:
        pass


class KeepingRecorder:
    """A Recorder whose rows can be looked at, and given to another node."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, tuple[str, ...]], dict[str, object]] = {}

    def put(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None:
        self.rows[(kind, key)] = value

    def delete(self, kind: str, key: tuple[str, ...]) -> None:
        self.rows.pop((kind, key), None)

    def commit(self) -> None:
        pass

    def all(self) -> list[Row]:
        return [(kind, key, value) for (kind, key), value in self.rows.items()]


class ListeningWire:
    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self, farewell: bytes) -> None:
        self.written += farewell
        self.is_closed = True


def new_node(recorder: KeepingRecorder | None = None) -> Node:
    """Recording from the start, without vhosts and users."""
    node = Node(StillHost(), Settings(), recorder)
    node.start_recording()
    return node


class Client:
    """Logged in, with channel 1 open."""

    def __init__(self, node: Node, user: str, vhost: str = "/") -> None:
        self.node = node
        self.wire = ListeningWire()
        self.connection = node.connect(self.wire, "127.0.0.1", 40000, "127.0.0.1", 5672)
        capabilities = {"capabilities": Field("F", table_of({"consumer_cancel_notify": True}))}
        self.connection.feed(PROTOCOL_HEADER)
        self.send(ConnectionStartOk(capabilities, "PLAIN", f"\0{user}\0any".encode(), "en_US"), channel=0)
        self.send(ConnectionTuneOk(2047, 131072, 0), channel=0)
        self.send(ConnectionOpen(vhost), channel=0)
        self.send(ChannelOpen())
        self.heard()

    def send(self, method: Method, channel: int = 1) -> None:
        self.connection.feed(method_frame(channel, method.id, encode_method(method)))
        self.node.flush()

    def heard(self) -> bytes:
        """What came since it was last asked."""
        self.node.flush()
        written, self.wire.written = self.wire.written, b""
        return written
