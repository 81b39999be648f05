"""Consumers that a path plays along with, from a small file: who consumes from what, how fast, and how well.

    {"seed": 1, "consumers": [{"queue": "orders", "rate": 50, "prefetch": 20, "ack": 0.98}]}

A worker is a real consumer with a connection of its own. It works on one message at a time, 1/rate seconds each, and
then acks it, or rejects it (requeue: puts it back). The seed decides which; the same file always plays alike.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from warren.amqp import methods
from warren.broker.node import Node
from warren.client.session import Refused, Session
from warren.errors import WarrenError
from warren.spark.path.door import Door
from warren.spark.path.given import read_given
from warren.spark.path.topology import Name

_CHANNEL: Final = 3
_DEFAULTS: Final[dict[str, Any]] = {
    "vhost": "/", "user": "guest", "count": 1, "rate": 100.0, "prefetch": 0, "ack": 1.0, "requeue": False,
}  # fmt: skip


@dataclass(frozen=True)
class ConsumerPlan:
    """One line of the file."""

    queue: str
    vhost: str
    user: str
    count: int
    # Messages a second, each.
    rate: float
    # 0: no limit.
    prefetch: int
    # Probability.
    ack: float
    requeue: bool


@dataclass(frozen=True)
class Crew:
    plans: tuple[ConsumerPlan, ...]
    seed: int = 0

    @property
    def queues(self) -> frozenset[Name]:
        return frozenset((plan.vhost, plan.queue) for plan in self.plans)


class Worker:
    """One consumer: what it hears, what it is working on, and what it will say."""

    def __init__(self, plan: ConsumerPlan, tag: str, seed: int, send: Callable[[methods.Method], None]) -> None:
        self.plan = plan
        self.tag = tag
        self.send = send
        self._seed = seed
        self._session = Session()
        self._free_at = 0.0
        # (when it will be done, delivery tag, body), in that order by itself.
        self.working: deque[tuple[int, int, bytes]] = deque()

    def hear(self, data: bytes, now: int) -> list[bytes]:
        """What the broker wrote: every delivery is put behind the work at hand. Gives the bodies."""
        bodies: list[bytes] = []
        self._session.feed(data)
        while (received := self._session.take()) is not None:
            method = received.method
            if isinstance(method, methods.BasicDeliver):
                self._free_at = max(self._free_at, float(now)) + 1000.0 / self.plan.rate
                self.working.append((math.ceil(self._free_at), method.delivery_tag, received.body))
                bodies.append(received.body)
        return bodies

    @property
    def due(self) -> int:
        """When it next has something to say; -1 while it is idle."""
        return self.working[0][0] if self.working else -1

    def say(self) -> tuple[str, bytes]:
        """Settle what is done. Gives the outcome and the body."""
        _, tag, body = self.working.popleft()
        outcome = self._outcome(tag)
        if outcome == "acked":
            self.send(methods.BasicAck(tag))
        else:
            self.send(methods.BasicReject(tag, outcome == "requeued"))
        return outcome, body

    def _outcome(self, tag: int) -> str:
        if self.plan.ack >= 1.0:
            return "acked"
        subject = f"{self._seed} {self.plan.vhost} {self.plan.queue} {self.tag} {tag}".encode()
        drawn = int.from_bytes(blake2b(subject, digest_size=8).digest(), "big") / 2**64
        if drawn < self.plan.ack:
            return "acked"
        return "requeued" if self.plan.requeue else "rejected"


class Post:
    """A worker at its place in a node."""

    def __init__(self, worker: Worker, door: Door) -> None:
        self.worker = worker
        self.door = door


def attach(node: Node, crew: Crew) -> list[Post]:
    """Real consumers, in the order of the file."""
    return [_post(node, plan, number, crew.seed) for plan in crew.plans for number in range(plan.count)]


def _post(node: Node, plan: ConsumerPlan, number: int, seed: int) -> Post:
    tag = f"{plan.queue}-{number}"
    try:
        door = Door(node, plan.user, plan.vhost)
    except Refused as refused:
        raise WarrenError(f"consumers: '{plan.user}' cannot consume from '{plan.queue}': {refused.text}") from None
    post = Post(Worker(plan, tag, seed, lambda method: door.send(method, _CHANNEL)), door)
    door.send(methods.ChannelOpen(), _CHANNEL)
    door.send(methods.BasicQos(0, plan.prefetch), _CHANNEL)
    door.send(methods.BasicConsume(queue=plan.queue, consumer_tag=tag), _CHANNEL)
    channel = door.connection.channels.get(_CHANNEL)
    node.flush()
    if channel is None or channel.is_closed:
        raise WarrenError(f"consumers: '{plan.user}' cannot consume from '{plan.queue}' in vhost '{plan.vhost}'")
    door.wire.take()
    return post


def read_crew(consumers: object) -> Crew:
    """From a path, a JSON text, a dict or a list of dicts."""
    if isinstance(consumers, Crew):
        return consumers
    try:
        consumers = read_given(consumers)
    except ValueError as error:
        raise WarrenError(f"consumers: not JSON: {error}") from None
    document = {"consumers": consumers} if isinstance(consumers, list) else consumers
    if not isinstance(document, dict) or not isinstance(document.get("consumers"), list):
        raise WarrenError("consumers: must be a list, or an object with a list named consumers")
    seed = document.get("seed", 0)
    if not isinstance(seed, int):
        raise WarrenError("consumers: seed: must be a whole number")
    plans = [_plan(f"consumers[{at}]", item) for at, item in enumerate(document["consumers"])]
    return Crew(tuple(plans), seed)


def _plan(place: str, item: object) -> ConsumerPlan:
    if not isinstance(item, dict):
        raise WarrenError(f"consumers: {place}: must be an object")
    unknown = set(item) - set(_DEFAULTS) - {"queue"}
    if unknown:
        raise WarrenError(f"consumers: {place}.{min(unknown)}: no such setting")
    values = {**_DEFAULTS, **item}
    for key in ("queue", "vhost", "user"):
        _require(isinstance(values.get(key), str), place, key, "must be a string")
    for key, least in (("count", 1), ("prefetch", 0)):
        _require(_is_whole(values[key], least, 65535), place, key, f"must be a whole number from {least} to 65535")
    _require(_is_number(values["rate"]) and values["rate"] > 0, place, "rate", "must be a number above 0")
    _require(_is_number(values["ack"]) and 0 <= values["ack"] <= 1, place, "ack", "must be a number from 0 to 1")
    _require(isinstance(values["requeue"], bool), place, "requeue", "must be true or false")
    _require(not (values["requeue"] and values["ack"] == 0), place, "ack", "must be above 0 where all else is requeued")
    return ConsumerPlan(**{**values, "rate": float(values["rate"]), "ack": float(values["ack"])})


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _require(is_right: bool, place: str, key: str, reason: str) -> None:
    if not is_right:
        raise WarrenError(f"consumers: {place}.{key}: {reason}")
