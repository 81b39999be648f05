"""The READER: bytes of one socket in, frames to the channel each names, and bytes out.

It knows framing, connection states and how a hard error becomes connection.close; what methods mean is elsewhere
(handshake.py for channel 0, channel.py for the rest). A publish that lies whole in what was read takes the short way:
its frames are cut out in one piece and never copied again.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.amqp import replies
from warren.amqp.constants import (
    BASIC_ACK,
    BASIC_PUBLISH,
    CHANNEL_OPEN,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_MAX_BEFORE_OPEN,
    FRAME_METHOD,
    HEARTBEAT_FRAME,
)
from warren.amqp.fields import Table
from warren.amqp.methods import Method, decode_method
from warren.amqp.reader import CutOff
from warren.broker.channel import Channel
from warren.broker.confirm import Confirms
from warren.broker.handshake import Handshake
from warren.broker.publish import Target
from warren.broker.terms import erlang_octets
from warren.broker.timers import Timer
from warren.errors import (
    NO_METHOD,
    AmqpError,
    ChannelError,
    ConnectionForced,
    FrameError,
    InternalError,
    NotAllowed,
    UnexpectedFrame,
)

if TYPE_CHECKING:
    from warren.broker.node import Node
    from warren.broker.queue import Queue
    from warren.broker.vhost import VHost
    from warren.broker.world import Wire

# Above this much unsent output, consumers of the connection are passed over until it has left.
OUTPUT_HIGH: Final[i64] = 1048576
# A reader that has had this much in one turn waits for the next, so that a flood of publishes on one socket leaves
# room for the acks and deliveries of the others.
TURN_BYTES: Final[i64] = 65536
# RabbitMQ lets clients that are off by the size of the frame header get away with it.
_SIZE_FUDGE: Final[i64] = 8
_CLOSE_WAIT_MS: Final[i64] = 30_000
_SILENT_CLOSE_MS: Final[i64] = 3_000
_WARNING: Final = 30
_ERROR: Final = 40

STARTING: Final = "starting"
RUNNING: Final = "running"
CLOSING: Final = "closing"
CLOSED: Final = "closed"


class Connection:
    def __init__(
        self,
        node: Node,
        wire: Wire,
        identity: int,
        peer_host: str,
        peer_port: int,
        host: str,
        port: int,
        tls: bool,
        tls_subject: str | None,
    ) -> None:
        self.node = node
        self.wire = wire
        self.identity = identity
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.host = host
        self.port = port
        self.tls = tls
        self.tls_subject = tls_subject
        self.name = f"{peer_host}:{peer_port} -> {host}:{port}"
        self.connected_at: i64 = node.now
        self.stage = STARTING
        self.user = ""
        self.vhost: VHost | None = None
        self.mechanism = ""
        self.client_properties: Table = {}
        self.client_capabilities: Table = {}
        self.frame_max: i64 = node.settings.frame_max
        self.channel_max: i64 = node.settings.channel_max
        self.heartbeat: i64 = 0
        self.payload_max: i64 = FRAME_MAX_BEFORE_OPEN
        self.channels: dict[int, Channel] = {}
        self.handshake = Handshake(self)
        self.exclusive_queues: dict[Queue, bool] = {}
        # basic.publish frames already checked, by their bytes, valid for one generation of the node.
        self.targets: dict[bytes, Target] = {}
        self.targets_as_of: i64 = -1
        # What was read and not yet handled: less than a frame, or more while reading is held.
        self._tail = b""
        self._current: Channel | None = None
        self._current_number: i64 = -1
        self._method_id: i64 = 0
        # Where the frame that is being handled ends, and whether there still is such a thing.
        self._frame_end: i64 = 0
        self._lost_framing = False
        # Reasons not to handle what is read.
        self.awaiting_password = False
        self.blocked_by_alarm = False
        self._paused_reading = False
        self._waits_for_turn = False
        self._turn_bytes: i64 = 0
        self.last_throttled: i64 = -1
        # Output.
        self._out = BytesWriter()
        self._dirty = False
        self.pending_output: i64 = 0
        self.paused_writing = False
        self.has_room = True
        # Statistics and heartbeats.
        self.received_bytes: i64 = 0
        self.sent_bytes: i64 = 0
        self.received_reads: i64 = 0
        self.sent_writes: i64 = 0
        self.timer = ConnectionTimer(self)
        self.heartbeat_timer = HeartbeatTimer(self)
        node.timers.schedule(self.timer, node.now + node.settings.handshake_timeout_ms)

    # -- bytes in --------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.received_reads += 1
        self._turn_bytes += len(data)
        if self._turn_bytes >= TURN_BYTES and not self._waits_for_turn:
            self._waits_for_turn = True
            self.wire.pause_reading()
            self.node.next_turn.append(self)
        # Whatever this read changes, an ack without any answer too, takes effect at the end of the turn.
        self.node.host.wake()
        if self._tail:
            data = self._tail + data
            self._tail = b""
        if self.stage == STARTING and self.received_bytes > self.node.settings.handshake_bytes_max:
            self.fail(FrameError("too many bytes before the connection is open"))
            return
        if self.is_held():
            self._tail = data
            return
        self._handle(data)

    def _handle(self, data: bytes) -> None:
        try:
            used = self._read(data)
        except AmqpError as error:
            self._fail_reading(error, data)
            return
        except Exception:
            # No detail for the peer: what went wrong is in the log, once.
            self.node.host.log(_ERROR, f"connection {self.name} failed\n{traceback.format_exc()}")
            self._fail_reading(InternalError("unexpected error"), data)
            return
        if used < len(data) and self.stage != CLOSED:
            self._tail = data[used:]

    def _fail_reading(self, error: AmqpError, data: bytes) -> None:
        """Unless framing itself is lost, read on behind the bad frame: somewhere there comes close-ok."""
        was_closing = self.stage == CLOSING
        self.fail(error)
        if isinstance(error, FrameError):
            self._lost_framing = True
        elif not was_closing and self.stage == CLOSING:
            self._handle(data[self._frame_end :])

    def _read(self, data: bytes) -> i64:
        """Handle all whole frames; how many bytes that was."""
        size_all: i64 = len(data)
        at: i64 = 0
        if self._lost_framing:
            return size_all
        if not self.handshake.greeted:
            if size_all < 8:
                return 0
            self.handshake.greet(data[:8])
            at = 8
        held = self.is_held()
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
                    if self.node.alarmed and self.stage == RUNNING:
                        # The publish that meets the alarm waits with all that follows it.
                        self.block()
                        return at
                    end = self._read_publish(number, data, at, end)
                elif (
                    method_id == BASIC_ACK
                    and number == self._current_number
                    and size == 13
                    and not self.node.intercepts_ack
                ):
                    self._read_ack(data, at)
                else:
                    self._read_method(number, method_id, data, at + 11, end - 1)
                held = self.is_held()
            else:
                self._read_other(number, data, at, end)
                held = self.is_held()
            at = end
            if self.node.dead_letters.waiting:
                self.node.dead_letters.run()
            if self.stage == CLOSED:
                return size_all
        if size_all - at == 7 and not held:
            self._check_size(data, at)
        return at

    def _check_size(self, data: bytes, at: i64) -> None:
        """Said as soon as the frame's header is here, not when the rest of it has come."""
        size = i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF
        if size > self.payload_max:
            raise _bad_frame(data[at], b"", f"{{frame_too_large,{size},{self.payload_max - _SIZE_FUDGE}}}")

    def _channel(self, number: i64) -> Channel | None:
        if number != self._current_number:
            self._current = self.channels.get(number)
            self._current_number = -1 if self._current is None else number
        return self._current

    def _read_publish(self, number: i64, data: bytes, at: i64, end: i64) -> i64:
        """A publish whose content lies whole behind it is handled at once. Returns where to read on."""
        self._method_id = BASIC_PUBLISH
        channel = self._channel(number)
        if channel is None or channel.is_closed or channel.content is not None or self.stage != RUNNING:
            self._read_method(number, BASIC_PUBLISH, data, at + 11, end - 1)
            return end
        total: i64 = len(data)
        if total - end >= 22 and data[end] == FRAME_HEADER:
            after = end + 8 + (i64(read_i32_be(data, end + 3)) & 0xFFFFFFFF)
            body_size = read_i64_be(data, end + 11)
            if body_size > 0:
                after = self._end_of_body(data, number, after, body_size)
            if 0 < after <= total and self._is_content_header(data, number, end, after):
                channel.receive_publish(data[at + 11 : end - 1], data[end:after], body_size)
                return after
        channel.begin_content(data[at + 11 : end - 1])
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

    def _read_ack(self, data: bytes, at: i64) -> None:
        self._method_id = BASIC_ACK
        channel = self._current
        if channel is not None:
            channel.receive_ack(read_i64_be(data, at + 11), data[at + 19] & 1 != 0)

    def _read_method(self, number: i64, method_id: i64, data: bytes, start: i64, end: i64) -> None:
        self._method_id = method_id
        if self.stage == CLOSING:
            self._read_while_closing(number, method_id)
        elif number == 0:
            self.handshake.handle(self.decode(method_id, data, start, end))
        elif self.stage != RUNNING:
            # Only channel 0 exists before the connection is open.
            raise UnexpectedFrame(_described(FRAME_METHOD, data[start - 4 : end]), NO_METHOD)
        else:
            self._read_channel_method(number, method_id, data, start, end)

    def decode(self, method_id: i64, data: bytes, start: i64, end: i64) -> Method:
        try:
            return decode_method(method_id, data, start, end)
        except CutOff:
            raise FrameError(f"cannot decode {erlang_octets(data[start:end])}") from None

    def _read_channel_method(self, number: i64, method_id: i64, data: bytes, start: i64, end: i64) -> None:
        channel = self._channel(number)
        if channel is None:
            if method_id != CHANNEL_OPEN:
                raise ChannelError("expected 'channel.open'")
            self._open_channel(number)
            return
        channel.receive_method(method_id, data, start, end)

    def _open_channel(self, number: i64) -> None:
        if 0 < self.channel_max <= len(self.channels):
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) "
                f"has reached the negotiated channel_max ({self.channel_max})",
                NO_METHOD,
            )
        self.node.check_channel_limit(self)
        channel = Channel(self, number)
        self.channels[number] = channel
        self.node.counters.channels_opened += 1
        self._current_number = -1
        self.send(replies.channel_open_ok(number))

    def forget_channel(self, channel: Channel) -> None:
        self.channels.pop(channel.number, None)
        self._current = None
        self._current_number = -1

    def _read_while_closing(self, number: i64, method_id: i64) -> None:
        if number == 0 and method_id == CONNECTION_CLOSE:
            self.send(replies.close_ok())
        elif number == 0 and method_id == CONNECTION_CLOSE_OK:
            self.end()

    def _read_other(self, number: i64, data: bytes, at: i64, end: i64) -> None:
        """Everything but methods: content, heartbeats, and what is no frame at all."""
        kind: i64 = data[at]
        if self.stage == CLOSING:
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
            channel.content_header(data[at:end])
        else:
            channel.content_body(data[at:end])

    # -- bytes out -------------------------------------------------------------------------------------------------

    def output(self) -> BytesWriter:
        if not self._dirty:
            self._dirty = True
            self.node.dirty.append(self)
            self.node.host.wake()
        return self._out

    def wrote(self, size: i64) -> None:
        self.pending_output += size
        if self.pending_output > OUTPUT_HIGH:
            self.has_room = False

    def send(self, frames: bytes) -> None:
        if self.stage == CLOSED:
            return
        self.output().write(frames)
        self.wrote(len(frames))

    def flush(self) -> None:
        """Hand all output to the socket: once per turn, whatever happened in it."""
        self._dirty = False
        data = self._out.getvalue()
        self._out = BytesWriter()
        self.pending_output = 0
        if data:
            self.sent_bytes += len(data)
            self.sent_writes += 1
            self.wire.write(data)
        if self.stage == CLOSED:
            self.wire.close()
        elif not self.has_room and not self.paused_writing:
            self.resume_consumers()

    def pause_writing(self) -> None:
        """The socket is full."""
        self.paused_writing = True
        self.has_room = False

    def resume_writing(self) -> None:
        self.paused_writing = False
        if self.pending_output <= OUTPUT_HIGH:
            self.resume_consumers()

    def resume_consumers(self) -> None:
        self.has_room = True
        for channel in self.channels.values():
            for consumer in channel.consumers.values():
                self.drain_soon(consumer.queue)

    def drain_soon(self, queue: Queue) -> None:
        self.node.drain_soon(queue)

    def answer_soon(self, confirms: Confirms) -> None:
        self.node.answering.append(confirms)
        self.node.host.wake()

    # -- holding the reader ----------------------------------------------------------------------------------------

    def is_held(self) -> bool:
        return self._paused_reading or self.awaiting_password

    def throttle(self) -> None:
        """A channel is out of credit."""
        self._hold_if_needed()

    def unthrottle(self) -> None:
        self._release_if_possible()

    def block(self) -> None:
        """The first publish after an alarm: from now on the socket is not read."""
        if self.blocked_by_alarm:
            return
        self.blocked_by_alarm = True
        if self.can("connection.blocked"):
            self.send(replies.blocked(self.node.alarm_text()))
        self._hold_if_needed()

    def unblock(self) -> None:
        if not self.blocked_by_alarm:
            return
        self.blocked_by_alarm = False
        if self.can("connection.blocked"):
            self.send(replies.unblocked())
        self._release_if_possible()

    def is_out_of_credit(self) -> bool:
        for channel in self.channels.values():
            if channel.credit.exhausted > 0:
                return True
        return False

    def _hold_if_needed(self) -> None:
        if not self._paused_reading:
            self._paused_reading = True
            self.wire.pause_reading()
        self.last_throttled = self.node.now

    def _release_if_possible(self) -> None:
        if not self._paused_reading or self.blocked_by_alarm or self.is_out_of_credit() or self.stage == CLOSED:
            return
        self._paused_reading = False
        self.last_throttled = self.node.now
        if not self._waits_for_turn:
            self.wire.resume_reading()
        self.read_on()

    def begin_turn(self) -> None:
        """The turn in which this reader had had enough is over."""
        self._turn_bytes = 0
        self._waits_for_turn = False
        if not self._paused_reading and self.stage != CLOSED:
            self.wire.resume_reading()

    def password_verified(self, is_right: bool) -> None:
        self.handshake.password_verified(is_right)

    def read_on(self) -> None:
        """Handle what was read before the hold."""
        if self._tail and not self.is_held():
            data, self._tail = self._tail, b""
            self._handle(data)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """As management shows it. `flow` stays visible for a second after the last throttle."""
        if self.blocked_by_alarm:
            return "blocked"
        if self.stage != RUNNING:
            return self.handshake.state if self.stage == STARTING else self.stage
        if self._paused_reading or (0 <= self.last_throttled and self.node.now - self.last_throttled < 1000):
            return "flow"
        return "blocking" if self.node.alarmed else RUNNING

    def can(self, capability: str) -> bool:
        field = self.client_capabilities.get(capability)
        return field is not None and field.value is True

    def opened(self, vhost: VHost) -> None:
        self.vhost = vhost
        self.stage = RUNNING
        self.payload_max = self.frame_max - 8 + _SIZE_FUDGE
        self.node.timers.cancel(self.timer)
        self.heartbeat_timer.start()

    def fail(self, error: AmqpError) -> None:
        """The one translator of hard errors."""
        if self.stage in (CLOSING, CLOSED):
            return
        if not self.handshake.may_tell(error):
            # Nobody who has not logged in is told anything, or answered quickly.
            self.node.host.log(_WARNING, f"closing {self.name} during the handshake: {error.explanation}")
            self.stage = CLOSING
            self.node.timers.schedule(self.timer, self.node.now + _SILENT_CLOSE_MS)
            return
        self.node.host.log(_WARNING, f"closing {self.name}: {error.code} {error.reply_text}")
        method_id = 0 if error.method_id == NO_METHOD else error.method_id or self._method_id
        self._release_all()
        self.stage = CLOSING
        # Whatever held the reader, close-ok must be heard.
        self.blocked_by_alarm = False
        self._release_if_possible()
        self.send(replies.close(error.code, error.reply_text, method_id))
        # Without frames there is no close-ok to wait for.
        wait = _SILENT_CLOSE_MS if isinstance(error, FrameError) else _CLOSE_WAIT_MS
        self.node.timers.schedule(self.timer, self.node.now + wait)

    def close_by_admin(self, reason: str) -> None:
        self._method_id = 0
        self.fail(ConnectionForced(reason))

    def closed_by_client(self) -> None:
        self._release_all()
        self.send(replies.close_ok())
        self.end()

    def end(self) -> None:
        """Nothing more comes in or goes out but what is pending."""
        if self.stage == CLOSED:
            return
        self.output()
        self.stage = CLOSED

    def lost(self) -> None:
        """The socket is gone."""
        self._release_all()
        self.stage = CLOSED
        self.node.timers.cancel(self.timer)
        self.node.timers.cancel(self.heartbeat_timer)
        self.node.forget(self)

    def _release_all(self) -> None:
        """Channels give back what they hold, none to another of the same connection; exclusive queues go."""
        for channel in self.channels.values():
            channel.stop_consuming()
        for channel in list(self.channels.values()):
            channel.close()
        self.channels.clear()
        self._current = None
        self._current_number = -1
        self._tail = b""
        vhost = self.vhost
        if vhost is not None:
            for queue in list(self.exclusive_queues):
                vhost.delete_queue(queue)


