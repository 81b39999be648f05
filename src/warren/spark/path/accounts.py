"""What a node that is played tells of its messages, as events: which came in and why, which died, which are gone."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from warren.amqp.fields import plain
from warren.amqp.frames import body_of
from warren.broker.exchanges.delayed import DELAY_HEADER
from warren.broker.message import Message
from warren.broker.node import Node
from warren.broker.publish.x_death import record_death
from warren.broker.queue import outcome as outcomes
from warren.broker.queue.deadletter import REASON_EXPIRED, REASON_MAXLEN, DeadLetter, DeathListener
from warren.broker.queue.entry import Entry
from warren.broker.queue.expiry import is_expired
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule
from warren.broker.session.observer import Observer
from warren.broker.stream.stream import Stream
from warren.spark.path import events
from warren.spark.path.events import Event, EventRows
from warren.spark.path.topology import Topology, name_of_queue

_SEQUENCE: Final = struct.Struct(">q")
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


def named(body: bytes) -> tuple[str, int]:
    return body[8:].decode(errors="surrogatepass"), _SEQUENCE.unpack_from(body)[0]


class Unentered(Observer):
    """The queues that did not take a message in, and why."""

    def __init__(self) -> None:
        self.rows: list[tuple[Queue, str, str]] = []

    def queued(self, queue: Queue, outcome: int) -> None:
        if outcome == outcomes.REFUSED:
            self.rows.append((queue, events.REFUSED, REASON_MAXLEN))
        elif outcome == outcomes.DUPLICATE:
            self.rows.append((queue, events.DROPPED, DUPLICATE))


class QueueFacts(NamedTuple):
    vhost: str
    name: str
    number: int
    # Of an entry into it.
    outcome: str | None

    @staticmethod
    def of(queue: Queue, number: int) -> QueueFacts:
        return QueueFacts(*name_of_queue(queue), number, events.APPENDED if isinstance(queue, Stream) else None)


class Accounts(DeathListener):
    def __init__(self, letters: deque[bytes]) -> None:
        self.rows = EventRows()
        # What is drawn by for each dead letter, in the order in which they died.
        self._letters = letters
        # The publish that is being delivered; None while the node does something by itself.
        self.current: Publish | None = None
        # The message that a consumer is settling.
        self.settling = b""
        self.is_silent = False
        # From begin() on.
        self._node: Node
        self._exchange_names: list[str]
        # All that is told of a queue when a message enters it, found at once.
        self.places: dict[Queue, QueueFacts]

    def begin(self, node: Node, topology: Topology, queues: list[Queue]) -> None:
        self._node = node
        self._exchange_names = [name for _, name in topology.exchanges]
        self.places = {queue: QueueFacts.of(queue, number) for number, queue in enumerate(queues)}

    def left_out(self, kind: str, queue: Queue, publish: Publish, reason: str) -> None:
        """A queue did not take a publish in."""
        self.rows.others.append(Event(
            kind, vhost=queue.vhost, queue=queue.name, publisher=publish.publisher, sequence=publish.sequence,
            exchange=publish.exchange, routing_key=publish.routing_key, at=self._node.now, reason=reason,
            body_size=publish.body_size,
        ))  # fmt: skip

    def entered(self, queue: Queue, entry: Entry) -> None:
        if self.is_silent:
            return
        message = entry.message
        publish = self.current
        origin = message.origin
        vhost, name, number, outcome = self.places[queue]
        from_queue: str | None = None
        if publish is not None:
            publisher, sequence, reason = publish.publisher, publish.sequence, PUBLISHED
            via = self._exchange_names[publish.via[number]]
        else:
            publisher, sequence = named(body_of(message.content))
            reason, from_queue = _cause(message)
            via = origin.exchange
        self.rows.entered.append((
            vhost, name, entry.sequence, publisher, sequence, origin.exchange, origin.keys[0], self._node.now, reason,
            via, from_queue, entry.expires_at, message.body_size, outcome,
        ))  # fmt: skip

    def discarded(self, queue: Queue, message: Message) -> None:
        self._dropped(queue, message, 0, REASON_EXPIRED)

    def settled(self, queue: Queue, entry: Entry) -> None:
        """Out of the queue for good. Those that a consumer settled and dead letters are told elsewhere."""
        if queue.options.dead_letter_exchange is not None or isinstance(queue, Schedule):
            return
        if self.settling and body_of(entry.message.content) == self.settling:
            return
        reason = REASON_EXPIRED if is_expired(entry, self._node.now) else REASON_MAXLEN
        self._dropped(queue, entry.message, entry.sequence, reason)

    def died(self, letter: DeadLetter) -> None:
        queue, message = letter.queue, letter.entry.message
        exchange = queue.options.dead_letter_exchange
        if exchange is None:
            # reject-publish-dlx without a dead-letter exchange: refused, and no more.
            return
        if exchange not in self._node.vhosts[queue.vhost].exchanges:
            self._dropped(queue, message, letter.entry.sequence, letter.reason)
            return
        key = queue.options.dead_letter_routing_key
        body = body_of(message.content)
        self._letters.append(body + queue.name.encode(errors="surrogatepass"))
        publisher, sequence = named(body)
        self.rows.others.append(Event(
            events.DEAD_LETTERED, vhost=queue.vhost, queue=queue.name,
            position=letter.entry.sequence if letter.stored else None, publisher=publisher, sequence=sequence,
            exchange=exchange, routing_key=message.origin.keys[0] if key is None else key, at=self._node.now,
            reason=letter.reason, x_death=self._x_death(letter), body_size=message.body_size,
        ))  # fmt: skip

    def _x_death(self, letter: DeadLetter) -> str:
        properties = letter.entry.message.properties()
        headers = {} if properties.headers is None else dict(properties.headers)
        origin = letter.entry.message.origin
        record_death(headers, letter.queue.name, letter.reason, origin, properties, self._node.wall_seconds())
        return json.dumps(plain(headers["x-death"]))

    def _dropped(self, queue: Queue, message: Message, position: int, reason: str) -> None:
        publisher, sequence = named(body_of(message.content))
        origin = message.origin
        self.rows.dropped.append((
            queue.vhost, queue.name, position or None, publisher, sequence, origin.exchange, origin.keys[0],
            self._node.now, reason, message.body_size,
        ))  # fmt: skip

    def deleted(self, queue: Queue) -> None:
        """It expired (x-expires), with all it held."""
        for entry in taken_out(queue):
            self._dropped(queue, entry.message, entry.sequence, QUEUE_EXPIRED)


def _cause(message: Message) -> tuple[str, str | None]:
    """Why the broker itself published it, and for a dead letter the queue that it came from."""
    headers = message.properties().headers or {}
    delay = headers.get(DELAY_HEADER)
    if delay is not None and isinstance(delay.value, int) and delay.value < 0:
        return DELAYED, None
    field = headers.get("x-last-death-queue")
    return DEAD_LETTER, field.value if field is not None and isinstance(field.value, str) else None


def taken_out(queue: Queue) -> Iterable[Entry]:
    """What is in the queue, in the order in which it would be handed out."""
    entry = queue.backing.fetch()
    while entry is not None:
        yield entry
        entry = queue.backing.fetch()
