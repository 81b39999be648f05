"""The way out of a connection: what is written in a turn leaves at its end, in one piece.

This is also all that queues know of a connection: it takes deliveries while it has room, and owns exclusive queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.amqp.methods import Method
from warren.amqp.replies import frame
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.yard import Yard
    from warren.broker.world import Wire

# The stages of a connection.
STARTING: Final = "starting"
RUNNING: Final = "running"
CLOSING: Final = "closing"
CLOSED: Final = "closed"
# Above this much unsent output, consumers of the connection are passed over until it has left.
OUTPUT_HIGH: Final[i64] = 1048576
# Copying a content of this size takes longer than a write of its own.
LARGE: Final[i64] = 131072
# Room that a writer has in itself: one that held more would keep it.
_KEPT: Final[i64] = 256


class Outlet:
    def __init__(self, yard: Yard, wire: Wire, name: str) -> None:
        self._yard = yard
        self.wire = wire
        self.name = name
        self.user = ""
        self.stage = STARTING
        self.frame_max: i64 = yard.settings.frame_max
        self.exclusive_queues: dict[Queue, bool] = {}
        self._out = BytesWriter()
        # What goes out before it: large contents as they are, and what stood in front of each.
        self._large: list[bytes] = []
        self._dirty = False
        # Nothing leaves before the store has made this position durable: an answer among it says that it is.
        self.held_until: i64 = 0
        self.pending_output: i64 = 0
        self.paused_writing = False
        self.has_room = True
        # What the client asked for and has not read, deliveries aside: those stop when there is no room.
        self.unread: i64 = 0
        self.sent_bytes: i64 = 0
        self.sent_writes: i64 = 0

    def hold(self, position: i64) -> None:
        """What is written in this turn and later leaves when the store has come that far."""
        if position > self.held_until:
            self.held_until = position

    def output(self) -> BytesWriter:
        if not self._dirty:
            self._dirty = True
            self._yard.dirty.append(self)
            self._yard.wake_for_output()
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

    def answer(self, method: Method) -> None:
        """Of the connection as a whole: a channel answers by itself."""
        self.send(frame(0, method))

    def send(self, frames: bytes) -> None:
        if self.stage == CLOSED:
            return
        self.output().write(frames)
        size: i64 = len(frames)
        self.wrote(size)
        self.owes(size)

    def send_content(self, head: bytes, content: bytes) -> None:
        """A method and its content, of which a large one is not copied."""
        self.send(head)
        if len(content) < LARGE:
            self.send(content)
        elif self.stage != CLOSED:
            self.write_large(content)
            self.wrote(len(content))
            self.owes(len(content))

    def owes(self, size: i64) -> None:
        self.unread += size
        self._yard.unread += size
        if self.is_unread():
            self.hold_unread()

    def is_unread(self) -> bool:
        settings = self._yard.settings
        if self.unread > settings.unread_max:
            return True
        # However many there are, together they must not take the memory. Who has little is not held for the others.
        return self.unread > OUTPUT_HIGH and 0 < settings.unread_total_max < self._yard.unread

    def forget_unread(self) -> None:
        self._yard.unread -= self.unread
        self.unread = 0

    def flush(self) -> None:
        """Hand all output to the socket: once per turn, whatever happened in it."""
        self._dirty = False
        if self._large:
            self._flush_large()
        data = self._out.getvalue()
        if len(data) <= _KEPT:
            self._out.truncate(0)
        else:
            self._out = BytesWriter()
        self.pending_output = 0
        if data:
            self.sent_bytes += len(data)
            self.sent_writes += 1
        if self.stage == CLOSED:
            self.forget_unread()
            self.wire.close(data)
            return
        if data:
            self.wire.write(data)
        if not self.paused_writing:
            self._was_read()
            if not self.has_room:
                self.make_room()

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
        self._was_read()
        if self.pending_output <= OUTPUT_HIGH:
            self.make_room()

    def _was_read(self) -> None:
        self.forget_unread()
        self.release_unread()

    def hold_unread(self) -> None:
        """The client does not read its answers: it must not ask for more."""

    def release_unread(self) -> None:
        """It has read them."""

    def make_room(self) -> None:
        self.has_room = True
        self.resume_consumers()

    def resume_consumers(self) -> None:
        """Its consumers can take again."""

    def await_errand(self) -> None:
        """It has begun work of more than one turn, and is not read on before `errand_done`."""

    def errand_done(self) -> None:
        pass

    def fail(self, error: AmqpError) -> None:
        """Close it for this reason."""
