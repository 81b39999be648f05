"""The client's side of AMQP without a socket: bytes in, methods with their contents out. All our clients stand on it.

A method comes out as an object of its own, decoded when it is asked for. Deliveries and confirms, which come by the
million, can be taken in bulk: the former by amqp/deliveries.py, straight into columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from warren.amqp import methods, replies
from warren.amqp.constants import (
    BASIC_ACK,
    BASIC_DELIVER,
    BASIC_GET_OK,
    BASIC_RETURN,
    CHANNEL_OPEN_OK,
    CONNECTION_OPEN_OK,
    CONNECTION_START,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    FRAME_PREFIX,
    PROTOCOL_HEADER,
    PUBLISHER,
)
from warren.amqp.deliveries import Deliveries
from warren.amqp.fields import Table, table_of
from warren.amqp.frames import body_of, properties_span
from warren.amqp.properties import Properties, decode_properties
from warren.errors import WarrenError

CHANNEL: Final = 1
FRAME_MAX: Final = 131072
_WITH_CONTENT: Final = (BASIC_DELIVER, BASIC_GET_OK, BASIC_RETURN)
# Type, channel and size.
_HEAD: Final = struct.Struct(">BHI")
# Of a method frame: where the arguments begin, behind the method's id.
_ARGUMENTS_AT: Final = FRAME_PREFIX + 4
# Of a header frame: class and weight come before the body's size.
_BODY_SIZE: Final = struct.Struct(f">{FRAME_PREFIX + 4}xQ")
# A whole frame of basic.ack: type, channel, size, method, tag, bits, end.
_CONFIRM: Final = struct.Struct(">BHIIQBB")
_CONFIRM_PAYLOAD: Final = _CONFIRM.size - FRAME_OVERHEAD
# With these a broker tells why it turns us away, and when a queue that we consume from is gone.
_CAPABILITIES: Final[dict[str, object]] = {
    "authentication_failure_close": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "publisher_confirms": True,
}


class Refused(WarrenError):
    """The broker closed the channel or the connection and said why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"the broker closed the connection: {code} {text}")
        self.code = code
        self.text = text


def refusal(method: methods.Method) -> WarrenError:
    """What to tell when the broker sends `method` where another was due."""
    if isinstance(method, methods.ConnectionClose | methods.ChannelClose):
        return Refused(method.reply_code, method.reply_text)
    return WarrenError(f"the broker sent an unexpected {methods.method_name(method.id)}")


def frame_of(method: methods.Method, channel: int = CHANNEL) -> bytes:
    return replies.frame(channel, method)


_CHANNEL_OPEN: Final = frame_of(methods.ChannelOpen())


@dataclass(frozen=True)
class Credentials:
    """Who we are and what we ask for; the broker may grant less."""

    user: str
    password: str
    vhost: str = "/"
    product: str = "warren"
    heartbeat: int = 0
    frame_max: int = FRAME_MAX
    # 0: as many as the broker grants.
    channel_max: int = 0
    capabilities: dict[str, object] = field(default_factory=lambda: _CAPABILITIES)
    # Name and number of a publisher whose publishes are numbered (broker/session/numbering.py).
    publisher: tuple[str, int] | None = None

    @cached_property
    def start_ok(self) -> bytes:
        said: dict[str, object] = {"product": self.product, "connection_name": self.product}
        said["capabilities"] = self.capabilities
        if self.publisher is not None:
            said[PUBLISHER] = {"name": self.publisher[0], "number": self.publisher[1]}
        response = f"\0{self.user}\0{self.password}".encode()
        return frame_of(methods.ConnectionStartOk(table_of(said), response=response), 0)

    @cached_property
    def open(self) -> bytes:
        return frame_of(methods.ConnectionOpen(self.vhost), 0)


class Received:
    """A method from the broker, with its content where it has one."""

    __slots__ = ("_method", "channel", "content", "frame", "method_id")

    def __init__(self, channel: int, frame: bytes) -> None:
        self.channel = channel
        self.frame = frame
        self.method_id = int.from_bytes(frame[FRAME_PREFIX:_ARGUMENTS_AT], "big")
        # Header and body frames, as they came.
        self.content = b""
        self._method: methods.Method | None = None

    @property
    def method(self) -> methods.Method:
        if self._method is None:
            self._method = methods.decode_method(self.method_id, self.frame, _ARGUMENTS_AT, len(self.frame) - 1)
        return self._method

    @property
    def properties(self) -> Properties:
        return decode_properties(self.content, *properties_span(self.content)) if self.content else Properties()

    @property
    def body(self) -> bytes:
        return body_of(self.content) if self.content else b""


