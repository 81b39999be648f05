"""What the broker says to one publish: refused, returned, or the queues that it goes to.

All of it is asked of a real node, through a real channel. Equal questions have equal answers, so each is asked once
and remembered. Where queues expire (x-expires) routes change with time, and there is a node for every such stretch.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from warren.amqp.frames import content_frames
from warren.broker.exchanges.base import Destination, Envelope, Exchange
from warren.broker.exchanges.route import destinations
from warren.broker.message import Message
from warren.broker.node import Node
from warren.broker.queue.queue import Queue
from warren.broker.session.observer import Observer
from warren.client.session import Refused
from warren.errors import AmqpError
from warren.spark.path.components import Components
from warren.spark.path.consumers import Crew, attach
from warren.spark.path.door import Doors, publish_arguments, scope_of
from warren.spark.path.host import StillHost
from warren.spark.path.topology import Topology, queues_of

# Bounds what is remembered of keys that publishers choose, and nodes of different times.
_VERDICTS_MAX: Final = 1_000_000
_EPOCHS_MAX: Final = 16


class Question(NamedTuple):
    """All that the answer may depend on. What cannot matter is left at its default, so that more are alike."""

    vhost: str
    user: str
    exchange: str
    routing_key: str
    mandatory: bool = False
    body_size: int = 0
    properties: bytes = b"\x00\x00"
    at: int = 0
    # What random exchanges draw by.
    subject: bytes = b""


class Verdict(NamedTuple):
    # 0: accepted.
    code: int = 0
    text: str | None = None
    # What the refusal closes: channel or connection; or row, which could never have been sent.
    scope: str | None = None
    returned: bool = False
    # Whether a full queue may still refuse it.
    may_refuse: bool = False
    # (queue, exchange whose binding led there), by number.
    queues: tuple[tuple[int, int], ...] = ()
    components: tuple[int, ...] = ()


class Matcher:
    def __init__(
        self, topology: Topology, components: Components, crew: Crew | None = None, started_at: int = 0, seed: int = 0
    ) -> None:
        self.topology = topology
        self.components = components
        self.crew = crew
        self.started_at = started_at
        self.seed = seed
        self._verdicts: dict[Question, Verdict] = {}
        self._distinct: dict[Verdict, Verdict] = {}
        self._epochs: dict[int, _Epoch] = {}
        self._turns = self._turning_points() if topology.changes else []

    def _turning_points(self) -> list[int]:
        """When queues expire: idle queues are all that moves in a node that nobody uses."""
        node = self._node()
        points: list[int] = []
        while node.next_deadline() >= 0:
            points.append(node.next_deadline())
            node.tick(points[-1])
        return points

    def _node(self) -> Node:
        node = self.topology.node(StillHost(self.seed), None, self.started_at)
        if self.crew is not None:
            attach(node, self.crew)
        return node

    def resolve(self, question: Question) -> Verdict:
        verdict = self._verdicts.get(question)
        if verdict is None:
            if len(self._verdicts) >= _VERDICTS_MAX:
                self._verdicts.clear()
                self._distinct.clear()
            verdict = self._epoch(question.at).judge(question)
            # Keys are many, but what they lead to is few: equal verdicts are one object.
            verdict = self._distinct.setdefault(verdict, verdict)
            self._verdicts[question] = verdict
        return verdict

    def epoch_start(self, at: int) -> int:
        """The earliest time at which routes are as they are at `at`: all that a question needs to say of time."""
        stretch = bisect_right(self._turns, at)
        return self.started_at if stretch == 0 else self._turns[stretch - 1]

    def _epoch(self, at: int) -> _Epoch:
        start = self.epoch_start(at)
        epoch = self._epochs.get(start)
        if epoch is None:
            if len(self._epochs) >= _EPOCHS_MAX:
                self._epochs.clear()
            epoch = _Epoch(self._node(), self.components, self.topology)
            epoch.pass_time(start)
            self._epochs[start] = epoch
        return epoch


class _Answer(Observer):
    def __init__(self) -> None:
        self.is_returned = False

    def returned(self) -> None:
        self.is_returned = True


class _Epoch:
    def __init__(self, node: Node, components: Components, topology: Topology) -> None:
        self.node = node
        self.components = components
        self._queues = {queue: number for number, queue in enumerate(queues_of(node))}
        self._exchanges = {name: number for number, name in enumerate(topology.exchanges)}
        self._doors = Doors(node)

    def pass_time(self, at: int) -> None:
        while 0 <= self.node.next_deadline() <= at:
            self.node.tick(self.node.next_deadline())
        self.node.tick(at)
        self.node.flush()

    def judge(self, question: Question) -> Verdict:
        door = self._doors.of(question.user, question.vhost)
        if isinstance(door, Refused):
            return Verdict(door.code, door.text, "connection")
        host = self.node.host
        assert isinstance(host, StillHost)
        host.subject = question.subject
        arguments = publish_arguments(question.exchange, question.routing_key, question.mandatory)
        content = content_frames(1, question.properties, b"", 0)
        try:
            delivery = door.judge(arguments, content, question.body_size)
        except AmqpError as error:
            return Verdict(error.code, error.reply_text, scope_of(error))
        if not delivery.queues:
            answer = _Answer()
            door.deliver(delivery, [], answer)
            self.node.flush()
            return Verdict(returned=answer.is_returned)
        return self._routed(question, delivery.message, delivery.queues)

    def _routed(self, question: Question, message: Message, queues: list[Queue]) -> Verdict:
        via = self._via(question, message, queues)
        numbers = [self._queues[queue] for queue in queues]
        return Verdict(
            may_refuse=any(queue.options.rejects_when_full and queue.options.has_length_limit for queue in queues),
            queues=tuple(zip(numbers, via, strict=True)),
            components=tuple(dict.fromkeys(self.components.of_queue[number] for number in numbers)),
        )

    def _via(self, question: Question, message: Message, queues: list[Queue]) -> list[int]:
        """By which exchange's binding each was found: the one that was published to, or one further on."""
        exchanges = self.node.vhosts[question.vhost].exchanges
        start = exchanges[question.exchange]
        if not start.next_exchanges() and not start.decorators:
            return [self._exchanges[(question.vhost, start.name)]] * len(queues)
        finder = found_by(exchanges, start, Envelope.of(message, self.node.host.draw()))
        return [self._exchanges[(question.vhost, finder[queue])] for queue in queues]


def found_by(exchanges: dict[str, Exchange], start: Exchange, envelope: Envelope) -> dict[Destination, str]:
    """Follow the way that `route` goes, and note at which exchange each queue was met first."""
    met: dict[Destination, str] = {}
    waiting = [start.name]
    for name in waiting:
        exchange = exchanges.get(name)
        for destination in [] if exchange is None else destinations(exchange, envelope):
            if not destination.is_exchange:
                met.setdefault(destination, name)
            elif destination.name and destination.name not in waiting:
                waiting.append(destination.name)
    return met
