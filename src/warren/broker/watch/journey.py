"""The journey of a message: each stage that one publish crossed, with what was decided there and when.

Journeys are made for publishes that are sampled, waited for or carry the header x-warren-trace, and the latest are
kept in a ring. While nobody wants any, a publish pays for it with one look at Node.is_watched.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.watch.explain import RouteStep
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.queue.yard import Yard
    from warren.broker.session.house import House

KEPT: Final = 500


class Stage:
    def __init__(self, name: str, text: str, nanoseconds: i64) -> None:
        self.name = name
        self.text = text
        # Since the journey began.
        self.nanoseconds: i64 = nanoseconds
        # Of the stage `route` only.
        self.steps: list[RouteStep] = []


class Journey:
    """Its times count from `start`, a reading of the host's stopwatch."""

    def __init__(self, node: Yard, number: int, vhost: str, connection: str, user: str, start: i64) -> None:
        self._node = node
        self.number = number
        self.vhost = vhost
        self.connection = connection
        self.user = user
        self.exchange = ""
        self.routing_key = ""
        self.message_id = ""
        self.body_size: i64 = 0
        self.queues: list[str] = []
        self.began_at: i64 = node.now
        self._start: i64 = start
        self.stages: list[Stage] = []
        # routed, returned, dropped, refused, or what it waits for.
        self.outcome = ""

    def refuse(self, error: AmqpError) -> None:
        self.note("refused", f"{error.code} {error.name}: {error.explanation}")
        self.outcome = "refused"

    def note(self, name: str, text: str) -> Stage:
        stage = Stage(name, text, self.stopwatch() - self._start)
        self.stages.append(stage)
        return stage

    def stopwatch(self) -> i64:
        return self._node.host.stopwatch()

    def leave_out(self, began: i64) -> None:
        """What was done since is no part of the journey: a message that nobody traces does not wait for it."""
        self._start += self.stopwatch() - began


class Awaited:
    """A journey that ends when the disk has reached a position."""

    def __init__(self, position: i64, journey: Journey, outcome: str) -> None:
        self.position: i64 = position
        self.journey = journey
        self.outcome = outcome


class Journeys:
    def __init__(self, node: House) -> None:
        self._node = node
        self.kept: deque[Journey] = deque(maxlen=KEPT)
        # One in so many publishes; 0 = none.
        self.sample_every: i64 = 0
        # So many of the next publishes to `exchange` (all when None), whatever is sampled.
        self.wanted: i64 = 0
        self.exchange: str | None = None
        self._count: i64 = 0
        self._number = 0
        self.awaiting: list[Awaited] = []

    def sample(self, every: int) -> None:
        self.sample_every = max(every, 0)
        self._node.watching_changed()

    def want(self, count: int, exchange: str | None) -> None:
        self.wanted = max(count, 0)
        self.exchange = exchange
        self._node.watching_changed()

    def is_on(self) -> bool:
        return self.sample_every > 0 or self.wanted > 0

    def wants(self, exchange: str) -> bool:
        if self.wanted > 0 and (self.exchange is None or self.exchange == exchange):
            self.wanted -= 1
            if self.wanted == 0:
                self._node.watching_changed()
            return True
        if self.sample_every == 0:
            return False
        self._count += 1
        return self._count % self.sample_every == 0

    def begin(self, vhost: str, connection: str, user: str, start: i64) -> Journey:
        self._number += 1
        journey = Journey(self._node, self._number, vhost, connection, user, start)
        self.kept.append(journey)
        return journey

    def find(self, number: int) -> Journey | None:
        for journey in self.kept:
            if journey.number == number:
                return journey
        return None

    def confirm_synced(self, synced: i64) -> None:
        """The disk has come so far."""
        still: list[Awaited] = []
        for awaited in self.awaiting:
            if awaited.position <= synced:
                awaited.journey.note("confirm", f"on disk up to position {awaited.position}: acknowledged")
                awaited.journey.outcome = awaited.outcome
            else:
                still.append(awaited)
        self.awaiting = still
