"""The node as connections and channels know it: who is connected, what they wait for, and who watches or intercepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp.constants import BASIC_PUBLISH
from warren.amqp.fields import Table
from warren.broker.queue.store import Store
from warren.broker.rules.logins import Logins
from warren.broker.session.guard import GuardedInterceptor
from warren.broker.session.observer import Watching
from warren.broker.settings import Settings
from warren.broker.vhost.realm import Realm
from warren.broker.world import INFO, WARNING, Host, Recorder
from warren.errors import NO_METHOD, NotAllowed, ResourceError

if TYPE_CHECKING:
    from warren.broker.queue.entry import Entry
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.recipient import Recipient
    from warren.broker.session.channel import Channel
    from warren.broker.session.confirm import Confirms
    from warren.broker.session.connection import Connection
    from warren.broker.session.credit import Credit

# As publishers are told of them.
_ALARM_TEXTS: Final = {"memory": "memory", "disk": "disk", "fd": "file descriptors", "replication": "nodes in sync"}


def unfinished_of(connection: Connection) -> int:
    return connection.unfinished


class House(Realm):
    def __init__(
        self,
        host: Host,
        settings: Settings,
        recorder: Recorder,
        store: Store,
        now_ms: int,
        version: str,
    ) -> None:
        super().__init__(host, settings, recorder, store, now_ms)
        self.version = version
        # The node puts somebody here who watches.
        self.watching = Watching()
        self.logins = Logins(settings.login_failures_max)
        self.interceptors: dict[str, GuardedInterceptor] = {}
        # Publishes and acks take a short way, on which these are all that is asked.
        self.intercepts_publish = False
        self.intercepts_settling = False
        self.connections: dict[int, Connection] = {}
        # connection.start as it was sent last, by the cluster's name and the mechanisms.
        self.greetings: dict[tuple[str, str], bytes] = {}
        # What clients say of themselves, by its bytes.
        self.clients: dict[bytes, Table] = {}
        # Where followers serve readers of streams, as clients are told when they connect.
        self.stream_ports: list[str] = []
        self.stream_tls_ports: list[str] = []
        self._user_connections: dict[str, int] = {}
        self.open_connections = 0
        self.reply_channels: dict[str, Channel] = {}
        self.alarms: dict[str, bool] = {}
        self.alarmed = False
        # Work for the end of the turn: who may read on in the next, and whose answers have collected.
        self.next_turn: list[Connection] = []
        self.answering: list[Confirms] = []
        # Channels that queues owe credit.
        self.in_debt: dict[Credit, bool] = {}
        # Bytes of bodies whose rest is still to come and of transactions, on all connections.
        self.unfinished: i64 = 0

    # -- connections -----------------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        vhost = connection.vhost
        if vhost is not None:
            vhost.connections += 1
        self.open_connections += 1
        self.counters.connections_opened += 1
        self.events.connection("created", connection)
        place = "" if vhost is None else vhost.name
        self.host.log(INFO, f"{connection.name}: user '{connection.user}' connected to vhost '{place}'")
        self._user_connections[connection.user] = self._user_connections.get(connection.user, 0) + 1

    def forget(self, connection: Connection, has_said_so: bool = True) -> None:
        if self.connections.pop(connection.identity, None) is None or connection.vhost is None:
            return
        connection.vhost.connections -= 1
        self.open_connections -= 1
        self.counters.connections_closed += 1
        self.events.connection("closed", connection)
        if has_said_so:
            self.host.log(INFO, f"{connection.name}: user '{connection.user}' is gone")
        else:
            self.host.log(
                WARNING, f"{connection.name}: user '{connection.user}' is gone without closing the connection"
            )
        left = self._user_connections[connection.user] - 1
        if left > 0:
            self._user_connections[connection.user] = left
        else:
            del self._user_connections[connection.user]

    def check_connection_limit(self, connection: Connection) -> None:
        limit = self.settings.connection_max
        if 0 < limit <= self.open_connections:
            raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")

    def check_user_connection_limit(self, connection: Connection) -> None:
        limit = self._user_limit(connection.user, "max-connections")
        if 0 <= limit <= self._user_connections.get(connection.user, 0):
            raise NotAllowed(
                f"connection refused for user '{connection.user}': user connection limit ({limit}) is reached"
            )

    def check_channel_limit(self, connection: Connection) -> None:
        limit = self._user_limit(connection.user, "max-channels")
        if limit < 0:
            return
        count = 0
        for other in self.connections.values():
            if other.user == connection.user:
                count += len(other.channels)
        if count >= limit:
            raise NotAllowed(
                f"number of channels opened for user '{connection.user}' "
                f"has reached the maximum allowed user limit of {limit}",
                NO_METHOD,
            )

    def _user_limit(self, user: str, name: str) -> int:
        known = self.access.users.get(user)
        return -1 if known is None else known.limits.get(name, -1)

    def limit_unfinished(self) -> None:
        """Whoever has sent most without an end goes: what others have begun can then be finished."""
        if not 0 < self.settings.unfinished_max < self.unfinished:
            return
        most = max(self.connections.values(), key=unfinished_of, default=None)
        if most is not None:
            most.fail(
                ResourceError(
                    f"too many bytes of unfinished or uncommitted messages ({most.unfinished})", BASIC_PUBLISH
                )
            )

    # -- queues that fail or go ------------------------------------------------------------------------------------

    def queue_failed(self, queue: Queue) -> None:
        for connection in list(self.connections.values()):
            for channel in list(connection.channels.values()):
                channel.queue_failed(queue)

    def release_credit(self, queue: Queue) -> None:
        for credit in list(self.in_debt):
            credit.release(queue)

    # -- alarms ----------------------------------------------------------------------------------------------------

    def set_alarm(self, name: str, on: bool) -> None:
        """`name` is memory, disk or fd. Publishers are blocked at their next publish, and freed when all is well."""
        if on:
            self.alarms[name] = True
        else:
            self.alarms.pop(name, None)
        self.events.emit("alarm.set" if on else "alarm.cleared", {"source": name, "node": self.settings.node_name})
        self.alarmed = len(self.alarms) > 0
        if not self.alarmed:
            for connection in list(self.connections.values()):
                connection.unblock()
            self.wake()

    def alarm_text(self) -> str:
        return "low on " + " & ".join([_ALARM_TEXTS[name] for name in _ALARM_TEXTS if name in self.alarms])

    # -- watching --------------------------------------------------------------------------------------------------

    def watching_changed(self) -> None:
        """Somebody began or ceased to watch."""
        self.watching.changed()

    def watch_delivery(self, channel: Recipient, queue: Queue, entry: Entry) -> None:
        self.watching.delivered(channel, queue, entry)