class ConnectionTimer(Timer):
    """The deadline of whatever the connection is in the middle of: handshake or close."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def fire(self, now: i64) -> None:
        connection = self.connection
        if connection.stage == STARTING:
            connection.node.host.log(_WARNING, f"closing {connection.name}: handshake timeout")
        connection.end()


class HeartbeatTimer(Timer):
    """Ticks every half timeout: sends when nothing was sent, gives up after two timeouts of silence."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self._sent: i64 = -1
        self._received: i64 = -1
        self._silent_ticks: i64 = 0

    def start(self) -> None:
        connection = self.connection
        if connection.heartbeat > 0:
            connection.node.timers.schedule(self, connection.node.now + connection.heartbeat * 500)

    def fire(self, now: i64) -> None:
        connection = self.connection
        if connection.stage == CLOSED:
            return
        if connection.sent_bytes == self._sent or self._sent < 0:
            connection.send(HEARTBEAT_FRAME)
        self._sent = connection.sent_bytes
        if connection.received_bytes != self._received or connection.is_held():
            self._silent_ticks = 0
        else:
            self._silent_ticks += 1
        self._received = connection.received_bytes
        if self._silent_ticks > 4:
            seconds = connection.heartbeat
            connection.node.host.log(
                _ERROR, f"closing {connection.name}: missed heartbeats from client, timeout: {seconds}s"
            )
            connection.end()
            return
        self.start()


def _described(kind: i64, payload: bytes) -> str:
    """A frame as RabbitMQ shows it: short ones whole, of long ones the beginning."""
    shown = erlang_octets(payload[:16])
    return f"type {kind}, {'all' if len(payload) <= 16 else 'first 16'} octets = {shown}"


def _bad_frame(kind: i64, payload: bytes, why: str) -> FrameError:
    return FrameError(f"{_described(kind, payload)}: {why}", NO_METHOD)
