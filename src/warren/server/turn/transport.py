"""One socket: asyncio's protocol on one side, the core's Wire on the other. Nothing here knows AMQP.

What comes in is handed to the core at once; what goes out is written by Node.flush at the end of the turn.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

from mypy_extensions import i64, mypyc_attr

from warren.amqp import replies
from warren.broker.node import Node
from warren.broker.session.connection import Connection
from warren.broker.world import Host, Wire
from warren.errors import InternalError
from warren.server.origin import ClientOrigin, origin_of
from warren.server.tls import subject_of
from warren.server.turn.clock import Clock
from warren.server.turn.gate import Gate, address_of
from warren.server.turn.timers import Line
from warren.server.visitor import Visitor

log = logging.getLogger("warren.transport")

# Above the first the core stops delivering to this connection, below the second it goes on.
WRITE_HIGH_WATER: Final = 256 * 1024
WRITE_LOW_WATER: Final = 64 * 1024
# Milliseconds after which a peer that was the only one to send anything is taken for alone.
ALONE_MS: Final[i64] = 1000
# Seconds before the last word to a client that must not hear it at once, by the product it says it is: a close-ok that
# is there before aiormq has begun to wait for it keeps its robust connections from ever coming back.
BREATHS: Final = {"aiormq": 0.001}
# Between the last word and the end of the stream: who has asked to close is to go first.
PARTING: Final = 0.02
# A peer that does not read what is left for it, or does not go then, is cut off after this many seconds.
CLOSE_GRACE: Final = 10.0
# No detail to the peer: that is in the log.
FAREWELL: Final = replies.close(InternalError.code, InternalError.name)


@mypyc_attr(allow_interpreted_subclasses=True)
class Turns(Host):
    """Whoever ends a turn when the core asks for it."""

    def hold(self) -> None:
        """More of this turn is under way: do not end it before `let_go`."""
        raise NotImplementedError

    def let_go(self, at_once: bool) -> None:
        """End it now, or after what else the loop has to read, if the core asked for it meanwhile."""
        raise NotImplementedError

    def after_turn(self, leaving: AmqpTransport) -> None:
        """Its connection is told to be lost when the turn is over, also one that is ending."""
        raise NotImplementedError


class Roster:
    """The transports that are connected, so that stopping can wait for them to go, and who of them speaks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Those who were told the last word, and those to whom nothing more will be sent.
        self.parting: Line[AmqpTransport] = Line(loop, PARTING, AmqpTransport.end_output)
        self.leaving: Line[AmqpTransport] = Line(loop, CLOSE_GRACE, AmqpTransport.abort)
        self._members: set[AmqpTransport] = set()
        self._speaker: AmqpTransport | None = None
        self._speaking_since: i64 = 0
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def join(self, member: AmqpTransport) -> None:
        self._members.add(member)
        self._is_empty.clear()

    def leave(self, member: AmqpTransport) -> None:
        self._members.discard(member)
        if member is self._speaker:
            self._speaker = None
        if not self._members:
            self._is_empty.set()

    def heard(self, member: AmqpTransport, now: int) -> bool:
        """Whether nobody else has said anything for a while."""
        if member is not self._speaker:
            self._speaker = member
            self._speaking_since = now
        return now - self._speaking_since >= ALONE_MS

    def is_one_alone(self, now: int) -> bool:
        """Nobody but one peer has sent anything for a while."""
        return now - self._speaking_since >= ALONE_MS

    async def wait_empty(self, seconds: float) -> None:
        """Cuts off those that have not gone by themselves after these seconds."""
        try:
            await asyncio.wait_for(self._is_empty.wait(), seconds)
        except TimeoutError:
            for member in list(self._members):
                member.abort()
            await self._is_empty.wait()


