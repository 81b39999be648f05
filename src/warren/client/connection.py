"""A blocking AMQP connection for all that happens once: the handshake, declaring, consuming, closing.

What happens a million times is done on its bytes by others: they `send` and `receive` in bulk, or take over the socket
with `hand_over`.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, TypeVar

from warren.amqp.constants import FRAME_HEARTBEAT, FRAME_METHOD, FRAME_OVERHEAD, HEARTBEAT_FRAME, PROTOCOL_HEADER
from warren.amqp.fields import Table, table_of
from warren.amqp.frames import method_frame
from warren.amqp.methods import (
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    decode_method,
    encode_method,
    method_name,
)
from warren.client.address import Target
from warren.client.secure import encrypt
from warren.errors import WarrenError

CHANNEL: Final = 1
PATIENCE: Final = 60.0
# After an error, or with nothing to lose, a broker that does not say goodbye is not waited for.
GOODBYE_SECONDS: Final = 5.0
FRAME_MAX: Final = 131072
READ_BYTES: Final = 65536
# Type, channel, size and, of a method frame, the method's id.
_HEAD: Final = struct.Struct(">BHII")

M = TypeVar("M", bound=Method)


class ConnectionLost(WarrenError):
    """Nothing is wrong with what was asked; it may be asked again of a broker that is there."""


class Refused(WarrenError):
    """The broker closed the channel or the connection and said why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"the broker closed the connection: {code} {text}")
        self.code = code
        self.text = text


def frame_of(method: Method, channel: int = CHANNEL) -> bytes:
    return method_frame(channel, method.id, encode_method(method))


def start_ok(target: Target, product: str = "warren perf") -> ConnectionStartOk:
    # With these a broker tells why it turns us away, and when a queue that we consume from is gone.
    capabilities = {
        "authentication_failure_close": True,
        "consumer_cancel_notify": True,
        "basic.nack": True,
        "publisher_confirms": True,
    }
    properties = table_of({"product": product, "connection_name": product, "capabilities": capabilities})
    return ConnectionStartOk(properties, response=f"\0{target.user}\0{target.password}".encode())


def refusal(method: Method) -> WarrenError:
    """What to tell when the broker sends `method` where another was due."""
    if isinstance(method, ConnectionClose | ChannelClose):
        return Refused(method.reply_code, method.reply_text)
    return WarrenError(f"the broker sent an unexpected {method_name(method.id)}")


def first_method(data: bytes | bytearray | memoryview) -> Method | None:
    """The method whose frame `data` begins with, once it is all there."""
    if len(data) < _HEAD.size:
        return None
    kind, _, size, method_id = _HEAD.unpack_from(data)
    if len(data) < size + FRAME_OVERHEAD:
        return None
    if kind != FRAME_METHOD:
        raise WarrenError(f"the broker sent an unexpected frame of type {kind}")
    return decode_method(method_id, bytes(data[_HEAD.size : size + FRAME_OVERHEAD - 1]), 0, size - 4)


def connect(target: Target) -> socket.socket:
    try:
        stream = socket.create_connection((target.host, target.port), target.connect_timeout)
    except OSError as error:
        raise ConnectionLost(f"no broker at {target.place}: {error.strerror or error}") from error
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return encrypt(stream, target) if target.is_tls else stream


class Client:
    """One connection with channel 1 open. Without heartbeats unless they are asked for."""

    def __init__(
        self, target: Target, product: str = "warren perf", heartbeat: int = 0, timeout: float = PATIENCE
    ) -> None:
        self.target = target
        self.timeout = timeout
        self.socket = connect(target)
        self.frame_max = FRAME_MAX
        self.server_properties: Table = {}
        self._unread = b""
        # A heartbeat must not land within a frame of somebody else's.
        self.sending = threading.Lock()
        self._done = threading.Event()
        try:
            self.socket.settimeout(timeout)
            self._shake_hands(target, product, heartbeat if target.heartbeat is None else target.heartbeat)
        except BaseException:
            self.socket.close()
            raise

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
            while self._next_method_id() != ConnectionCloseOk.id:
                continue
        finally:
            self.abandon()

    def leave(self) -> None:
        """Close where nothing depends on it any more: a broker that is gone already is as good."""
        with contextlib.suppress(WarrenError):
            self.close(GOODBYE_SECONDS)

    def abandon(self) -> None:
        self._done.set()
        self.socket.close()

    def hand_over(self) -> bytes:
        """From now on somebody else reads the socket. Returns what was read already and not asked for."""
        self.socket.settimeout(None)
        return self.take_unread()

    def take_unread(self) -> bytes:
        unread, self._unread = self._unread, b""
        return unread

    def put_back(self, unread: bytes) -> None:
        """Bytes that whoever received them has no use for, such as the answer to a call."""
        self._unread = unread + self._unread

    def send(self, frames: Sequence[bytes]) -> None:
        try:
            with self.sending:
                self.socket.sendall(b"".join(frames))
        except OSError as error:
            raise self.lost(error) from error

    def receive(self, size: int = READ_BYTES) -> bytes:
        """At least one byte; waits for it as long as the timeout lets it."""
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
        return data

    def expect(self, answer: type[M]) -> M:
        """The next method, which must be this one."""
        while True:
            self._skip_heartbeats()
            method = first_method(self._unread)
            if method is not None:
                break
            self._unread += self.receive()
        self._drop_first_frame()
        if not isinstance(method, answer):
            raise refusal(method)
        return method

    def _shake_hands(self, target: Target, product: str, heartbeat: int) -> None:
        self.send([PROTOCOL_HEADER])
        self.server_properties = self.expect(ConnectionStart).server_properties
        self.send([frame_of(start_ok(target, product), 0)])
        tune = self.expect(ConnectionTune)
        self.frame_max = min(tune.frame_max or FRAME_MAX, FRAME_MAX)
        tune_ok = ConnectionTuneOk(tune.channel_max, self.frame_max, heartbeat)
        self.send([frame_of(tune_ok, 0), frame_of(ConnectionOpen(target.vhost), 0)])
        self.expect(ConnectionOpenOk)
        self.call(ChannelOpen(), ChannelOpenOk)
        if heartbeat:
            threading.Thread(target=self._beat, args=(heartbeat / 2,), name="heartbeat", daemon=True).start()

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

    def _next_method_id(self) -> int:
        """Of the next method frame; the frames of contents before it are dropped."""
        while True:
            while len(self._unread) < FRAME_OVERHEAD:
                self._unread += self.receive()
            kind, _, size = struct.unpack_from(">BHI", self._unread)
            while len(self._unread) < size + FRAME_OVERHEAD:
                self._unread += self.receive()
            method_id = int(_HEAD.unpack_from(self._unread)[3]) if kind == FRAME_METHOD else 0
            self._drop_first_frame()
            if kind == FRAME_METHOD:
                return method_id

    def _skip_heartbeats(self) -> None:
        while len(self._unread) >= FRAME_OVERHEAD and self._unread[0] == FRAME_HEARTBEAT:
            self._unread = self._unread[FRAME_OVERHEAD:]

    def _drop_first_frame(self) -> None:
        _, _, size = struct.unpack_from(">BHI", self._unread)
        self._unread = self._unread[size + FRAME_OVERHEAD :]

    def lost(self, error: OSError) -> ConnectionLost:
        return ConnectionLost(f"lost the connection to {self.target.place}: {error.strerror or error}")
