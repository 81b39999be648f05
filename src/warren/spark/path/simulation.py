"""The queues of some components, played in virtual time by a real node: limits, TTL, dead letters, consumers.

Time jumps from event to event. At one moment timers fire first, then consumers settle, then publishes come in their
order; each is a turn of its own, as in a broker that is never busy. A message carries its name for a body: the size
that limits count is told apart from it, and the broker looks at no body.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache, partial
from heapq import heappop, heappush
from typing import Final
from zlib import crc32

from warren.amqp.frames import content_frames
from warren.broker.message import NEVER, Message, Origin
from warren.broker.queue.entry import Entry
from warren.broker.queue.fifo import FifoQueue
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule
from warren.broker.queue.stream_log import StreamRecord
from warren.broker.stream.stream import Stream
from warren.errors import WarrenError
from warren.spark.path import events
from warren.spark.path.accounts import Accounts, Publish, Unentered, name_of, named
from warren.spark.path.components import Components
from warren.spark.path.consumers import Crew, Post, attach
from warren.spark.path.door import Door, Doors, publish_arguments
from warren.spark.path.events import Event
from warren.spark.path.host import StillHost
from warren.spark.path.spill import IN_MEMORY, Row, SpillingStore
from warren.spark.path.topology import Name, Topology, queues_of

_STREAM_BYTES: Final = 1 << 20
# More than any work costs.
_ALL_UNITS: Final = 1 << 60


@lru_cache(maxsize=100_000)
def _known_arguments(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """Keys come again and again."""
    return publish_arguments(exchange, routing_key, mandatory)


class LetterHost(StillHost):
    """Draws for each dead letter by what it is, in the order in which they died."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.letters: deque[bytes] = deque()

    def draw(self) -> int:
        return crc32(self.letters.popleft(), self.seed) if self.letters else super().draw()


class Reading:
    """What was appended to a stream: it tells nobody, so it is read."""

    def __init__(self, stream: Stream) -> None:
        self.cursor = stream.log.cursor(0)
        # What earlier batches have appended.
        self.before = 0
        # It is read at once, so little need be kept.
        stream.log.segment_bytes = _STREAM_BYTES
        stream.log.max_bytes = _STREAM_BYTES


