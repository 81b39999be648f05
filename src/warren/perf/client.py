"""A blocking AMQP connection for all that happens once: the handshake, declaring, consuming, closing.

What happens a million times is done on its socket by others, who take it over with `hand_over`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Final, TypeVar

from warren.amqp.constants import FRAME_METHOD, FRAME_OVERHEAD, PROTOCOL_HEADER
from warren.amqp.fields import table_of
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
from warren.errors import WarrenError
from warren.perf.plan import Target

CHANNEL: Final = 1
PATIENCE: Final = 60.0
FRAME_MAX: Final = 131072
READ_BYTES: Final = 65536
# Type, channel, size and, of a method frame, the method's id.
_HEAD: Final = struct.Struct(">BHII")

M = TypeVar("M", bound=Method)


def frame_of(method: Method, channel: int = CHANNEL) -> bytes:
    return method_frame(channel, method.id, encode_method(method))


def start_ok(target: Target) -> ConnectionStartOk:
    # With these a broker tells why it turns us away, and when a queue that we consume from is gone.
    capabilities = {"authentication_failure_close": True, "consumer_cancel_notify": True}
    properties = table_of({"product": "warren perf", "capabilities": capabilities})
    return ConnectionStartOk(properties, response=f"\0{target.user}\0{target.password}".encode())


def refusal(method: Method) -> WarrenError:
    """What to tell when the broker sends `method` where another was due."""
    if isinstance(method, ConnectionClose | ChannelClose):
        return WarrenError(f"the broker closed the connection: {method.reply_code} {method.reply_text}")
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
        stream = socket.create_connection((target.host, target.port), PATIENCE)
    except OSError as error:
        raise WarrenError(f"no broker at {target.host}:{target.port}: {error.strerror or error}") from error
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


class Client:
    """One connection with channel 1 open."""

    def __init__(self, target: Target) -> None:
        self.socket = connect(target)
        self.frame_max = FRAME_MAX
        self._unread = b""
        try:
            self._shake_hands(target)
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
        self.socket.close()

    def call(self, method: Method, answer: type[M]) -> M:
        self._send([frame_of(method)])
        return self._expect(answer)

    def close(self) -> None:
        """What still comes before the answer, such as deliveries, is not wanted any more."""
        self.socket.settimeout(PATIENCE)
        try:
            self._send([frame_of(ConnectionClose(200, "bye"), 0)])
            while self._next_method_id() != ConnectionCloseOk.id:
                continue
        finally:
            self.socket.close()

    def hand_over(self) -> bytes:
        """From now on somebody else reads the socket. Returns what was read already and not asked for."""
        unread, self._unread = self._unread, b""
        self.socket.settimeout(None)
        return unread

    def _shake_hands(self, target: Target) -> None:
        self._send([PROTOCOL_HEADER])
        self._expect(ConnectionStart)
        self._send([frame_of(start_ok(target), 0)])
        tune = self._expect(ConnectionTune)
        self.frame_max = min(tune.frame_max or FRAME_MAX, FRAME_MAX)
        # Without heartbeats: the streams that follow consist of deliveries or confirms only.
        tune_ok = ConnectionTuneOk(tune.channel_max, self.frame_max, 0)
        self._send([frame_of(tune_ok, 0), frame_of(ConnectionOpen(target.vhost), 0)])
        self._expect(ConnectionOpenOk)
        self.call(ChannelOpen(), ChannelOpenOk)

    def _send(self, frames: Sequence[bytes]) -> None:
        try:
            self.socket.sendall(b"".join(frames))
        except OSError as error:
            raise WarrenError(f"lost the connection: {error.strerror or error}") from error

    def _expect(self, answer: type[M]) -> M:
        while (method := first_method(self._unread)) is None:
            self._read_more()
        self._drop_first_frame()
        if not isinstance(method, answer):
            raise refusal(method)
        return method

    def _next_method_id(self) -> int:
        """Of the next method frame; the frames of contents before it are dropped."""
        while True:
            while len(self._unread) < _HEAD.size:
                self._read_more()
            kind, _, size, method_id = _HEAD.unpack_from(self._unread)
            while len(self._unread) < size + FRAME_OVERHEAD:
                self._read_more()
            self._drop_first_frame()
            if kind == FRAME_METHOD:
                return int(method_id)

    def _drop_first_frame(self) -> None:
        _, _, size, _ = _HEAD.unpack_from(self._unread)
        self._unread = self._unread[size + FRAME_OVERHEAD :]

    def _read_more(self) -> None:
        try:
            data = self.socket.recv(READ_BYTES)
        except OSError as error:
            raise WarrenError(f"lost the connection: {error.strerror or error}") from error
        if not data:
            raise WarrenError("lost the connection: the broker closed it without a word")
        self._unread += data