class AmqpTransport(Wire):
    """A protocol of asyncio's by its methods alone: a class that inherits from one could not be compiled whole."""

    def __init__(
        self,
        node: Node,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        roster: Roster,
        turns: Turns,
        gate: Gate,
        visitor: Visitor | None,
        origin: ClientOrigin | None = None,
    ) -> None:
        self._gate = gate
        self._node = node
        # None if by way of another node, which says whence.
        self._visitor = visitor
        self._origin = origin
        self._turns = turns
        self._clock = clock
        self._loop = loop
        self._roster = roster
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._is_closing = False
        self._breath: asyncio.TimerHandle | None = None

    def as_protocol(self) -> asyncio.Protocol:
        return cast(asyncio.Protocol, self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        self._roster.join(self)
        stream.set_write_buffer_limits(high=WRITE_HIGH_WATER, low=WRITE_LOW_WATER)
        visitor = self._visitor
        # Both loops have switched Nagle's waiting off: deliveries are already joined into one write per turn.
        host, port = address_of(stream.get_extra_info("sockname"))
        try:
            self._node.tick(self._clock.now())
            if visitor is None:
                # The certificate on a connection from another node is that node's, never the client's.
                origin = self._origin or origin_of(stream)
                self._connection = self._node.connect(
                    self, origin.host, origin.port, host, port, origin.subject, origin.is_encrypted
                )
            else:
                encrypted = stream.get_extra_info("ssl_object")
                self._connection = self._node.connect(
                    self, visitor.address, visitor.port, host, port, subject_of(encrypted), encrypted is not None
                )
        except Exception as error:  # noqa: BLE001 - one connection's fault must not reach the loop
            self._fail(error)

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        if connection is None:
            return
        now = self._clock.now()
        is_alone = self._roster.heard(self, now)
        self._turns.hold()
        try:
            self._node.tick(now)
            connection.feed(data)
        except Exception as error:  # noqa: BLE001 - one connection's fault must not reach the loop
            self._fail(error)
        # Of several peers, all that have sent something are read before the turn ends, to write to each only once. And
        # of one that has more to say than a turn takes, the loop would read on and on before it looks at anybody else.
        self._turns.let_go(is_alone and not connection.waits_for_turn)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._roster.leave(self)
        if self._breath is not None:
            self._breath.cancel()
        self.tell_lost()
        self._transport = None

    # The core's side.

    def opened(self) -> None:
        if self._visitor is not None:
            self._gate.proven(self._visitor.number)

    def write(self, data: bytes) -> None:
        transport = self._transport
        if transport is not None and not self._is_closing:
            transport.write(data)

    def pause_reading(self) -> None:
        transport = self._transport
        if transport is not None and not self._is_closing:
            transport.pause_reading()

    def resume_reading(self) -> None:
        transport = self._transport
        if transport is not None and not self._is_closing:
            transport.resume_reading()

    def close(self, farewell: bytes) -> None:
        transport = self._transport
        if transport is None or self._is_closing:
            return
        self._is_closing = True
        # What the connection held must not wait for the peer to go, only for the end of the flush that called this.
        self._turns.after_turn(self)
        transport.resume_reading()
        breath = self._breath_needed()
        if breath > 0:
            self._breath = self._loop.call_later(breath, self._part, farewell)
        else:
            self._part(farewell)

    def _breath_needed(self) -> float:
        connection = self._connection
        product = None if connection is None else connection.client_properties.get("product")
        return 0.0 if product is None else BREATHS.get(str(product.value), 0.0)

    def _part(self, farewell: bytes) -> None:
        if self._transport is None:
            return
        self._transport.write(farewell)
        # Go's client closes from several routines at once: one takes the close-ok, and an end of the stream that
        # comes before it has closed its socket is an error to the others.
        self._roster.parting.join(self)

    def end_output(self) -> None:
        """Unless the peer has gone meanwhile, there is nothing more to be read from us."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            # A socket closed with unread input resets the peer, and what it has not read yet is gone: amqplib sends
            # publishes behind its connection.close and would lose the close-ok. So read on, to nowhere, until it goes.
            transport.write_eof()
        else:
            transport.close()
        self._roster.leaving.join(self)

    def abort(self) -> None:
        """Close at once, whatever is still to be written."""
        if self._transport is not None:
            self._transport.abort()

    def tell_lost(self) -> None:
        """Once, whether we or the peer ended it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            self._node.tick(self._clock.now())
            connection.lost()
        except Exception:
            log.exception("a lost connection could not be cleaned up")

    def _fail(self, error: Exception) -> None:
        """The core has a bug: say so once, and let it cost no more than this connection."""
        log.error("a connection failed unexpectedly and was dropped", exc_info=error)
        self.close(FAREWELL)
