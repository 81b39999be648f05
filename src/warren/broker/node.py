"""The broker as a whole: what queues, virtual hosts and connections know of it, and all that stands on those.

Time comes in by `tick`, bytes by Connection.feed, and `flush` ends a turn: see turns.py.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.broker import turns
from warren.broker.exchanges.base import ExchangeDecorator
from warren.broker.message import Message
from warren.broker.publish.republish import FanOut, queues_for
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Budget
from warren.broker.queue.listener import INTERNAL
from warren.broker.queue.monitor import Monitor
from warren.broker.queue.outlet import CLOSED, RUNNING
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule, arrived
from warren.broker.queue.store import Store
from warren.broker.session.connection import Connection
from warren.broker.session.expulsion import Expulsion
from warren.broker.session.guard import (
    GuardedExchangeDecorator,
    GuardedInterceptor,
    GuardedQueueDecorator,
    GuardedTracer,
    learn_keys,
)
from warren.broker.session.house import House
from warren.broker.session.interceptors import PUBLISH, Interceptor
from warren.broker.session.tracer import Tracer
from warren.broker.settings import Settings
from warren.broker.vhost.shapes import vhost_item
from warren.broker.vhost.sweeps import QueueSweep
from warren.broker.vhost.vhost import VHost
from warren.broker.watch.events import EVENT_EXCHANGE, Events
from warren.broker.watch.watcher import Watch
from warren.broker.wire.reader import Reader
from warren.broker.world import Host, NoRecorder, Recorder, Wire
from warren.errors import WarrenError

_SETTLING: Final = ("basic.ack", "basic.nack", "basic.reject")


class Node(House):
    def __init__(
        self,
        host: Host,
        settings: Settings,
        recorder: Recorder | None,
        store: Store | None = None,
        now_ms: int = 0,
        version: str = "",
    ) -> None:
        super().__init__(
            host,
            settings,
            NoRecorder() if recorder is None else recorder,
            Store() if store is None else store,
            now_ms,
            version,
        )
        self.started_at: i64 = now_ms
        self.events = Events(self)
        self.watch = Watch(self)
        self.watching = self.watch
        self.journeys = self.watch.journeys
        self.latency = self.watch.latency
        self.global_parameters: dict[str, object] = {}
        self._connection_count = 0

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Time passes. Due timers fire."""
        if now_ms > self.now:
            self.now = now_ms
        self.events.actor = INTERNAL
        if self.timers.fire_due(self.now):
            self.wake()

    def next_deadline(self) -> int:
        return self.timers.next_deadline()

    def flush(self) -> None:
        """The end of a turn."""
        turns.flush(self)

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
        connection.intake = Reader(connection)
        self.connections[identity] = connection
        self.wake()
        return connection

    def connect_within(self, wire: Wire, user: str, vhost: VHost) -> Connection:
        """Of a user who has logged in otherwise, without a socket. It is not listed, and nobody limits it."""
        connection = Connection(self, wire, -1, "127.0.0.1", 0, "127.0.0.1", 0, False, None)
        reader = Reader(connection)
        connection.intake = reader
        reader.begin_open(user, vhost)
        return connection

    def begin_shutdown(self, reason: str) -> None:
        self.is_stopping = True
        for connection in list(self.connections.values()):
            if connection.stage == RUNNING:
                connection.close_by_admin(f"broker forced connection closure with reason '{reason}'")
            elif connection.stage != CLOSED:
                connection.end()

    # -- messages that have waited ---------------------------------------------------------------------------------

    def release_scheduled(self, schedule: Schedule, entry: Entry) -> None:
        message = arrived(entry.message, self.settings.frame_max)
        vhost = self.vhosts.get(schedule.vhost)
        queues = [] if vhost is None else queues_for(vhost, schedule.exchange, message)
        Release(self.monitor, schedule, entry, message, queues).begin(self.errands)

    # -- virtual hosts ---------------------------------------------------------------------------------------------

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
        self.record("vhost", (name,), vhost_item(vhost))
        return vhost

    def delete_vhost(self, name: str) -> bool:
        """With all that is in it; its connections are closed."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            return False
        if not vhost.is_leaving:
            self.errands.begin(VHostSweep(self, vhost), None)
        return True

    def vhost_swept(self, vhost: VHost) -> None:
        """Nothing is left in it."""
        name = vhost.name
        del self.vhosts[name]
        self.access.forget_vhost(name)
        self.unrecord("vhost", (name,))
        self.topology_changed()
        self.watching_changed()
        self.events.done("vhost.deleted", {"name": name})

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

    # -- extensions ------------------------------------------------------------------------------------------------

    def install_interceptor(self, interceptor: Interceptor) -> None:
        guarded = GuardedInterceptor(interceptor, self.host)
        for name in guarded.applies_to():
            if name in self.interceptors:
                raise WarrenError(f"two interceptors want {name}: {self.interceptors[name].name} and {guarded.name}")
            self.interceptors[name] = guarded
        self.intercepts_publish = PUBLISH in self.interceptors
        self.intercepts_settling = any(name in self.interceptors for name in _SETTLING)

    def install_tracer(self, tracer: Tracer) -> None:
        self.watch.tracer = GuardedTracer(tracer, self.host)
        self.watching_changed()

    def install_exchange_decorator(self, decorator: ExchangeDecorator) -> None:
        learn_keys(self.policy_keys, decorator)
        self.exchange_decorators.append(GuardedExchangeDecorator(decorator, self.host))
        self._reapply_policies()

    def install_queue_decorator(self, decorator: QueueDecorator) -> None:
        learn_keys(self.policy_keys, decorator)
        self.queue_decorators.append(GuardedQueueDecorator(decorator, self.host))
        self._reapply_policies()

    def _reapply_policies(self) -> None:
        for vhost in self.vhosts.values():
            vhost.reapply_policies()


class Release(FanOut):
    """It came into the exchange when it was published; now it only leaves."""

    def __init__(
        self, monitor: Monitor, schedule: Schedule, entry: Entry, message: Message, queues: list[Queue]
    ) -> None:
        super().__init__(monitor, schedule.exchange, message, queues, None)
        self._schedule = schedule
        self._entry = entry
        schedule.is_releasing = self.is_wide()

    def done(self) -> None:
        self._schedule.is_releasing = False
        if not self._schedule.deleted:
            self._schedule.backing.settle(self._entry)

    def failed(self) -> bool:
        self._schedule.is_releasing = False
        if not self.has_lost(self._schedule):
            self._schedule.put_back(self._entry)
        return True


class VHostSweep(QueueSweep):
    """First its connections, and nobody opens another; then the queues and the exchanges, and those that came
    meanwhile: whoever is not closed yet may declare, and so may the API. Then the virtual host itself."""

    def __init__(self, node: Node, vhost: VHost) -> None:
        super().__init__(vhost, [], [])
        self._node = node
        vhost.is_leaving = True
        inside = [each for each in node.connections.values() if each.vhost is vhost and each.stage == RUNNING]
        self._expulsion: Expulsion | None = Expulsion(node, inside, f"vhost '{vhost.name}' is deleted")

    def sweep(self, budget: Budget) -> bool:
        vhost = self.vhost
        if self._expulsion is not None:
            if not self._expulsion.step(budget):
                return False
            self._expulsion = None
        while super().sweep(budget):
            if not (vhost.queues or vhost.exchanges):
                self._node.vhost_swept(vhost)
                return True
            self.add(list(vhost.queues.values()), list(vhost.exchanges.values()))
        return False

    def failed(self) -> bool:
        self.vhost.is_leaving = False
        if self._expulsion is not None:
            self._expulsion.failed()
        return super().failed()
