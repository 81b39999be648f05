"""A connection: its state, the reasons to stop reading, and how a hard error becomes connection.close.

Its way out is in outlet.py. Bytes that come in are taken apart by the READER (reader.py); what methods mean is in
handshake.py for channel 0 and in dispatch.py for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp import methods, replies
from warren.amqp.fields import Table
from warren.broker.queue.listener import INTERNAL
from warren.broker.queue.outlet import CLOSED, CLOSING, RUNNING, STARTING, Outlet
from warren.broker.session.channel import Channel
from warren.broker.session.confirm import Confirms
from warren.broker.session.heartbeat import ConnectionTimer, HeartbeatTimer
from warren.broker.session.intake import SIZE_FUDGE, Intake
from warren.broker.session.numbering import Numbering
from warren.broker.session.observer import Target
from warren.broker.world import INFO, WARNING
from warren.errors import NO_METHOD, AmqpError, ConnectionForced, FrameError, NotAllowed

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.session.house import House
    from warren.broker.vhost.vhost import VHost
    from warren.broker.world import Wire

# A reader that has had this much in one turn waits for the next, so that a flood of publishes on one socket leaves
# room for the acks and deliveries of the others.
TURN_BYTES: Final[i64] = 65536
# How long a peer that was told of an error may take to say close-ok; and one to whom no frame can be sent any more,
# or who has not logged in, is kept from trying again.
_CLOSE_WAIT_MS: Final[i64] = 30_000
_SILENT_CLOSE_MS: Final[i64] = 3_000
# Reads for connections that are gone: a reader of their own would be a circle, which only the collector finds, and
# that looks through all that is old once in a lifetime.
NOBODY: Final = Intake()


class Connection(Outlet):
    def __init__(
        self,
        node: House,
        wire: Wire,
        identity: int,
        peer_host: str,
        peer_port: int,
        host: str,
        port: int,
        tls: bool,
        tls_subject: str | None,
    ) -> None:
        super().__init__(node, wire, f"{peer_host}:{peer_port} -> {host}:{port}")
        self.node = node
        self.identity = identity
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.host = host
        self.port = port
        self.tls = tls
        self.tls_subject = tls_subject
        self.connected_at: i64 = node.now
        self.vhost: VHost | None = None
        self.mechanism = ""
        self.client_properties: Table = {}
        # None unless the client has asked for its publishes to be numbered.
        self.numbering: Numbering | None = None
        self.client_capabilities: Table = {}
        self.channel_max: i64 = node.settings.channel_max
        self.heartbeat: i64 = 0
        self.channels: dict[int, Channel] = {}
        # basic.publish frames already checked, by their bytes, valid for one generation of the node.
        self.targets: dict[bytes, Target] = {}
        self.targets_as_of: i64 = -1
        # Where the last of them led.
        self.last_queues: list[Queue] = []
        # Node.connect puts a reader here; without one nobody can send it anything.
        self.intake = Intake()
        # Reasons not to handle what is read.
        self.awaiting_password = False
        self.blocked_by_alarm = False
        self._is_held_unread = False
        self._errands_awaited: i64 = 0
        # The client has said goodbye, and hears it when what it held is back where it was.
        self._is_leaving = False
        self._paused_reading = False
        # It has said as much as a turn takes, and is read on in the next.
        self.waits_for_turn = False
        self._turn_bytes: i64 = 0
        self.last_throttled: i64 = -1
        # Bytes of bodies whose rest is still to come, and of transactions.
        self.unfinished: i64 = 0
        # Statistics and heartbeats.
        self.received_bytes: i64 = 0
        self.received_reads: i64 = 0
        # Each only while there is something to wait for: most connections are idle most of the time.
        self._deadline: ConnectionTimer | None = None
        self._heartbeats: HeartbeatTimer | None = None
        self._set_deadline(node.settings.handshake_timeout_ms)

    # -- bytes in --------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.received_reads += 1
        self._turn_bytes += len(data)
        if self._turn_bytes >= TURN_BYTES and not self.waits_for_turn:
            self.waits_for_turn = True
            self.wire.pause_reading()
            self.node.next_turn.append(self)
        # Whatever this read changes, an ack without any answer too, takes effect at the end of the turn.
        self.node.wake()
        if self.intake.tail:
            data = self.intake.tail + data
            self.intake.tail = b""
        if self.stage == STARTING and self.received_bytes > self.node.settings.handshake_bytes_max:
            self.fail(FrameError("too many bytes before the connection is open"))
            return
        if self.is_held():
            self.intake.tail = data
            return
        self.intake.handle(data)

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
        channel.answer(methods.ChannelOpenOk())

    def count_unfinished(self, size: i64) -> None:
        """So many bytes more, or less, of messages that have not come to their end or are not committed."""
        self.unfinished += size
        self.node.unfinished += size
        if size > 0:
            self.node.limit_unfinished()

    def forget_channel(self, channel: Channel) -> None:
        self.channels.pop(channel.number, None)
        self.intake.forget_channel()

    # -- out -------------------------------------------------------------------------------------------------------

    def resume_consumers(self) -> None:
        for channel in self.channels.values():
            for consumer in channel.consumers.values():
                self.drain_soon(consumer.queue)

    def drain_soon(self, queue: Queue) -> None:
        self.node.drain_soon(queue)

    def answer_soon(self, confirms: Confirms) -> None:
        self.node.answering.append(confirms)
        self.node.wake_for_output()

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
            self.answer(methods.ConnectionBlocked(self.node.alarm_text()))
        self._hold_if_needed()

    def unblock(self) -> None:
        if not self.blocked_by_alarm:
            return
        self.blocked_by_alarm = False
        if self.can("connection.blocked"):
            self.answer(methods.ConnectionUnblocked())
        self._release_if_possible()

    def hold_unread(self) -> None:
        # One within the broker reads whatever it asked for.
        if self._is_held_unread or self.stage != RUNNING or self.identity < 0:
            return
        self._is_held_unread = True
        self._set_deadline(self.node.settings.unread_timeout_ms)
        self._hold_if_needed()

    def release_unread(self) -> None:
        if not self._is_held_unread:
            return
        self._is_held_unread = False
        if self.stage == RUNNING:
            self._drop_deadline()
        self._release_if_possible()

    def await_errand(self) -> None:
        self._errands_awaited += 1
        self._hold_if_needed()

    def errand_done(self) -> None:
        self._errands_awaited -= 1
        if self._is_leaving:
            self._leave()
        else:
            self._release_if_possible()

    def is_out_of_credit(self) -> bool:
        for channel in self.channels.values():
            credit = channel.credit
            if credit is not None and credit.exhausted > 0:
                return True
        return False

    def _hold_if_needed(self) -> None:
        if not self._paused_reading:
            self._paused_reading = True
            self.wire.pause_reading()
        self.last_throttled = self.node.now

    def _release_if_possible(self) -> None:
        if not self._paused_reading or self.blocked_by_alarm or self._is_held_unread or self.stage == CLOSED:
            return
        if self.is_out_of_credit():
            return
        if self._errands_awaited > 0 and self.stage != CLOSING:
            return
        self._paused_reading = False
        self.last_throttled = self.node.now
        if not self.waits_for_turn:
            self.wire.resume_reading()
        self.read_on()

    def begin_turn(self) -> None:
        """The turn in which this reader had had enough is over."""
        self._turn_bytes = 0
        self.waits_for_turn = False
        if not self._paused_reading and self.stage != CLOSED:
            self.wire.resume_reading()

    def password_verified(self, is_right: bool) -> None:
        self.intake.password_verified(is_right)
        if self.stage == CLOSED:
            self.intake = NOBODY

    def read_on(self) -> None:
        """Handle what was read before the hold."""
        if self.intake.tail and not self.is_held():
            data, self.intake.tail = self.intake.tail, b""
            self.node.wake()
            self.intake.handle(data)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """As management shows it. `flow` stays visible for a second after the last throttle."""
        if self.blocked_by_alarm:
            return "blocked"
        if self.stage != RUNNING:
            return self.intake.state if self.stage == STARTING else self.stage
        if self._paused_reading or (0 <= self.last_throttled and self.node.now - self.last_throttled < 1000):
            return "flow"
        return "blocking" if self.node.alarmed else RUNNING

    def can(self, capability: str) -> bool:
        field = self.client_capabilities.get(capability)
        return field is not None and field.value is True

    def opened(self, vhost: VHost) -> None:
        self.vhost = vhost
        self.stage = RUNNING
        self.intake.payload_max = self.frame_max - 8 + SIZE_FUDGE
        self._drop_deadline()
        if self.heartbeat > 0:
            self._heartbeats = HeartbeatTimer(self)
            self._heartbeats.start(self)

    def fail(self, error: AmqpError) -> None:
        """The one translator of hard errors."""
        if self.stage in (CLOSING, CLOSED):
            return
        if not self.intake.may_tell(error):
            # Nobody who has not logged in is told anything, or answered quickly.
            self.node.host.log(WARNING, f"closing {self.name} during the handshake: {error.explanation}")
            self.stage = CLOSING
            self._set_deadline(_SILENT_CLOSE_MS)
            return
        # An operator's wish, or the broker's end, is nothing to worry about.
        level = INFO if isinstance(error, ConnectionForced) else WARNING
        self.node.host.log(level, f"closing {self.name}: {error.code} {error.reply_text}")
        method_id = 0 if error.method_id == NO_METHOD else error.method_id or self.intake.method_id
        self.stage = CLOSING
        self._release_all()
        # Whatever held the reader, close-ok must be heard.
        self.blocked_by_alarm = False
        self._is_held_unread = False
        self._release_if_possible()
        self.send(replies.close(error.code, error.reply_text, method_id))
        # Without frames there is no close-ok to wait for.
        wait = _SILENT_CLOSE_MS if isinstance(error, FrameError) else _CLOSE_WAIT_MS
        self._set_deadline(wait)

    def close_by_admin(self, reason: str) -> None:
        self.intake.method_id = 0
        self.fail(ConnectionForced(reason))

    def closed_by_client(self) -> None:
        self._release_all()
        self._is_leaving = True
        self._leave()

    def _leave(self) -> None:
        if self._errands_awaited == 0:
            self.answer(methods.ConnectionCloseOk())
            self.end()

    def end(self) -> None:
        """Nothing more comes in or goes out but what is pending."""
        if self.stage == CLOSED:
            return
        self.output()
        self.stage = CLOSED

    def lost(self) -> None:
        """The socket is gone."""
        has_said_so = self.stage != RUNNING
        self.stage = CLOSED
        self._release_all()
        self.forget_unread()
        self._drop_deadline()
        if self._heartbeats is not None:
            self._heartbeats.drop()
            self._heartbeats = None
        if not self.awaiting_password:
            self.intake = NOBODY
        self.node.forget(self, has_said_so)

    def _set_deadline(self, wait: i64) -> None:
        if self._deadline is None:
            self._deadline = ConnectionTimer(self)
        self.node.timers.schedule(self._deadline, self.node.now + wait)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.drop()
            self._deadline = None

    def _release_all(self) -> None:
        """Channels give back what they hold, none to another of the same connection; exclusive queues go."""
        for channel in self.channels.values():
            channel.stop_consuming()
        for channel in list(self.channels.values()):
            channel.close()
        self.channels.clear()
        self.intake.forget_channel()
        self.intake.tail = b""
        vhost = self.vhost
        self.node.events.actor = INTERNAL
        if vhost is not None:
            waiter = self if self.stage == RUNNING else None
            vhost.delete_queues(list(self.exclusive_queues), waiter)
