"""The clocks of a connection: the deadline of what it is in the middle of, and heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.constants import HEARTBEAT_FRAME
from warren.broker.queue.outlet import CLOSED, RUNNING, STARTING
from warren.broker.timers import Timer
from warren.broker.world import ERROR, WARNING

if TYPE_CHECKING:
    from warren.broker.session.connection import Connection


class ConnectionTimer(Timer):
    """The deadline of whatever the connection is in the middle of: handshake, close, or leaving answers unread."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection: Connection | None = connection

    def drop(self) -> None:
        """For good: it may be a while until nobody knows the timer any more, and the connection need not wait."""
        if self._connection is not None:
            self._connection.node.timers.cancel(self)
            self._connection = None

    def fire(self, now: i64) -> None:
        connection = self._connection
        if connection is None:
            return
        self.due_for(connection)

    def due_for(self, connection: Connection) -> None:
        if connection.stage == STARTING:
            connection.node.host.log(WARNING, f"closing {connection.name}: handshake timeout")
        elif connection.stage == RUNNING:
            connection.node.host.log(WARNING, f"closing {connection.name}: it does not read its answers")
        connection.end()


class HeartbeatTimer(ConnectionTimer):
    """Ticks every half timeout: sends when nothing was sent, gives up after two timeouts of silence."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._sent: i64 = -1
        self._received: i64 = -1
        self._silent_ticks: i64 = 0

    def start(self, connection: Connection) -> None:
        connection.node.timers.schedule(self, connection.node.now + connection.heartbeat * 500)

    def _send(self, connection: Connection) -> None:
        is_idle = connection.sent_bytes == self._sent or self._sent < 0
        self._sent = connection.sent_bytes
        if is_idle:
            connection.send(HEARTBEAT_FRAME)
            # Our own beat is no traffic: else every other one is left out, and a client that allows one timeout of
            # silence and not two (amqp-client.js) gives us up.
            self._sent += len(HEARTBEAT_FRAME)

    def due_for(self, connection: Connection) -> None:
        if connection.stage == CLOSED:
            return
        self._send(connection)
        if connection.received_bytes != self._received or connection.is_held():
            self._silent_ticks = 0
        else:
            self._silent_ticks += 1
        self._received = connection.received_bytes
        if self._silent_ticks > 4:
            seconds = connection.heartbeat
            connection.node.host.log(
                ERROR, f"closing {connection.name}: missed heartbeats from client, timeout: {seconds}s"
            )
            connection.end()
            return
        self.start(connection)
