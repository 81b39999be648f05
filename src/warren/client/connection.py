"""A blocking AMQP connection: a session (session.py) on a socket.

What comes is taken from the session, one by one or in bulk; some take over the socket with `hand_over`.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, TypeVar

from warren.amqp.constants import CONNECTION_CLOSE_OK, HEARTBEAT_FRAME
from warren.amqp.fields import Table
from warren.amqp.methods import ConnectionClose, Method
from warren.client.address import BrokerAddress
from warren.client.secure import encrypt
from warren.client.session import Credentials, Received, Session, frame_of, refusal
from warren.errors import WarrenError

PATIENCE: Final = 60.0
# After an error, or with nothing to lose, a broker that does not say goodbye is not waited for.
GOODBYE_SECONDS: Final = 5.0
READ_BYTES: Final = 65536
# The name of the thread that sends them.
HEARTBEATS: Final = "heartbeat"

M = TypeVar("M", bound=Method)


class ConnectionLost(WarrenError):
    """Nothing is wrong with what was asked; it may be asked again of a broker that is there."""


def connect(target: BrokerAddress) -> socket.socket:
    try:
        stream = socket.create_connection((target.host, target.port), target.connect_timeout)
    except OSError as error:
        raise ConnectionLost(f"no broker at {target.place}: {error.strerror or error}") from error
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return encrypt(stream, target) if target.is_tls else stream


class Client:
    """One connection with channel 1 open. Without heartbeats unless they are asked for."""

    def __init__(
        self,
        target: BrokerAddress,
        product: str = "warren perf",
        heartbeat: int = 0,
        timeout: float = PATIENCE,
        publisher: tuple[str, int] | None = None,
    ) -> None:
        self.target = target
        self.timeout = timeout
        self.socket = connect(target)
        if target.heartbeat is not None:
            heartbeat = target.heartbeat
        credentials = Credentials(target.user, target.password, target.vhost, product, heartbeat, publisher=publisher)
        self.session = Session(credentials)
        # A heartbeat must not land within a frame of somebody else's.
        self.sending = threading.Lock()
        self._done = threading.Event()
        try:
            self.socket.settimeout(timeout)
            self._shake_hands()
        except BaseException:
            self.socket.close()
            raise
        if heartbeat:
            threading.Thread(target=self._beat, args=(heartbeat / 2,), name=HEARTBEATS, daemon=True).start()

    @property
    def frame_max(self) -> int:
        return self.session.frame_max

    @property
    def server_properties(self) -> Table:
        return self.session.server_properties

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # After an error there may be anything on the way, so nobody waits for an answer.
        if error is None:
            self.close()
        self.abandon()

    def call(self, method: Method, answer: type[M]) -> M:
        self.send([frame_of(method)])
        return self.expect(answer)

    def close(self, patience: float = PATIENCE) -> None:
        """What still comes before the answer, such as deliveries, is not wanted any more."""
        self.socket.settimeout(patience)
        try:
            self.send([frame_of(ConnectionClose(200, "bye"), 0)])
            while self.next().method_id != CONNECTION_CLOSE_OK:
                continue
        finally:
            self.abandon()

    def leave(self) -> None:
        """Close where nothing depends on it any more: a broker, or a socket, that is gone already is as good."""
        with contextlib.suppress(WarrenError, OSError):
            self.close(GOODBYE_SECONDS)

    def abandon(self) -> None:
        self._done.set()
        self.socket.close()

    def hand_over(self) -> bytes:
        """From now on somebody else reads the socket. Returns what was read already and not asked for."""
        self.socket.settimeout(None)
        return self.session.take_unread()

    def send(self, frames: Sequence[bytes]) -> None:
        try:
            with self.sending:
                self.socket.sendall(b"".join(frames))
        except OSError as error:
            raise self.lost(error) from error

    def receive(self, size: int = READ_BYTES) -> None:
        """At least one byte, to the session; waits for it as long as the timeout lets it."""
        try:
            data = self.socket.recv(size)
        except TimeoutError as error:
            raise ConnectionLost(
                f"the broker at {self.target.place} has sent nothing for {self.timeout:g} s"
            ) from error
        except OSError as error:
            raise self.lost(error) from error
        if not data:
            raise ConnectionLost("lost the connection: the broker closed it without a word")
        self.session.feed(data)

    def receive_within(self, seconds: float, size: int = READ_BYTES) -> bool:
        """The same; False when nothing comes in time."""
        if seconds <= 0:
            return False
        self.socket.settimeout(seconds)
        try:
            self.receive(size)
        except ConnectionLost as lost:
            if isinstance(lost.__cause__, TimeoutError):
                return False
            raise
        finally:
            self.socket.settimeout(self.timeout)
        return True

    def next(self) -> Received:
        """The next method, with its content if it has one."""
        while (received := self.session.take()) is None:
            self.receive()
        return received

    def expect(self, answer: type[M]) -> M:
        """The next method, which must be this one."""
        method = self.next().method
        if not isinstance(method, answer):
            raise refusal(method)
        return method

    def _shake_hands(self) -> None:
        self.send([self.session.greet()])
        while not self.session.is_open:
            self.send([self.session.answer(self.next())])

    def _beat(self, seconds: float) -> None:
        while not self._done.wait(seconds):
            try:
                with self.sending:
                    # Where there is no room, what is on its way already shows that we live.
                    if select.select([], [self.socket], [], 0)[1]:
                        self.socket.sendall(HEARTBEAT_FRAME)
            except (OSError, ValueError):
                # Whoever uses the connection will find out, and can say so. A closed socket is no place to select.
                return

    def lost(self, error: OSError) -> ConnectionLost:
        return ConnectionLost(f"lost the connection to {self.target.place}: {error.strerror or error}")
