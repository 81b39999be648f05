"""The queues of some components, played in virtual time by a real node: limits, TTL, dead letters, consumers.

Time jumps from event to event. At one moment timers fire first, then consumers settle, then publishes come in their
order; each is a turn of its own, as in a broker that is never busy. A message carries its name for a body: the size
that limits count is told apart from it, and the broker looks at no body.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Iterable
from functools import lru_cache, partial
from heapq import heappop, heappush
from typing import Final, NamedTuple
from zlib import crc32

from warren.amqp.fields import plain
from warren.amqp.frames import body_of, content_frames
from warren.broker.exchanges.delayed import DELAY_HEADER
from warren.broker.message import NEVER, Message, Origin
from warren.broker.publish.x_death import record_death
from warren.broker.queue import outcome as outcomes
from warren.broker.queue.deadletter import REASON_EXPIRED, REASON_MAXLEN, DeadLetter, DeathListener
from warren.broker.queue.entry import Entry
from warren.broker.queue.expiry import is_expired
from warren.broker.queue.fifo import FifoQueue
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule
from warren.broker.queue.stream_log import StreamRecord
from warren.broker.session.observer import Observer
from warren.broker.stream.stream import Stream
from warren.errors import WarrenError
from warren.spark.path import events
from warren.spark.path.components import Components
from warren.spark.path.consumers import Crew, Post, attach
from warren.spark.path.door import Door, Doors, publish_arguments
from warren.spark.path.events import Event, EventRows
from warren.spark.path.host import StillHost
from warren.spark.path.spill import IN_MEMORY, Row, SpillingStore
from warren.spark.path.topology import Name, Topology, name_of_queue, queues_of

_SEQUENCE: Final = struct.Struct(">q")
_STREAM_BYTES: Final = 1 << 20
DUPLICATE: Final = "duplicate"
QUEUE_EXPIRED: Final = "queue_expired"
PUBLISHED: Final = "published"
DEAD_LETTER: Final = "dead_letter"
DELAYED: Final = "delayed"


class Publish(NamedTuple):
    component: int
    message: int
    vhost: str
    publisher: str
    sequence: int
    user: str
    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    body_size: int
    at: int
    # Whether the publisher's answer depends on these queues.
    may_refuse: bool
    # Number of a queue -> number of the exchange that led there.
    via: dict[int, int]


def name_of(publisher: str, sequence: int) -> bytes:
    """The body that stands for a message's own."""
    return _SEQUENCE.pack(sequence) + publisher.encode(errors="surrogatepass")


