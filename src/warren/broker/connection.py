"""A connection: its state, its output, the reasons to stop reading, and how a hard error becomes connection.close.

Bytes are taken apart by the READER (reader.py); what methods mean is in handshake.py for channel 0 and in channel.py
for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.amqp import replies
from warren.amqp.fields import Table
from warren.broker.channel import Channel
from warren.broker.confirm import Confirms
from warren.broker.events import INTERNAL
from warren.broker.handshake import Handshake
from warren.broker.heartbeat import ConnectionTimer, HeartbeatTimer
from warren.broker.publish import Target
from warren.broker.reader import CLOSED, CLOSING, RUNNING, SIZE_FUDGE, STARTING, Reader
from warren.errors import (
    NO_METHOD,
    AmqpError,
    ConnectionForced,
    FrameError,
    NotAllowed,
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
_CLOSE_WAIT_MS: Final[i64] = 30_000
_SILENT_CLOSE_MS: Final[i64] = 3_000
_WARNING: Final = 30
_ERROR: Final = 40


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
        self.channels: dict[int, Channel] = {}
        self.handshake = Handshake(self)
        self.exclusive_queues: dict[Queue, bool] = {}
        # basic.publish frames already checked, by their bytes, valid for one generation of the node.
        self.targets: dict[bytes, Target] = {}
        self.targets_as_of: i64 = -1
        # Where the last of them led.
        self.last_queues: list[Queue] = []
        self.reader = Reader(self)
        # Reasons not to handle what is read.
        self.awaiting_password = False
        self.blocked_by_alarm = False
        self._paused_reading = False
        self._waits_for_turn = False
        self._turn_bytes: i64 = 0
        self.last_throttled: i64 = -1
        # Output.
        self._out = BytesWriter()
        # What goes out before it: large contents as they are, and what stood in front of each.
        self._large: list[bytes] = []
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

    @staticmethod
    def within(node: Node, wire: Wire, user: str, vhost: VHost) -> Connection:
        """Of a user who has logged in otherwise, without a socket. It is not listed, and nobody limits it."""
        connection = Connection(node, wire, -1, "127.0.0.1", 0, "127.0.0.1", 0, False, None)
        connection.user = user
        connection.handshake.greeted = True
        connection.handshake.state = "running"
        connection.opened(vhost)
        return connection

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
        if self.reader.tail:
            data = self.reader.tail + data
            self.reader.tail = b""
        if self.stage == STARTING and self.received_bytes > self.node.settings.handshake_bytes_max:
            self.fail(FrameError("too many bytes before the connection is open"))
            return
        if self.is_held():
            self.reader.tail = data
            return
        self.reader.handle(data)

    def open_channel(self, number: i64) -> None:
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
        self.node.events.channel("created", channel)
        self.send(replies.channel_open_ok(number))

    def forget_channel(self, channel: Channel) -> None:
        self.channels.pop(channel.number, None)
        self.reader.forget_channel()

    # -- bytes out -------------------------------------------------------------------------------------------------

    def output(self) -> BytesWriter:
        if not self._dirty:
            self._dirty = True
            self.node.dirty.append(self)
            self.node.host.wake()
        return self._out

    def write_large(self, content: bytes) -> None:
        """Put a content behind what is in the output, without copying it."""
        self._large.append(self._out.getvalue())
        self._large.append(content)
        self._out = BytesWriter()

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
        if self._large:
            self._flush_large()
        data = self._out.getvalue()
        self._out = BytesWriter()
        self.pending_output = 0
        if data:
            self.sent_bytes += len(data)
            self.sent_writes += 1
        if self.stage == CLOSED:
            self.wire.close(data)
            return
        if data:
            self.wire.write(data)
        if not self.has_room and not self.paused_writing:
            self.resume_consumers()

    def _flush_large(self) -> None:
        pieces, self._large = self._large, []
        for piece in pieces:
            self.sent_bytes += len(piece)
            self.wire.write(piece)

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
        if self.reader.tail and not self.is_held():
            data, self.reader.tail = self.reader.tail, b""
            self.reader.handle(data)

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
        self.reader.payload_max = self.frame_max - 8 + SIZE_FUDGE
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
        method_id = 0 if error.method_id == NO_METHOD else error.method_id or self.reader.method_id
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
        self.reader.method_id = 0
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
        self.reader.forget_channel()
        self.reader.tail = b""
        vhost = self.vhost
        self.node.events.actor = INTERNAL
        if vhost is not None:
            for queue in list(self.exclusive_queues):
                vhost.delete_queue(queue)