class _Incomplete:
    """A method whose content is still on the way."""

    def __init__(self, received: Received) -> None:
        self._received = received
        self._frames: list[bytes] = []
        self._missing = 0

    def add(self, kind: int, frame: bytes) -> Received | None:
        """The whole, once this was the last frame of it."""
        if kind != (FRAME_BODY if self._frames else FRAME_HEADER):
            raise _unexpected(kind)
        self._missing += -(len(frame) - FRAME_OVERHEAD) if self._frames else int(_BODY_SIZE.unpack_from(frame)[0])
        self._frames.append(frame)
        if self._missing < 0:
            raise WarrenError("the broker sent a body of another size than announced")
        if self._missing:
            return None
        self._received.content = b"".join(self._frames)
        return self._received

    def complete(self, content: bytes) -> Received | None:
        """With all of the content at once, as it is; None when some of it has come already."""
        if self._frames:
            return None
        self._received.content = content
        return self._received


class Session:
    """One connection. Whoever holds it sends what it is given to send, and feeds it what comes."""

    def __init__(self, credentials: Credentials | None = None) -> None:
        self._credentials = credentials
        self._start: Received | None = None
        # With channel 1 open, too.
        self.is_open = False
        self.frame_max = FRAME_MAX
        self.heartbeats = 0
        # What was fed and how much of it is done with; and, behind the frame that lay across two feeds, the rest.
        self._data = b""
        self._at = 0
        self._later = b""
        self._later_at = 0
        self._incomplete: dict[int, _Incomplete] = {}

    # -- the handshake -----------------------------------------------------------------------------------------------

    def greet(self) -> bytes:
        return PROTOCOL_HEADER

    def answer(self, received: Received) -> bytes:
        """What to send when the broker says this in the handshake. Raises what it refuses us with."""
        ours = self._credentials
        assert ours is not None
        # By their numbers: whoever opens thousands of connections does not decode what nobody reads.
        method_id = received.method_id
        if method_id == CONNECTION_START:
            self._start = received
            return ours.start_ok
        if method_id == CONNECTION_OPEN_OK:
            return _CHANNEL_OPEN
        if method_id == CHANNEL_OPEN_OK:
            self.is_open = True
            return b""
        tune = received.method
        if not isinstance(tune, methods.ConnectionTune):
            raise refusal(tune)
        self.frame_max = min(tune.frame_max or FRAME_MAX, ours.frame_max)
        tune_ok = methods.ConnectionTuneOk(ours.channel_max or tune.channel_max, self.frame_max, ours.heartbeat)
        return frame_of(tune_ok, 0) + ours.open

    @property
    def server_properties(self) -> Table:
        start = None if self._start is None else self._start.method
        return start.server_properties if isinstance(start, methods.ConnectionStart) else {}

    # -- what comes --------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        self._go_on()
        if self._at == len(self._data):
            self._data, self._at = data, 0
            return
        begun = self._data[self._at :]
        missing = _missing_of_frame(begun)
        if 0 < missing < len(data):
            # Only what completes the frame is copied: the rest may be a megabyte.
            self._data, self._at = begun + data[:missing], 0
            self._later, self._later_at = data, missing
        else:
            self._data, self._at = begun + data, 0

    def take_whole(self, content: bytes) -> Received | None:
        """For those within the broker: the method that waits for its content, with a content that is not copied. None
        where something else comes next."""
        if self._at < len(self._data) or self._later or len(self._incomplete) != 1:
            return None
        channel = next(iter(self._incomplete))
        received = self._incomplete[channel].complete(content)
        if received is not None:
            del self._incomplete[channel]
        return received

    def take(self) -> Received | None:
        """The next method, with its content; None as long as it is not all there."""
        while (frame := self._next_frame()) is not None:
            received = self._take_frame(frame)
            if received is not None:
                return received
        return None

    def take_deliveries(self, rows: Deliveries, most: int) -> Received | None:
        """All whole deliveries, but no more than `most`, into columns. Anything else ends that and is returned."""
        enough = rows.count + most
        while rows.count < enough:
            if not self._incomplete:
                self._at = rows.take(self._data, self._at, enough - rows.count)
                if rows.count >= enough:
                    return None
                if not rows.is_interrupted:
                    if self._go_on():
                        continue
                    return None
            # Something else comes next, or lies between the frames of a delivery.
            received = self.take()
            if received is None or received.method_id != BASIC_DELIVER:
                return received
            rows.take(received.frame + received.content, 0, 1)
        return None

    def take_confirms(self, settle: Callable[[int, bool], None]) -> Received | None:
        """Tell of all acks: tag, and whether it is of those before it too. Anything else ends that and is returned."""
        while True:
            self._take_acks(settle)
            received = self.take()
            method = None if received is None else received.method
            if not isinstance(method, methods.BasicAck):
                return received
            settle(method.delivery_tag, method.multiple)

    def take_unread(self) -> bytes:
        """For those who go on with the bytes themselves."""
        unread = self._data[self._at :] + self._later[self._later_at :]
        self._data = self._later = b""
        self._at = self._later_at = 0
        return unread

    def _take_acks(self, settle: Callable[[int, bool], None]) -> None:
        """As long as nothing but acks lies ahead, which are all equally long."""
        if self._incomplete:
            return
        at = self._at
        whole = (len(self._data) - at) // _CONFIRM.size * _CONFIRM.size
        for _, _, size, method_id, tag, bits, _ in _CONFIRM.iter_unpack(memoryview(self._data)[at : at + whole]):
            if method_id != BASIC_ACK or size != _CONFIRM_PAYLOAD:
                break
            settle(tag, bits & 1 != 0)
            at += _CONFIRM.size
        self._at = at

    def _next_frame(self) -> bytes | None:
        while True:
            data, at = self._data, self._at
            if len(data) - at >= FRAME_OVERHEAD:
                end = at + FRAME_OVERHEAD + int(_HEAD.unpack_from(data, at)[2])
                if end <= len(data):
                    self._at = end
                    return data[at:end]
                if data.startswith(b"AMQP", at):
                    raise WarrenError("the broker does not speak AMQP 0-9-1")
            if not self._go_on():
                return None

    def _take_frame(self, frame: bytes) -> Received | None:
        kind, channel, _ = _HEAD.unpack_from(frame)
        if frame[-1] != FRAME_END:
            raise WarrenError("the broker sent a frame without an end")
        if kind == FRAME_HEARTBEAT:
            self.heartbeats += 1
            return None
        incomplete = self._incomplete.pop(channel, None)
        if kind == FRAME_METHOD:
            return self._take_method(Received(channel, frame), incomplete)
        if incomplete is None:
            raise _unexpected(kind)
        received = incomplete.add(kind, frame)
        if received is None:
            self._incomplete[channel] = incomplete
        return received

    def _take_method(self, received: Received, incomplete: _Incomplete | None) -> Received | None:
        if incomplete is not None:
            # Within a content there is no place for it; if it is a close, it says why nothing else comes.
            raise refusal(received.method)
        if received.method_id not in _WITH_CONTENT:
            return received
        self._incomplete[received.channel] = _Incomplete(received)
        return None

    def _go_on(self) -> bool:
        """With what lies behind the frame that was put together; False when there is nothing."""
        if not self._later:
            return False
        if self._at == len(self._data):
            self._data, self._at = self._later, self._later_at
        else:
            self._data, self._at = self._data[self._at :] + self._later[self._later_at :], 0
        self._later, self._later_at = b"", 0
        return True


def _missing_of_frame(data: bytes) -> int:
    """How many bytes the last frame lacks; 0 when it is whole, -1 when its size is not there yet."""
    at = 0
    while len(data) - at >= FRAME_OVERHEAD:
        at += int(_HEAD.unpack_from(data, at)[2]) + FRAME_OVERHEAD
    return at - len(data) if at >= len(data) else -1


def _unexpected(kind: int) -> WarrenError:
    return WarrenError(f"the broker sent an unexpected frame of type {kind}")