class Simulation:
    def __init__(
        self,
        topology: Topology,
        components: Components,
        crew: Crew | None = None,
        started_at: int = 0,
        in_memory: int = IN_MEMORY,
    ) -> None:
        self.host = LetterHost(0 if crew is None else crew.seed)
        self.accounts = Accounts(self.host.letters)
        self.events = self.accounts.rows
        self.store = SpillingStore(self.accounts, in_memory)
        self.node = topology.node(self.host, self.store, started_at)
        self.node.dead_letters.listener = self.accounts
        # Nobody waits for a turn: what could wait for a later one would not be told with the publish that caused it.
        self.node.errands.budget.left = self.node.errands.budget.units = _ALL_UNITS
        self.queues: list[Queue] = queues_of(self.node)
        self.accounts.begin(self.node, topology, self.queues)
        # Whether any of them may not take a message in.
        self._choosy = any(queue.deduplication is not None or queue.options.rejects_when_full for queue in self.queues)
        self._component_of = {queue: components.of_queue[number] for number, queue in enumerate(self.queues)}
        self._posts: list[Post] = [] if crew is None else attach(self.node, crew)
        # Places in _posts: who heard something in this turn, and who will have done something when.
        self._rung: list[int] = []
        self._working: list[tuple[int, int]] = []
        for place, post in enumerate(self._posts):
            post.door.wire.tell(partial(self._rung.append, place))
        self._doors = Doors(self.node)
        # Components, and the streams in them, each with how far it was looked at and where it began.
        self.played: dict[int, None] = {}
        self.streams: dict[Stream, Reading] = {}
        self._all_streams = [queue for queue in self.queues if isinstance(queue, Stream)]

    # -- time ------------------------------------------------------------------------------------------------------

    def advance(self, until: int) -> None:
        """Everything that happens up to and at this time."""
        node = self.node
        while True:
            timer = node.next_deadline()
            settle = self._working[0][0] if self._working else -1
            if 0 <= timer <= until and (settle < 0 or timer <= settle):
                node.tick(timer)
                self._end_turn()
            elif 0 <= settle <= until:
                node.tick(settle)
                self._settle(heappop(self._working)[1])
            else:
                break
        node.tick(until)

    def _end_turn(self) -> None:
        """And the turns that this one asks for: nobody else waits for one here."""
        host = self.host
        while host.is_awake:
            host.is_awake = False
            self.node.flush()
        if self.streams:
            self._read_streams()
        while self._rung:
            place = self._rung.pop()
            post = self._posts[place]
            was_idle = not post.worker.working
            post.worker.hear(post.door.wire.take(), self.node.now)
            if was_idle and post.worker.working:
                heappush(self._working, (post.worker.due, place))

    def _settle(self, place: int) -> None:
        """Of several who are done at once, who comes first in the file."""
        post = self._posts[place]
        plan = post.worker.plan
        self.accounts.settling = post.worker.working[0][2]
        outcome, body = post.worker.say()
        self.accounts.settling = b""
        if post.worker.working:
            heappush(self._working, (post.worker.due, place))
        self._end_turn()
        publisher, sequence = named(body)
        self.events.others.append(Event(
            events.CONSUMED, vhost=plan.vhost, queue=plan.queue, publisher=publisher, sequence=sequence,
            at=self.node.now, outcome=outcome, consumer=post.worker.tag,
        ))  # fmt: skip

    # -- publishing ------------------------------------------------------------------------------------------------

    def publish(self, publish: Publish) -> None:
        self.play(publish.component)
        self.advance(max(publish.at, self.node.now))
        body = name_of(publish.publisher, publish.sequence)
        self.host.subject = body
        door = self._doors.of(publish.user, publish.vhost, publish.may_refuse)
        assert isinstance(door, Door), "refused rows go to no queue"
        arguments = _known_arguments(publish.exchange, publish.routing_key, publish.mandatory)
        content = content_frames(1, publish.properties, body, 0)
        delivery = door.judge(arguments, content, publish.body_size)
        component, component_of = publish.component, self._component_of
        queues = [queue for queue in delivery.queues if component_of[queue] == component]
        unentered = Unentered() if self._choosy else None
        self.accounts.current = publish
        accepted = door.deliver(delivery, queues, unentered)
        if self.streams:
            self._read_streams()
        self.accounts.current = None
        if unentered is not None:
            for queue, kind, reason in unentered.rows:
                self.accounts.left_out(kind, queue, publish, reason)
        self._end_turn()
        if publish.may_refuse:
            self.events.others.append(Event(
                events.CONFIRMED, vhost=publish.vhost, publisher=publish.publisher, sequence=publish.sequence,
                message=publish.message, at=publish.at, outcome="ack" if accepted else "nack",
            ))  # fmt: skip

    def play(self, component: int) -> None:
        """From now on these queues count."""
        if component in self.played:
            return
        self.played[component] = None
        for stream in self._all_streams:
            if self.component_of(stream) == component:
                self.streams[stream] = Reading(stream)

    def _read_streams(self) -> None:
        for stream, reading in self.streams.items():
            record = reading.cursor.next()
            while record is not None:
                self._appended(stream, record, reading.before)
                record = reading.cursor.next()

    def _appended(self, stream: Stream, record: StreamRecord, before: int) -> None:
        exchange, key = _names_in(record.wire)
        message = Message(Origin(exchange, [key]), record.wire[record.suffix_size :], 1, 0)
        if self.accounts.current is not None:
            message.body_size = self.accounts.current.body_size
        self.accounts.entered(stream, Entry(message, stream, before + record.offset + 1, NEVER))

    # -- the end -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """A queue that failed would have been restarted by the broker: here it is a wrong result."""
        if self.node.monitor.failures:
            raise WarrenError(
                "a queue failed while the path was played; this is a mistake of Warren's, please report it"
            )

    def name_of(self, queue: Queue) -> Name:
        return self.accounts.places[queue][:2]

    def component_of(self, queue: Queue) -> int:
        return self._component_of[queue]

    def played_queues(self) -> list[Queue]:
        return [queue for queue in self.queues if self._component_of[queue] in self.played]

    def waiting(self) -> Iterable[Entry]:
        """What consumers gave back and will be handed out again later."""
        for queue in self.played_queues():
            if isinstance(queue, FifoQueue) and queue.retry is not None:
                yield from queue.retry.waiting()

    def unacked(self) -> Iterable[Entry]:
        for post in self._posts:
            for channel in post.door.connection.channels.values():
                yield from channel.unacked.entries()

    def restore(self, queue: Queue, row: Row) -> None:
        """Back from an earlier batch, in the order of `kept`; nobody is told."""
        self.accounts.is_silent = True
        entry = self.store.entry_of(queue, row)
        queue.backing.publish(entry)
        if isinstance(queue, FifoQueue | Schedule) and queue.exact_expiry is not None:
            queue.exact_expiry.add(entry)
        self.accounts.is_silent = False


def _names_in(suffix: bytes) -> tuple[str, str]:
    """Exchange and routing key, as basic.deliver has them at its end."""
    middle = 1 + suffix[0]
    end = middle + 1 + suffix[middle]
    return suffix[1:middle].decode(errors="surrogateescape"), suffix[middle + 1 : end].decode(errors="surrogateescape")