@lru_cache(maxsize=100_000)
def _known_arguments(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """Keys come again and again."""
    return publish_arguments(exchange, routing_key, mandatory)


def named(body: bytes) -> tuple[str, int]:
    return body[8:].decode(errors="surrogatepass"), _SEQUENCE.unpack_from(body)[0]


class LetterHost(StillHost):
    """Draws for each dead letter by what it is, in the order in which they died."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.letters: deque[bytes] = deque()

    def draw(self) -> int:
        return crc32(self.letters.popleft(), self.seed) if self.letters else super().draw()


class _Deaths(DeathListener):
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def died(self, letter: DeadLetter) -> None:
        self._simulation.died(letter)


class _Unentered(Observer):
    """The queues that did not take a message in, and why."""

    def __init__(self) -> None:
        self.rows: list[tuple[Queue, str, str]] = []

    def queued(self, queue: Queue, outcome: int) -> None:
        if outcome == outcomes.REFUSED:
            self.rows.append((queue, events.REFUSED, REASON_MAXLEN))
        elif outcome == outcomes.DUPLICATE:
            self.rows.append((queue, events.DROPPED, DUPLICATE))


class _Place(NamedTuple):
    vhost: str
    name: str
    number: int
    # Of an entry into it.
    outcome: str | None

    @staticmethod
    def of(queue: Queue, number: int) -> _Place:
        return _Place(*name_of_queue(queue), number, events.APPENDED if isinstance(queue, Stream) else None)


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
        self.events = EventRows()
        self.host = LetterHost(0 if crew is None else crew.seed)
        self.store = SpillingStore(self, in_memory)
        self.node = topology.node(self.host, self.store, started_at)
        self.node.dead_letters.listener = _Deaths(self)
        self.queues: list[Queue] = queues_of(self.node)
        # All that is told of a queue when a message enters it, found at once.
        self._places = {queue: _Place.of(queue, number) for number, queue in enumerate(self.queues)}
        # Whether any of them may not take a message in.
        self._choosy = any(queue.deduplication is not None or queue.options.rejects_when_full for queue in self.queues)
        self._component_of = {queue: components.of_queue[number] for number, queue in enumerate(self.queues)}
        self._exchange_names = [name for _, name in topology.exchanges]
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
        # The publish that is being delivered; None while the node does something by itself.
        self._current: Publish | None = None
        # The message that a consumer is settling.
        self._settling = b""
        self._is_silent = False

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
        self._settling = post.worker.working[0][2]
        outcome, body = post.worker.say()
        self._settling = b""
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
        unentered = _Unentered() if self._choosy else None
        self._current = publish
        accepted = door.deliver(delivery, queues, unentered)
        if self.streams:
            self._read_streams()
        self._current = None
        if unentered is not None:
            for queue, kind, reason in unentered.rows:
                self._note_publish(kind, queue, publish, reason)
        self._end_turn()
        if publish.may_refuse:
            self.events.others.append(Event(
                events.CONFIRMED, vhost=publish.vhost, publisher=publish.publisher, sequence=publish.sequence,
                message=publish.message, at=publish.at, outcome="ack" if accepted else "nack",
            ))  # fmt: skip

    def _note_publish(self, kind: str, queue: Queue, publish: Publish, reason: str) -> None:
        self.events.others.append(Event(
            kind, vhost=queue.vhost, queue=queue.name, publisher=publish.publisher, sequence=publish.sequence,
            exchange=publish.exchange, routing_key=publish.routing_key, at=self.node.now, reason=reason,
            body_size=publish.body_size,
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
        if self._current is not None:
            message.body_size = self._current.body_size
        self.entered(stream, Entry(message, stream, before + record.offset + 1, NEVER))

    # -- what the node tells -----------------------------------------------------------------------------------------

    def entered(self, queue: Queue, entry: Entry) -> None:
        if self._is_silent:
            return
        message = entry.message
        publish = self._current
        origin = message.origin
        vhost, name, number, outcome = self._places[queue]
        from_queue: str | None = None
        if publish is not None:
            publisher, sequence, reason = publish.publisher, publish.sequence, PUBLISHED
            via = self._exchange_names[publish.via[number]]
        else:
            publisher, sequence = named(body_of(message.content))
            reason, from_queue = _cause(message)
            via = origin.exchange
        self.events.entered.append((
            vhost, name, entry.sequence, publisher, sequence, origin.exchange, origin.keys[0], self.node.now, reason,
            via, from_queue, entry.expires_at, message.body_size, outcome,
        ))  # fmt: skip

    def discarded(self, queue: Queue, message: Message) -> None:
        self._dropped(queue, message, 0, REASON_EXPIRED)

    def settled(self, queue: Queue, entry: Entry) -> None:
        """Out of the queue for good. Those that a consumer settled and dead letters are told elsewhere."""
        if queue.options.dead_letter_exchange is not None or isinstance(queue, Schedule):
            return
        if self._settling and body_of(entry.message.content) == self._settling:
            return
        reason = REASON_EXPIRED if is_expired(entry, self.node.now) else REASON_MAXLEN
        self._dropped(queue, entry.message, entry.sequence, reason)

    def died(self, letter: DeadLetter) -> None:
        queue, message = letter.queue, letter.entry.message
        exchange = queue.options.dead_letter_exchange
        if exchange is None:
            # reject-publish-dlx without a dead-letter exchange: refused, and no more.
            return
        if exchange not in self.node.vhosts[queue.vhost].exchanges:
            self._dropped(queue, message, letter.entry.sequence, letter.reason)
            return
        key = queue.options.dead_letter_routing_key
        body = body_of(message.content)
        self.host.letters.append(body + queue.name.encode(errors="surrogatepass"))
        publisher, sequence = named(body)
        self.events.others.append(Event(
            events.DEAD_LETTERED, vhost=queue.vhost, queue=queue.name,
            position=letter.entry.sequence if letter.stored else None, publisher=publisher, sequence=sequence,
            exchange=exchange, routing_key=message.origin.keys[0] if key is None else key, at=self.node.now,
            reason=letter.reason, x_death=self._x_death(letter), body_size=message.body_size,
        ))  # fmt: skip

    def _x_death(self, letter: DeadLetter) -> str:
        properties = letter.entry.message.properties()
        headers = {} if properties.headers is None else dict(properties.headers)
        origin = letter.entry.message.origin
        record_death(headers, letter.queue.name, letter.reason, origin, properties, self.node.wall_seconds())
        return json.dumps(plain(headers["x-death"]))

    def _dropped(self, queue: Queue, message: Message, position: int, reason: str) -> None:
        publisher, sequence = named(body_of(message.content))
        origin = message.origin
        self.events.dropped.append((
            queue.vhost, queue.name, position or None, publisher, sequence, origin.exchange, origin.keys[0],
            self.node.now, reason, message.body_size,
        ))  # fmt: skip

    def deleted(self, queue: Queue) -> None:
        """It expired (x-expires), with all it held."""
        for entry in self.kept(queue):
            self._dropped(queue, entry.message, entry.sequence, QUEUE_EXPIRED)

    # -- the end -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """A queue that failed would have been restarted by the broker: here it is a wrong result."""
        if self.node.monitor.failures:
            raise WarrenError(
                "a queue failed while the path was played; this is a mistake of Warren's, please report it"
            )

    def kept(self, queue: Queue) -> Iterable[Entry]:
        """What is in the queue at the end, taken out of it, in the order in which it would be handed out."""
        entry = queue.backing.fetch()
        while entry is not None:
            yield entry
            entry = queue.backing.fetch()

    def name_of(self, queue: Queue) -> Name:
        return self._places[queue][:2]

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
        self._is_silent = True
        entry = self.store.entry_of(queue, row)
        queue.backing.publish(entry)
        if isinstance(queue, FifoQueue | Schedule) and queue.exact_expiry is not None:
            queue.exact_expiry.add(entry)
        self._is_silent = False


def _cause(message: Message) -> tuple[str, str | None]:
    """Why the broker itself published it, and for a dead letter the queue that it came from."""
    headers = message.properties().headers or {}
    delay = headers.get(DELAY_HEADER)
    if delay is not None and isinstance(delay.value, int) and delay.value < 0:
        return DELAYED, None
    field = headers.get("x-last-death-queue")
    return DEAD_LETTER, field.value if field is not None and isinstance(field.value, str) else None


def _names_in(suffix: bytes) -> tuple[str, str]:
    """Exchange and routing key, as basic.deliver has them at its end."""
    middle = 1 + suffix[0]
    end = middle + 1 + suffix[middle]
    return suffix[1:middle].decode(errors="surrogateescape"), suffix[middle + 1 : end].decode(errors="surrogateescape")
