"""The READER: bytes of one socket in, each frame to the channel that it names.

It knows framing and nothing of what methods mean. A publish that lies whole in what was read takes the short way: its
frames are cut out in one piece and never copied again.
"""

from __future__ import annotations

import traceback
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.amqp.constants import (
    BASIC_ACK,
    BASIC_NACK,
    BASIC_PUBLISH,
    BASIC_REJECT,
    CHANNEL_OPEN,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from warren.amqp.methods import ConnectionCloseOk
from warren.broker.consume import settle
from warren.broker.publish.burial import bury_dead_letters
from warren.broker.queue.outlet import CLOSED, CLOSING, RUNNING, STARTING
from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection
from warren.broker.session.intake import SIZE_FUDGE, Intake
from warren.broker.terms import erlang_octets
from warren.broker.vhost.vhost import VHost
from warren.broker.wire import dispatch
from warren.broker.wire.handshake import Handshake
from warren.errors import (
    NO_METHOD,
    AmqpError,
    ChannelError,
    FrameError,
    InternalError,
    UnexpectedFrame,
)

_ERROR: Final = 40


class Reader(Intake):
    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.state = STARTING
        self._handshake = Handshake(connection)
        self._current: Channel | None = None
        self._current_number: i64 = -1
        # Where the frame that is being handled ends, and whether there still is such a thing.
        self._frame_end: i64 = 0
        self._lost_framing = False

    def begin_open(self, user: str, vhost: VHost) -> None:
        """For a user who has logged in otherwise."""
        self._handshake.greeted = True
        self.state = RUNNING
        self.connection.user = user
        self.connection.opened(vhost)

    def forget_channel(self) -> None:
        self._current = None
        self._current_number = -1

    def may_tell(self, error: AmqpError) -> bool:
        return self._handshake.may_tell(error)

    def password_verified(self, is_right: bool) -> None:
        self._handshake.password_verified(is_right)

    def handle(self, data: bytes) -> None:
        try:
            used = self._read(data)
        except AmqpError as error:
            self._fail_reading(error, data)
            return
        except Exception:
            # No detail for the peer: what went wrong is in the log, once.
            self.connection.node.host.log(_ERROR, f"connection {self.connection.name} failed\n{traceback.format_exc()}")
            self._fail_reading(InternalError("unexpected error"), data)
            return
        if used < len(data) and self.connection.stage != CLOSED:
            self.tail = data[used:]

    def _fail_reading(self, error: AmqpError, data: bytes) -> None:
        """Unless framing itself is lost, read on behind the bad frame: somewhere there comes close-ok."""
        was_closing = self.connection.stage == CLOSING
        self.connection.fail(error)
        if isinstance(error, FrameError):
            self._lost_framing = True
        elif not was_closing and self.connection.stage == CLOSING:
            self.handle(data[self._frame_end :])

    def _read(self, data: bytes) -> i64:
        """Handle all whole frames; how many bytes that was."""
        size_all: i64 = len(data)
        at: i64 = 0
        if self._lost_framing:
            return size_all
        if not self._handshake.greeted:
            if size_all < 8:
                return 0
            self._handshake.greet(data[:8])
            at = 8
        held = self.connection.is_held()
        while size_all - at >= 8 and not held:
            size = i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF
            if size > self.payload_max:
                self._check_size(data, at)
            end = at + size + 8
            if end > size_all:
                break
            if data[end - 1] != 0xCE:
                raise _bad_frame(data[at], data[at + 7 : end - 1], f"{{invalid_frame_end_marker,{data[end - 1]}}}")
            self._frame_end = end
            number = i64(read_i16_be(data, at + 1)) & 0xFFFF
            if data[at] == FRAME_METHOD and size >= 4:
                method_id = i64(read_i32_be(data, at + 7))
                if method_id == BASIC_PUBLISH and number != 0:
                    if self.connection.node.alarmed and self.connection.stage == RUNNING:
                        # The publish that meets the alarm waits with all that follows it.
                        self.connection.block()
                        return at
                    end = self._read_publish(number, data, at, end)
                elif (
                    size == 13
                    and number == self._current_number
                    and (method_id == BASIC_ACK or method_id == BASIC_NACK or method_id == BASIC_REJECT)
                    and not self.connection.node.intercepts_settling
                ):
                    self._read_settling(method_id, data, at)
                else:
                    self._read_method(number, method_id, data, at + 11, end - 1)
                held = self.connection.is_held()
            else:
                if number != 0 and self.connection.node.alarmed and self.connection.stage == RUNNING:
                    # The rest of a message that met the alarm half way waits as well.
                    self.connection.block()
                    return at
                self._read_other(number, data, at, end)
                held = self.connection.is_held()
            at = end
            if self.connection.node.dead_letters.waiting:
                bury_dead_letters(self.connection.node, self.connection)
                held = self.connection.is_held()
            if self.connection.stage == CLOSED:
                return size_all
        if size_all - at == 7 and not held:
            self._check_size(data, at)
        return at

    def _check_size(self, data: bytes, at: i64) -> None:
        """Said as soon as the frame's header is here, not when the rest of it has come."""
        size = i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF
        if size > self.payload_max:
            raise _bad_frame(data[at], b"", f"{{frame_too_large,{size},{self.payload_max - SIZE_FUDGE}}}")

    def _channel(self, number: i64) -> Channel | None:
        if number != self._current_number:
            self._current = self.connection.channels.get(number)
            self._current_number = -1 if self._current is None else number
        return self._current

    def _read_publish(self, number: i64, data: bytes, at: i64, end: i64) -> i64:
        """A publish whose content lies whole behind it is handled at once. Returns where to read on."""
        self.method_id = BASIC_PUBLISH
        channel = self._channel(number)
        if channel is None or channel.is_closed or channel.content is not None or self.connection.stage != RUNNING:
            self._read_method(number, BASIC_PUBLISH, data, at + 11, end - 1)
            return end
        total: i64 = len(data)
        if total - end >= 22 and data[end] == FRAME_HEADER:
            after = end + 8 + (i64(read_i32_be(data, end + 3)) & 0xFFFFFFFF)
            body_size = read_i64_be(data, end + 11)
            if body_size > 0:
                after = self._end_of_body(data, number, after, body_size)
            if 0 < after <= total and self._is_content_header(data, number, end, after):
                dispatch.receive_publish(channel, data[at + 11 : end - 1], data[end:after], body_size)
                return after
        dispatch.begin_content(channel, data[at + 11 : end - 1])
        return end

    def _end_of_body(self, data: bytes, number: i64, at: i64, body_size: i64) -> i64:
        """Where the body's last frame ends; 0 unless all of it is here and in order."""
        total: i64 = len(data)
        got: i64 = 0
        frames: i64 = 0
        while got < body_size:
            if total - at < 8 or data[at] != FRAME_BODY or (i64(read_i16_be(data, at + 1)) & 0xFFFF) != number:
                return 0
            size = i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF
            at += size + 8
            if size == 0 or size > self.payload_max or at > total or data[at - 1] != 0xCE:
                return 0
            got += size
            frames += 1
        # A body in crumbs is put together anew by the channel, so that it costs no more than its size.
        return at if got == body_size and frames * 4096 <= body_size + 8192 else 0

    def _is_content_header(self, data: bytes, number: i64, at: i64, after: i64) -> bool:
        size = i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF
        if size < 14 or size > self.payload_max or at + size + 8 > after:
            return False
        return (
            data[at + size + 7] == 0xCE
            and (i64(read_i16_be(data, at + 1)) & 0xFFFF) == number
            and read_i32_be(data, at + 7) == 60 << 16
            and read_i64_be(data, at + 11) >= 0
        )

    def _read_settling(self, method_id: i64, data: bytes, at: i64) -> None:
        """An ack, a nack or a reject: a tag and bits."""
        self.method_id = method_id
        channel = self._current
        if channel is None or self.connection.stage == CLOSING:
            return
        bits: i64 = data[at + 19]
        outcome: i64 = settle.ACK
        if method_id == BASIC_NACK:
            outcome = settle.REQUEUE if bits & 2 else settle.REJECT
        elif method_id == BASIC_REJECT:
            outcome = settle.REQUEUE if bits & 1 else settle.REJECT
        multiple = method_id != BASIC_REJECT and bits & 1 != 0
        dispatch.receive_settling(channel, method_id, read_i64_be(data, at + 11), multiple, outcome)

    def _read_method(self, number: i64, method_id: i64, data: bytes, start: i64, end: i64) -> None:
        self.method_id = method_id
        if self.connection.stage == CLOSING:
            self._read_while_closing(number, method_id)
        elif number == 0:
            self._handshake.handle(self._handshake.decoded(method_id, data, start, end))
        elif self.connection.stage != RUNNING:
            # Only channel 0 exists before the connection is open.
            raise UnexpectedFrame(_described(FRAME_METHOD, data[start - 4 : end]), NO_METHOD)
        else:
            self._read_channel_method(number, method_id, data, start, end)

    def _read_channel_method(self, number: i64, method_id: i64, data: bytes, start: i64, end: i64) -> None:
        channel = self._channel(number)
        if channel is None:
            if method_id != CHANNEL_OPEN:
                raise ChannelError("expected 'channel.open'")
            self.connection.open_channel(number)
            return
        dispatch.receive_method(channel, method_id, data, start, end)

    def _read_while_closing(self, number: i64, method_id: i64) -> None:
        if number == 0 and method_id == CONNECTION_CLOSE:
            self.connection.answer(ConnectionCloseOk())
        elif number == 0 and method_id == CONNECTION_CLOSE_OK:
            self.connection.end()

    def _read_other(self, number: i64, data: bytes, at: i64, end: i64) -> None:
        """Everything but methods: content, heartbeats, and what is no frame at all."""
        kind: i64 = data[at]
        if self.connection.stage == CLOSING:
            return
        is_heartbeat = kind == FRAME_HEARTBEAT and end - at == 8
        is_content = kind == FRAME_BODY or (kind == FRAME_HEADER and end - at >= 20)
        if not is_heartbeat and not is_content:
            raise _bad_frame(kind, data[at + 7 : end - 1], "unknown_frame")
        if is_heartbeat:
            if number != 0:
                raise UnexpectedFrame(_described(kind, b""), NO_METHOD)
            return
        channel = self._channel(number)
        if channel is None:
            raise UnexpectedFrame("expected method frame, got non method frame instead", NO_METHOD)
        if channel.is_closed:
            return
        if kind == FRAME_HEADER:
            dispatch.content_header(channel, data[at:end])
        else:
            dispatch.content_body(channel, data[at:end])


def _described(kind: i64, payload: bytes) -> str:
    """A frame as RabbitMQ shows it: short ones whole, of long ones the beginning."""
    shown = erlang_octets(payload[:16])
    return f"type {kind}, {'all' if len(payload) <= 16 else 'first 16'} octets = {shown}"


def _bad_frame(kind: i64, payload: bytes, why: str) -> FrameError:
    return FrameError(f"{_described(kind, payload)}: {why}", NO_METHOD)
