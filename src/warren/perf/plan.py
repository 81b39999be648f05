"""What to do to which broker: the settings of one run, as plain values that travel to the worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Final

from warren.amqp.fields import Field, Table, table_of
from warren.amqp.properties import Properties
from warren.client.address import BrokerAddress
from warren.errors import WarrenError

# A time stamp of nanoseconds lies at the front of a timed body.
STAMP_BYTES: Final = 8
# Ways to die: a consumer rejects it, or it has waited so many milliseconds.
REJECT: Final = "reject"
EXPIRE: Final = "expire"
EXPIRE_MS: Final = 5
QUORUM: Final = "quorum"
STREAM: Final = "stream"
PERSISTENT: Final = 2
# As a thorough application fills them in.
ALL_PROPERTIES: Final = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers=table_of({"tenant": "acme", "attempt": 1, "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736", "urgent": True}),
    delivery_mode=1,
    priority=5,
    correlation_id="5b6ea9a6-4f7d-4f3c-8b52-5a3a4bd0c8d1",
    reply_to="answers",
    expiration="3600000",
    message_id="f2a5cdc4-9b1f-4f58-ae4e-0f2d9f1f9c11",
    timestamp=1_700_000_000,
    type="order.created",
    user_id="guest",
    app_id="shop",
    cluster_id="",
)


@dataclass(frozen=True)
class Plan:
    target: BrokerAddress
    # Body bytes of every message.
    size: int = 16
    # Measured, after the warm-up. With `messages` the run lasts until that many have gone all the way instead.
    seconds: float = 5.0
    warmup: float = 1.0
    messages: int = 0
    publishers: int = 1
    consumers: int = 1
    queues: int = 1
    # Messages, and then also the queues they go to.
    persistent: bool = False
    # Unconfirmed messages of a publisher; 0 publishes without confirms.
    window: int = 0
    # Deliveries for each acknowledgement; 0 consumes without acknowledgements.
    ack_every: int = 0
    prefetch: int = 0
    # Messages published and not yet consumed, of all publishers; 0 leaves it to the broker's flow control.
    in_flight: int = 0
    # Messages a second of all publishers, with time stamps; 0 is as fast as it goes.
    rate: float = 0.0
    # Of the exchange in front of the queues; empty is the default exchange.
    exchange_type: str = ""
    bindings: int = 1
    # What messages die of on their way to the consumers: REJECT or EXPIRE, or nothing.
    death: str = ""
    # Of the queues; None is the broker's own choice. Quorum queues and streams are durable whatever `persistent` says.
    queue_type: str | None = None
    # Priorities that messages have in turn, from 0 to this one; 0 is a queue without any.
    priorities: int = 0
    # Milliseconds that each message may wait, said in its own properties; 0 is for ever.
    ttl: int = 0
    # All fourteen properties, and some headers.
    all_properties: bool = False
    # Messages of each transaction.
    batch: int = 1
    # Keeps the names of two runs on one broker apart.
    token: str = field(default_factory=lambda: token_hex(2))

    def check(self) -> Plan:
        if self.rate and self.size < STAMP_BYTES:
            raise WarrenError(f"a body of {self.size} bytes has no room for a time stamp; it takes {STAMP_BYTES}")
        if self.prefetch and self.ack_every > self.prefetch:
            raise WarrenError(
                f"acknowledging every {self.ack_every} deliveries never happens at {self.prefetch} prefetched"
            )
        if self.in_flight and self.ack_every > self.in_flight:
            raise WarrenError(
                f"acknowledging every {self.ack_every} deliveries never happens at {self.in_flight} in flight"
            )
        if self.queue_type == STREAM and self.consumers and not (self.ack_every and self.prefetch):
            raise WarrenError("who consumes a stream must acknowledge (--ack-every) and say how far ahead (--prefetch)")
        return self

    @property
    def is_durable(self) -> bool:
        return self.persistent or self.queue_type in (QUORUM, STREAM)

    def properties(self) -> list[Properties]:
        """Of the messages in turn, all of one length."""
        each = Properties(delivery_mode=PERSISTENT) if self.persistent else Properties()
        if self.all_properties:
            each = replace(ALL_PROPERTIES, user_id=self.target.user, delivery_mode=PERSISTENT if self.persistent else 1)
        if self.ttl:
            each = replace(each, expiration=str(self.ttl))
        if not self.priorities:
            return [each]
        return [replace(each, priority=priority) for priority in range(self.priorities + 1)]

    @property
    def copies(self) -> int:
        """Deliveries that each message becomes."""
        return self.queues if self.exchange_type == "fanout" else 1

    @property
    def exchange(self) -> str:
        return f"perf-{self.token}" if self.exchange_type else ""

    def queue(self, number: int) -> str:
        """All of one length, so that all deliveries of a run are."""
        return f"perf-{self.token}-{number:03d}"

    @property
    def grave(self) -> str:
        """Where dead letters go; one for all."""
        return f"perf-{self.token}-end"

    def arguments(self) -> Table:
        """Of its queues."""
        arguments: Table = {}
        if self.queue_type:
            arguments["x-queue-type"] = Field("S", self.queue_type)
        if self.priorities:
            arguments["x-max-priority"] = Field("I", self.priorities)
        if self.death:
            arguments["x-dead-letter-exchange"] = Field("S", "")
            arguments["x-dead-letter-routing-key"] = Field("S", self.grave)
        if self.death == EXPIRE:
            arguments["x-message-ttl"] = Field("I", EXPIRE_MS)
        return arguments

    def queues_of(self, consumer: int) -> list[str]:
        """Queues are dealt out to the consumers; where there are more consumers, several share one queue."""
        if self.death:
            return [self.grave]
        if self.consumers > self.queues:
            return [self.queue(consumer % self.queues)]
        return [self.queue(number) for number in range(consumer, self.queues, self.consumers)]

    def keys_of(self, publisher: int) -> list[str]:
        """Routing keys that a publisher takes in turn, all of one length."""
        if self.exchange_type == "fanout":
            return [""]
        if self.exchange_type == "topic":
            # Steps of seven, as neighbours would lie side by side in the broker's memory too.
            return [f"dev.{(step * 7 + publisher) % self.bindings:06d}.temp" for step in range(self.bindings)]
        if self.publishers > self.queues:
            return [self.queue(publisher % self.queues)]
        return [self.queue(number) for number in range(publisher, self.queues, self.publishers)]

    def patterns(self) -> list[tuple[str, str]]:
        """What to bind: queue and binding key."""
        if self.exchange_type == "topic":
            return [(self.queue(number % self.queues), f"dev.{number:06d}.*") for number in range(self.bindings)]
        return [(self.queue(number), "") for number in range(self.queues)] if self.exchange_type else []
