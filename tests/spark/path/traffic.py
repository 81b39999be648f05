"""Definitions and publishes made at random, nasty on purpose: short TTLs, small limits, loops, wrong properties."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from warren.amqp.fields import Field, Table
from warren.amqp.tables import encode_table
from warren.spark.path.consumers import Crew, read_crew

START = 1_700_000_000_000
MAX_MESSAGE_SIZE = 120
KEYS = ["a", "b", "a.b", "a.c", "b.c", "a.b.c", "x", "", "q0", "q1", "q2"]
PATTERNS = ["a", "b", "#", "*", "a.*", "a.#", "#.c", "*.b", "x", "", "a.b"]
EXCHANGES = ["e0", "e1", "e2", "e3", "e4"]
TYPES = [
    "direct",
    "topic",
    "fanout",
    "headers",
    "topic",
    "direct",
    "x-consistent-hash",
    "x-modulus-hash",
    "x-delayed-message",
]
USERS = ["guest", "guest", "guest", "limited", "other", "nobody"]
VHOSTS = ["/", "/", "/", "/", "v", "nowhere"]


@dataclass
class Sent:
    """One publish, as a client sends it and as a row has it."""

    publisher: str
    sequence: int
    at: int
    exchange: str
    routing_key: str
    vhost: str = "/"
    user: str = "guest"
    mandatory: bool = False
    body_size: int = 10
    properties: dict[str, Any] = field(default_factory=dict)
    headers: Table | None = None

    @property
    def body(self) -> bytes:
        return f"{self.publisher}:{self.sequence}".encode().ljust(self.body_size, b" ")

    def row(self) -> dict[str, Any]:
        return {
            "publisher": self.publisher, "sequence": self.sequence, "at": self.at, "exchange": self.exchange,
            "routing_key": self.routing_key, "vhost": self.vhost, "user": self.user, "mandatory": self.mandatory,
            "body_size": len(self.body), "properties": self.properties or None,
            "headers_raw": None if self.headers is None else encode_table(self.headers),
        }  # fmt: skip


def make_definitions(draw: random.Random) -> dict[str, Any]:
    queues = [f"q{number}" for number in range(draw.randint(1, 7))]
    exchanges = draw.sample(EXCHANGES, draw.randint(1, len(EXCHANGES)))
    types = {name: draw.choice(TYPES) for name in exchanges}
    return {
        "vhosts": [{"name": "/"}, {"name": "v"}],
        "users": [
            {"name": "guest", "password_hash": "", "tags": draw.choice(["administrator", "impersonator"])},
            {"name": "limited", "password_hash": "", "tags": ""},
            {"name": "other", "password_hash": "", "tags": ""},
        ],
        "permissions": [
            {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
            {"user": "guest", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"},
            {"user": "limited", "vhost": "/", "configure": "", "write": "^e[0-2]$", "read": ".*"},
        ],
        "topic_permissions": [
            {"user": "limited", "vhost": "/", "exchange": name, "write": "^a", "read": ".*"} for name in exchanges[:2]
        ],
        "exchanges": [_exchange(draw, name, types[name], exchanges) for name in exchanges],
        "queues": [_queue(draw, name, queues, exchanges) for name in queues],
        "bindings": _bindings(draw, queues, types),
        "policies": _policies(draw),
    }


def _exchange(draw: random.Random, name: str, type_: str, exchanges: list[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if draw.random() < 0.3:
        arguments["alternate-exchange"] = draw.choice([*exchanges, "missing"])
    if type_ == "x-consistent-hash" and draw.random() < 0.5:
        arguments.update(draw.choice([{"hash-header": "h"}, {"hash-property": "message_id"}]))
    if type_ == "x-delayed-message":
        arguments["x-delayed-type"] = "topic"
    return {
        "name": name, "vhost": "/", "type": type_, "durable": True, "auto_delete": draw.random() < 0.1,
        "internal": draw.random() < 0.1, "arguments": arguments,
    }  # fmt: skip


def _queue(draw: random.Random, name: str, queues: list[str], exchanges: list[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if draw.random() < 0.5:
        arguments["x-max-length"] = draw.randint(0, 6)
    if draw.random() < 0.2:
        arguments["x-max-length-bytes"] = draw.randint(0, 200)
    if draw.random() < 0.4:
        arguments["x-overflow"] = draw.choice(["drop-head", "reject-publish", "reject-publish-dlx"])
    if draw.random() < 0.4:
        arguments["x-message-ttl"] = draw.choice([0, 1, 5, 20, 100, 1000])
    if draw.random() < 0.6:
        arguments["x-dead-letter-exchange"] = draw.choice([*exchanges, "", "", "", "missing"])
        if draw.random() < 0.7:
            arguments["x-dead-letter-routing-key"] = draw.choice([*queues, "a.b", "x"])
    if draw.random() < 0.1:
        arguments["x-expires"] = draw.choice([50, 500, 5000])
    if draw.random() < 0.15:
        arguments["x-message-deduplication"] = True
        arguments["x-deduplication-header"] = "h"
        arguments["x-cache-size"] = draw.randint(1, 5)
        if draw.random() < 0.5:
            arguments["x-cache-ttl"] = draw.choice([5, 100])
    if draw.random() < 0.15:
        arguments["x-exact-message-ttl"] = True
    if draw.random() < 0.2:
        arguments["x-delayed-retry-min"] = draw.choice([1, 20])
        arguments["x-delayed-retry-limit"] = draw.choice([1, 3])
    if draw.random() < 0.15:
        arguments["x-max-priority"] = draw.choice([1, 3, 10])
    elif draw.random() < 0.15:
        arguments["x-queue-type"] = "quorum"
    elif draw.random() < 0.15:
        arguments = {key: value for key, value in arguments.items() if "dedup" in key or "cache" in key}
        arguments["x-queue-type"] = "stream"
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}


def _bindings(draw: random.Random, queues: list[str], types: dict[str, str]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for _ in range(draw.randint(1, 14)):
        source = draw.choice(list(types))
        kind, destination = "queue", draw.choice(queues)
        if draw.random() < 0.25:
            kind, destination = "exchange", draw.choice(list(types))
        key, arguments = draw.choice(PATTERNS), {}
        if types[source] == "x-consistent-hash":
            key = str(draw.randint(1, 3))
        if types[source] == "headers":
            arguments = {"x-match": draw.choice(["all", "any"]), "h": draw.choice(["1", "2"])}
        made.append(
            {"source": source, "vhost": "/", "destination": destination, "destination_type": kind,
             "routing_key": key, "arguments": arguments}
        )  # fmt: skip
    return made


def _policies(draw: random.Random) -> list[dict[str, Any]]:
    if draw.random() < 0.7:
        return []
    definition = draw.choice(
        [{"max-length": 3}, {"message-ttl": 30}, {"dead-letter-exchange": "e0"}, {"alternate-exchange": "e1"}]
    )
    return [
        {"vhost": "/", "name": "p", "pattern": draw.choice(["", "q[0-2]", "e"]), "apply-to": "all",
         "definition": definition, "priority": 0}
    ]  # fmt: skip


def make_crew(draw: random.Random, definitions: dict[str, Any]) -> Crew | None:
    """For every other set of definitions; the queues that expire would not, with a consumer."""
    if draw.random() < 0.5:
        return None
    queues = [queue["name"] for queue in definitions["queues"] if queue["arguments"].get("x-queue-type") != "stream"]
    if not queues:
        return None
    consumers = [
        {
            "queue": name,
            "rate": draw.choice([3, 50, 300, 2000]),
            "prefetch": draw.choice([0, 1, 3]),
            "ack": draw.choice([1.0, 0.9, 0.5]),
            "requeue": draw.random() < 0.3,
            "count": draw.randint(1, 2),
        }
        for name in draw.sample(queues, draw.randint(1, len(queues)))
    ]
    return read_crew({"seed": draw.randint(0, 9), "consumers": consumers})


def make_publishes(draw: random.Random, count: int) -> list[Sent]:
    """In order; most at moments of their own, some at the same."""
    now = START
    made: list[Sent] = []
    for sequence in range(count):
        now += draw.choice([0, 0, 1, 1, 2, 5, 5, 20, 100])
        made.append(_publish(draw, sequence, now))
    return sorted(made, key=lambda sent: (sent.at, sent.publisher, sent.sequence))


def _publish(draw: random.Random, sequence: int, at: int) -> Sent:
    sent = Sent(
        publisher=draw.choice(["p0", "p1"]),
        sequence=sequence,
        at=at,
        exchange=draw.choice([*EXCHANGES, "", "amq.topic", "missing"] if draw.random() < 0.5 else ["e0", "e1", "e2"]),
        routing_key=draw.choice(KEYS),
        vhost=draw.choice(VHOSTS) if draw.random() < 0.2 else "/",
        user=draw.choice(USERS) if draw.random() < 0.3 else "guest",
        mandatory=draw.random() < 0.3,
        body_size=draw.randint(0, MAX_MESSAGE_SIZE + 5) if draw.random() < 0.3 else 10,
    )
    if draw.random() < 0.5:
        sent.properties = _properties(draw)
    if draw.random() < 0.4:
        sent.headers = _headers(draw)
    return sent


def _properties(draw: random.Random) -> dict[str, Any]:
    choices: dict[str, list[Any]] = {
        "expiration": ["0", "1", "5", "20", "100", "2000", "abc", "-1", ""],
        "priority": [0, 1, 2, 3, 9, 255],
        "delivery_mode": [1, 2],
        "user_id": ["guest", "guest", "limited"],
        "message_id": ["m1", "m2", "m3"],
        "correlation_id": ["c"],
        "reply_to": ["r", "amq.rabbitmq.reply-to"],
        "timestamp": [0, 1_700_000_000],
        "content_type": ["text/plain"],
    }
    names = draw.sample(sorted(choices), draw.randint(1, 3))
    return {name: draw.choice(choices[name]) for name in names}


def _headers(draw: random.Random) -> Table:
    headers: Table = {}
    if draw.random() < 0.7:
        headers["h"] = draw.choice([Field("S", "1"), Field("S", "2"), Field("I", 1)])
    if draw.random() < 0.4:
        headers["x-delay"] = Field("I", draw.choice([0, 1, 5, 50, 500, -5]))
    for name in ("CC", "BCC"):
        if draw.random() < 0.25:
            headers[name] = Field("A", [Field("S", draw.choice(KEYS)) for _ in range(draw.randint(0, 2))])
    if draw.random() < 0.03:
        headers["CC"] = Field("S", "a")
    return headers
