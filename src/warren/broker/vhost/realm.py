"""The node as virtual hosts know it: who may do what, what is declared where, and where definitions are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.broker.exchanges.base import ExchangeDecorator
from warren.broker.metrics import NodeCounters
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.queue.store import Store
from warren.broker.queue.yard import Yard
from warren.broker.rules.access import Access
from warren.broker.rules.queue_settings import Setting
from warren.broker.settings import Settings
from warren.broker.world import Host, Recorder

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.vhost.vhost import VHost


class Realm(Yard):
    def __init__(self, host: Host, settings: Settings, recorder: Recorder, store: Store, now_ms: int) -> None:
        super().__init__(host, settings, store, now_ms)
        self.recorder = recorder
        self._recording = False
        # The store's position at which all that is declared now is durable.
        self.recorded: i64 = 0
        self.access = Access()
        self.counters = NodeCounters()
        self.exchange_decorators: list[ExchangeDecorator] = []
        self.queue_decorators: list[QueueDecorator] = []
        # Those that extensions brought.
        self.policy_keys: dict[str, Setting] = {}
        self.vhosts: dict[str, VHost] = {}
        # Changes that have begun and are not over: see sweeps.py.
        self.sweeping: i64 = 0
        # Grows whenever a remembered route or permission may be wrong.
        self.topology: i64 = 0

    def open_vhost(self, name: str) -> VHost | None:
        """The one of that name to work in, unless it is being deleted."""
        vhost = self.vhosts.get(name)
        return None if vhost is None or vhost.is_leaving else vhost

    def topology_changed(self) -> None:
        self.topology += 1

    def start_recording(self) -> None:
        """From now on what changes is recorded; until then it was being restored."""
        self._recording = True

    def record(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None:
        if self._recording:
            self.recorder.put(kind, key, value)
            self.recorded = self.store.position
            self.wake()

    def unrecord(self, kind: str, key: tuple[str, ...]) -> None:
        if self._recording:
            self.recorder.delete(kind, key)
            self.recorded = self.store.position
            self.wake()

    def expire_queue(self, queue: Queue) -> None:
        self.vhosts[queue.vhost].delete_queue(queue)

    def release_credit(self, queue: Queue) -> None:
        """The queue is gone, and owes nobody anything."""
        raise NotImplementedError
