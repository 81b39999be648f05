"""The broker as a whole: vhosts, users, connections, timers, and the end of each turn.

A turn is what happens between two looks at the sockets. Its effects collect here (output, confirms, queues to drain,
definitions to record) and `flush` carries them out in the order that keeps every promise: definitions are durable
before anything that speaks of them leaves.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.access import Access, User
from warren.broker.awaiting import Awaiting, AwaitingAnswer
from warren.broker.confirm import Confirms
from warren.broker.connection import Connection
from warren.broker.credit import Credit
from warren.broker.deadletter import DeadLetters
from warren.broker.events import EVENT_EXCHANGE, INTERNAL, Events
from warren.broker.exchanges.base import ExchangeDecorator
from warren.broker.firehose import trace_delivery
from warren.broker.interceptors import PUBLISH, Interceptor, QueueDecorator
from warren.broker.journey import Journeys
from warren.broker.latency import Latency
from warren.broker.logins import Logins
from warren.broker.message import Entry
from warren.broker.metrics import NodeCounters
from warren.broker.monitor import Monitor
from warren.broker.observer import Watching
from warren.broker.queue import Queue, QueueCounters
from warren.broker.reader import CLOSED, RUNNING
from warren.broker.settings import Settings
from warren.broker.store import Store
from warren.broker.timers import Timers
from warren.broker.tracer import Tracer
from warren.broker.vhost import VHost
from warren.broker.watcher import WatchingNode
from warren.broker.world import Host, NoRecorder, Recorder, Wire
from warren.errors import NO_METHOD, NotAllowed, WarrenError

if TYPE_CHECKING:
    from warren.broker.channel import Channel

# As publishers are told of them.
_ALARM_TEXTS: Final = {"memory": "memory", "disk": "disk", "fd": "file descriptors"}
_ACK: Final = "basic.ack"


class Node:
    def __init__(
        self,
        host: Host,
        settings: Settings,
        recorder: Recorder | None = None,
        store: Store | None = None,
        now_ms: int = 0,
        version: str = "",
    ) -> None:
        self.host = host
        self.settings = settings
        self.recorder: Recorder = NoRecorder() if recorder is None else recorder
        self.store = Store() if store is None else store
        self.version = version
        # Milliseconds since the epoch, never going backwards.
        self.now: i64 = now_ms
        self.started_at: i64 = now_ms
        self.timers = Timers()
        self.access = Access()
        self.logins = Logins(settings.login_failures_max)
        self.counters = NodeCounters()
        # What deleted queues had counted, by their type.
        self.past_queues: dict[str, QueueCounters] = {}
        self.monitor = Monitor(self)
        self.dead_letters = DeadLetters(self)
        self.interceptors: dict[str, Interceptor] = {}
        # Publishes and acks take a short way, on which these are all that is asked.
        self.intercepts_publish = False
        self.intercepts_ack = False
        # Somebody wants journeys, or a vhost is traced: publishes may have an observer, and deliveries are told.
        self.is_watched = False
        self.watching: Watching = WatchingNode(self)
        self.watches_deliveries = False
        self.latency = Latency(self)
        self.journeys = Journeys(self)
        self.tracer: Tracer | None = None
        self.events = Events(self)
        self.exchange_decorators: list[ExchangeDecorator] = []
        self.queue_decorators: list[QueueDecorator] = []
        self.vhosts: dict[str, VHost] = {}
        self.global_parameters: dict[str, object] = {}
        self.connections: dict[int, Connection] = {}
        self._connection_count = 0
        self.user_connections: dict[str, int] = {}
        self.reply_channels: dict[str, Channel] = {}
        # Grows whenever a remembered route or permission may be wrong.
        self.topology: i64 = 0
        self.alarms: dict[str, bool] = {}
        self.alarmed = False
        self.is_stopping = False
        self.turns: i64 = 0
        # Somebody had more to say in this turn than a turn takes.
        self.is_pressed = False
        # Work for the end of the turn.
        self.dirty: list[Connection] = []
        self.next_turn: list[Connection] = []
        self.answering: list[Confirms] = []
        self._draining: dict[Queue, bool] = {}
        self._draining_later: dict[Queue, bool] = {}
        self._awaiting: deque[Awaiting] = deque()
        # Channels that queues owe credit.
        self.in_debt: dict[Credit, bool] = {}
        self._recording = False

    # -- turns -----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Time passes. Due timers fire."""
        if now_ms > self.now:
            self.now = now_ms
        self.events.actor = INTERNAL
        if self.timers.fire_due(self.now):
            self.host.wake()

    def next_deadline(self) -> int:
        return self.timers.next_deadline()

    def flush(self) -> None:
        """The end of a turn: everything that happened in it takes effect outside."""
        self.turns += 1
        self.is_pressed = bool(self.next_turn)
        if self._draining_later:
            self._draining.update(self._draining_later)
            self._draining_later = {}
        self.release_synced()
        self._settle_turn()
        self.recorder.commit()
        self.store.write()
        if self.next_turn:
            waiting, self.next_turn = self.next_turn, []
            for connection in waiting:
                connection.begin_turn()
        while self.dirty:
            dirty, self.dirty = self.dirty, []
            for connection in dirty:
                connection.flush()
            # A flushed socket may let consumers take more; that output leaves in the next turn.
            self._settle_turn()
            if self.dirty:
                self.host.wake()
                return

    def _settle_turn(self) -> None:
        if self.dead_letters.waiting:
            self.dead_letters.run()
        while self._draining:
            draining, self._draining = self._draining, {}
            for queue in draining:
                if not queue.deleted:
                    self.monitor.drain(queue)
            if self.dead_letters.waiting:
                self.dead_letters.run()
        if self.answering:
            answering, self.answering = self.answering, []
            for confirms in answering:
                confirms.flush()

    def drain_soon(self, queue: Queue) -> None:
        if not self._draining:
            self.host.wake()
        self._draining[queue] = True

    def drain_later(self, queue: Queue) -> None:
        """It has had its share of this turn."""
        self._draining_later[queue] = True
        self.host.wake()

    # -- the store -------------------------------------------------------------------------------------------------

    def await_sync(self, channel: Channel, seqno: i64) -> None:
        self._awaiting.append(AwaitingAnswer(self.store.position, channel, seqno))

    def await_position(self, awaiting: Awaiting) -> None:
        """One that waits for the store's position of now."""
        self._awaiting.append(awaiting)

    def release_synced(self) -> None:
        """Answer all that the store has made durable since, and pay back credit once it follows again."""
        awaiting = self._awaiting
        synced = self.store.synced
        while awaiting and awaiting[0].position <= synced:
            awaiting.popleft().reached()
        for stream in self.store.take_committed():
            self.drain_soon(stream)
        if self.journeys.awaiting:
            self.journeys.confirm_synced(synced)
        if self.in_debt and not self.store.is_behind():
            in_debt, self.in_debt = self.in_debt, {}
            for credit in in_debt:
                credit.grant_all()

    def remember_counters(self, queue: Queue) -> None:
        """The queue is gone; what it counted stays in the sums."""
        past = self.past_queues.get(queue.type)
        if past is None:
            past = QueueCounters()
            self.past_queues[queue.type] = past
        past.add(queue.counters)

    def release_credit(self, queue: Queue) -> None:
        for credit in list(self.in_debt):
            credit.release(queue)

    # -- connections -----------------------------------------------------------------------------------------------

    def connect(
        self,
        wire: Wire,
        peer_host: str,
        peer_port: int,
        host: str,
        port: int,
        tls_subject: str | None = None,
        tls: bool = False,
    ) -> Connection:
        self._connection_count += 1
        identity = self._connection_count
        connection = Connection(self, wire, identity, peer_host, peer_port, host, port, tls, tls_subject)
        self.connections[identity] = connection
        self.host.wake()
        return connection

    def opened(self, connection: Connection) -> None:
        vhost = connection.vhost
        if vhost is not None:
            vhost.connections += 1
        self.counters.connections_opened += 1
        self.events.connection("created", connection)
        self.user_connections[connection.user] = self.user_connections.get(connection.user, 0) + 1

    def forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.identity, None) is None or connection.vhost is None:
            return
        connection.vhost.connections -= 1
        self.counters.connections_closed += 1
        self.events.connection("closed", connection)
        left = self.user_connections[connection.user] - 1
        if left > 0:
            self.user_connections[connection.user] = left
        else:
            del self.user_connections[connection.user]

    def check_connection_limit(self, connection: Connection) -> None:
        limit = self.settings.connection_max
        if limit > 0 and len(self.connections) > limit:
            raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")

    def check_user_connection_limit(self, connection: Connection) -> None:
        limit = self._user_limit(connection.user, "max-connections")
        if 0 <= limit <= self.user_connections.get(connection.user, 0):
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

    def begin_shutdown(self, reason: str) -> None:
        self.is_stopping = True
        for connection in list(self.connections.values()):
            if connection.stage == RUNNING:
                connection.close_by_admin(f"broker forced connection closure with reason '{reason}'")
            elif connection.stage != CLOSED:
                connection.end()

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
            self.host.wake()

    def alarm_text(self) -> str:
        return "low on " + " & ".join([_ALARM_TEXTS[name] for name in _ALARM_TEXTS if name in self.alarms])

    def watch_delivery(self, channel: Channel, queue: Queue, entry: Entry) -> None:
        if self.latency.followed:
            self.latency.delivered(queue, entry)
        if channel.vhost.tracing:
            trace_delivery(channel, queue.name, entry)
        if self.tracer is not None:
            headers = entry.message.properties().headers
            self.tracer.delivered(channel.vhost.name, queue.name, headers, entry.redelivered)

    def watching_changed(self) -> None:
        is_traced = any(vhost.tracing for vhost in self.vhosts.values())
        is_told = is_traced or self.tracer is not None
        self.is_watched = is_told or self.journeys.is_on() or self.latency.wanted > 0
        self.watches_deliveries = is_told or len(self.latency.followed) > 0

    # -- definitions -----------------------------------------------------------------------------------------------

    def topology_changed(self) -> None:
        self.topology += 1

    def add_vhost(
        self,
        name: str,
        description: str = "",
        tags: list[str] | None = None,
        default_queue_type: str | None = None,
    ) -> VHost:
        existing = self.vhosts.get(name)
        if existing is not None:
            return existing
        vhost = VHost(self, name, description, tags)
        vhost.default_queue_type = default_queue_type
        self.vhosts[name] = vhost
        if name == self.settings.default_vhost:
            vhost.add_system_exchange(EVENT_EXCHANGE, "topic")
        self.events.done("vhost.created", self.vhost_facts(vhost))
        for exchange in vhost.exchanges.values():
            self.events.exchange("created", exchange)
        definition: dict[str, object] = {"name": name, "description": description, "tags": list(vhost.tags)}
        if default_queue_type is not None:
            definition["default_queue_type"] = default_queue_type
        self.record("vhost", (name,), definition)
        return vhost

    def delete_vhost(self, name: str) -> bool:
        """With all that is in it; its connections are closed."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            return False
        for connection in list(self.connections.values()):
            if connection.vhost is vhost:
                connection.close_by_admin(f"vhost '{name}' is deleted")
        for queue in list(vhost.queues.values()):
            vhost.delete_queue(queue)
        for exchange in list(vhost.exchanges.values()):
            vhost.delete_exchange(exchange)
        del self.vhosts[name]
        self.access.forget_vhost(name)
        self.unrecord("vhost", (name,))
        self.topology_changed()
        self.watching_changed()
        self.events.done("vhost.deleted", {"name": name})
        return True

    def vhost_facts(self, vhost: VHost) -> dict[str, object]:
        """What an event tells of it."""
        return {
            "name": vhost.name,
            "description": vhost.description,
            "tags": list(vhost.tags),
            "default_queue_type": vhost.default_queue_type or "undefined",
            "tracing": vhost.tracing,
            "cluster_state": {self.settings.node_name: "running"},
        }

    def bootstrap(self, algorithm: str, password_hash: str) -> None:
        """A first start: the default vhost and the default user, who may do everything there."""
        settings = self.settings
        self.add_vhost(settings.default_vhost)
        user = User(settings.default_user, password_hash, algorithm, ["administrator"], {})
        self.access.put_user(user)
        self.access.set_permission(user.name, settings.default_vhost, ".*", ".*", ".*")

    def start_recording(self) -> None:
        """From now on what changes is recorded; until then it was being restored."""
        self._recording = True

    def record(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None:
        if self._recording:
            self.recorder.put(kind, key, value)
            self.host.wake()

    def unrecord(self, kind: str, key: tuple[str, ...]) -> None:
        if self._recording:
            self.recorder.delete(kind, key)
            self.host.wake()

    def install_interceptor(self, interceptor: Interceptor) -> None:
        for name in interceptor.applies_to():
            if name in self.interceptors:
                first = self.interceptors[name]
                raise WarrenError(
                    f"two interceptors want {name}: {type(first).__name__} and {type(interceptor).__name__}"
                )
            self.interceptors[name] = interceptor
        self.intercepts_publish = PUBLISH in self.interceptors
        self.intercepts_ack = _ACK in self.interceptors

    def install_tracer(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.watching_changed()

    def wall_seconds(self) -> int:
        return self.now // 1000
