"""A world in which nothing moves by itself: for tests of the core that need a node but no sockets."""

from __future__ import annotations

from warren.amqp.methods import Method
from warren.broker.node import Node
from warren.broker.settings import Settings
from warren.broker.world import Host, Login, Wire
from warren.client.session import Credentials, Received, Session, frame_of

Row = tuple[str, tuple[str, ...], dict[str, object]]


class StillHost(Host):
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

    def remembers_password(self, algorithm: str, password_hash: str, password: str) -> bool:
        return False

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

    def all(self) -> list[Row]:
        return [(kind, key, value) for (kind, key), value in self.rows.items()]


class ListeningWire(Wire):
    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

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
        self.session = Session(Credentials(user, "any", vhost))
        self.connection.feed(self.session.greet())
        while not self.session.is_open:
            (received,) = self._received()
            self.connection.feed(self.session.answer(received))

    def send(self, method: Method, channel: int = 1) -> None:
        self.connection.feed(frame_of(method, channel))
        self.node.flush()

    def heard(self) -> list[Method]:
        """What came since it was last asked."""
        return [received.method for received in self._received()]

    def _received(self) -> list[Received]:
        self.node.flush()
        written, self.wire.written = self.wire.written, b""
        self.session.feed(written)
        found: list[Received] = []
        while (received := self.session.take()) is not None:
            found.append(received)
        return found
