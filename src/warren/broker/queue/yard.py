"""What queues stand on: the part of a node that they know. The rest of the node is built on top of it.

Every room knows the node as far as it needs to: queues as a Yard, virtual hosts as a Realm, connections as a House.
Each adds to the one before, and the last is the Node itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.broker.metrics import QueueCounters
from warren.broker.queue.awaiting import Awaiting
from warren.broker.queue.deadletter import DeadLetters
from warren.broker.queue.errands import Errands
from warren.broker.queue.listener import EventListener
from warren.broker.queue.monitor import Monitor
from warren.broker.queue.store import Store
from warren.broker.rules.arguments import QueueOptions
from warren.broker.settings import Settings
from warren.broker.timers import Timers
from warren.broker.world import Host

if TYPE_CHECKING:
    from warren.broker.queue.entry import Entry
    from warren.broker.queue.outlet import Outlet
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.recipient import Recipient
    from warren.broker.queue.schedule import Schedule


class Yard:
    def __init__(self, host: Host, settings: Settings, store: Store, now_ms: int) -> None:
        self.host = host
        self.settings = settings
        self.store = store
        # Milliseconds since the epoch, never going backwards.
        self.now: i64 = now_ms
        self.timers = Timers()
        self.monitor = Monitor(self)
        self.dead_letters = DeadLetters(host)
        self.errands = Errands(host)
        # The node puts somebody here who makes events of it.
        self.events = EventListener()
        # Somebody wants journeys, or a vhost is traced: publishes may have an observer, and deliveries are told.
        self.is_watched = False
        self.watches_deliveries = False
        # Of queues without arguments and policies: by their type, and by what the settings say where they do not.
        self.plain_options: dict[tuple[str, int, int], QueueOptions] = {}
        # What deleted queues had counted, by their type.
        self.past_queues: dict[str, QueueCounters] = {}
        self.turns: i64 = 0
        # The host knows that the turn has to end; to tell it again costs more than to remember that.
        self._is_woken = False
        # The turn is ending: what is written, or confirmed, leaves in it without another.
        self.is_ending = False
        # Clients are told to go: what they give back now is not for them to answer for.
        self.is_stopping = False
        # Somebody had more to say in this turn than a turn takes.
        self.is_pressed = False
        # Work for the end of the turn, and of the next.
        self.dirty: list[Outlet] = []
        # What all clients have asked for and not read.
        self.unread: i64 = 0
        # Those whose output waits for the disk.
        self.held: dict[Outlet, bool] = {}
        self.draining: dict[Queue, bool] = {}
        self.draining_later: dict[Queue, bool] = {}
        # How many messages have gone from queues to consumers in this turn.
        self.handed_out: i64 = 0
        self.awaiting: deque[Awaiting] = deque()

    def wake(self) -> None:
        """Something has happened that takes effect at the end of the turn."""
        if not self._is_woken:
            self._is_woken = True
            self.host.wake()

    def wake_for_output(self) -> None:
        """Something is to be written: an end that is under way takes it along."""
        if not self.is_ending:
            self.wake()

    def begin_flush(self) -> None:
        """The turn ends; what happens from now on, output aside, asks for another end."""
        self.turns += 1
        self._is_woken = False
        self.is_ending = True

    def drain_soon(self, queue: Queue) -> None:
        if not self.draining:
            self.wake()
        self.draining[queue] = True

    def drain_later(self, queue: Queue) -> None:
        """Hand out the rest next turn, so that others get theirs."""
        self.draining_later[queue] = True
        self.wake()

    def await_position(self, awaiting: Awaiting) -> None:
        """One that waits for the store's position of now."""
        self.awaiting.append(awaiting)

    def remember_counters(self, queue: Queue) -> None:
        """The queue is gone; what it counted stays in the sums."""
        self.past_queues.setdefault(queue.type, QueueCounters()).add(queue.counters)

    def wall_seconds(self) -> int:
        return self.now // 1000

    # -- what queues ask of the rest of the node -------------------------------------------------------------------

    def expire_queue(self, queue: Queue) -> None:
        """Nobody has used it for as long as it allows: it goes."""
        raise NotImplementedError

    def release_scheduled(self, schedule: Schedule, entry: Entry) -> None:
        """A message that a delayed exchange has held back goes on, then it leaves the schedule."""
        raise NotImplementedError

    def queue_failed(self, queue: Queue) -> None:
        """Whoever waits for it to answer hears that it will not."""
        raise NotImplementedError

    def watch_delivery(self, channel: Recipient, queue: Queue, entry: Entry) -> None:
        """Asked for by `watches_deliveries`."""
        raise NotImplementedError
