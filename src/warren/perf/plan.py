"""What to do to which broker: the settings of one run, as plain values that travel to the worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final

from warren.amqp.fields import Field, Table
from warren.client.address import BrokerAddress
from warren.errors import WarrenError

# A time stamp of nanoseconds lies at the front of a timed body.
STAMP_BYTES: Final = 8
# Ways to die: a consumer rejects it, or it has waited so many milliseconds.
REJECT: Final = "reject"
EXPIRE: Final = "expire"
EXPIRE_MS: Final = 5


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
        return self

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
        if not self.death:
            return {}
        arguments = {
            "x-dead-letter-exchange": Field("S", ""),
            "x-dead-letter-routing-key": Field("S", self.grave),
        }
        return arguments if self.death == REJECT else {**arguments, "x-message-ttl": Field("I", EXPIRE_MS)}

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
