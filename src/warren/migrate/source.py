"""The broker that messages come from: RabbitMQ, or any other. A batch is taken, and acknowledged when it is told so.

The consumer is gone before a batch is acknowledged: nothing comes that was not asked for, so whatever is redelivered
after a crash belongs to the batch that was being moved.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import Final, NamedTuple

from warren.amqp import methods
from warren.amqp.constants import ORIGIN_HEADER, STREAM_OFFSET
from warren.amqp.fields import Field, Table
from warren.amqp.frames import content_frames, properties_span
from warren.amqp.properties import HEADERS, encode_properties
from warren.client.address import BrokerAddress
from warren.client.connection import Client
from warren.client.session import CHANNEL, Received, Refused, frame_of, refusal
from warren.errors import ResourceLocked, WarrenError

HEARTBEAT_SECONDS: Final = 30
PRODUCT: Final = "warren migrate"
LOCK: Final = "warren.migrate.lock"
# What a broker may take to notice that the connection of a killed migration is gone.
LOCK_SECONDS: Final = 30.0
# A queue that has messages and sends none for so long has none for us.
SILENCE_SECONDS: Final = 2.0
# Put in by quorum queues, other at every delivery.
COUNT_HEADER: Final = "x-delivery-count"


class Taken(NamedTuple):
    """A message of the source, as it was published."""

    tag: int
    is_redelivered: bool
    # The same for the same message, however often it is delivered.
    digest: str
    exchange: str
    routing_key: str
    received: Received

    @property
    def offset(self) -> int:
        """Its place in the stream that it comes from."""
        offset = (self.received.properties.headers or {})[STREAM_OFFSET].value
        assert isinstance(offset, int)
        return offset

    def publish_to(self, queue: str, frame_max: int, put_in: str) -> bytes:
        """For a queue here, without the header that its like at the source has put in."""
        properties = self.received.properties
        headers = dict(properties.headers or {})
        headers.pop(put_in, None)
        headers[ORIGIN_HEADER] = Field("A", [Field("S", self.exchange), Field("S", self.routing_key)])
        properties.headers = headers
        publish = frame_of(methods.BasicPublish(routing_key=queue, mandatory=True))
        return publish + content_frames(CHANNEL, encode_properties(properties), self.received.body, frame_max)


class OldBroker:
    def __init__(self, address: BrokerAddress) -> None:
        self._client = locked(address, "another migration from this broker is running")

    def count(self, queue: str) -> methods.QueueDeclareOk:
        """How many are ready, and how many consumers there are."""
        return self._client.call(methods.QueueDeclare(queue=queue, passive=True), methods.QueueDeclareOk)

    def take(self, queue: str, most: int, arguments: Table | None = None) -> list[Taken]:
        return take(self._client, queue, most, arguments)

    def ack(self, queue: str, tag: int) -> None:
        """Up to this one. Returns when the broker has seen it: what is asked on the same channel comes after it."""
        self._client.send([frame_of(methods.BasicAck(delivery_tag=tag, multiple=True))])
        self.count(queue)

    def leave(self) -> None:
        self._client.leave()


def take(client: Client, queue: str, most: int, arguments: Table | None = None) -> list[Taken]:
    """Fewer when no more come: some may have expired since they were counted."""
    client.call(methods.BasicQos(prefetch_count=most), methods.BasicQosOk)
    consumer = client.call(
        methods.BasicConsume(queue=queue, arguments=arguments or {}), methods.BasicConsumeOk
    ).consumer_tag
    found: list[Taken] = []
    while len(found) < most:
        received = client.session.take()
        if received is not None:
            found.append(_taken(received))
        elif not client.receive_within(SILENCE_SECONDS):
            break
    client.send([frame_of(methods.BasicCancel(consumer_tag=consumer))])
    while not isinstance((received := client.next()).method, methods.BasicCancelOk):
        found.append(_taken(received))
    return found


def locked(address: BrokerAddress, otherwise: str) -> Client:
    """A connection that only one migration can have at a time: it holds an exclusive queue, which goes with it."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        client = Client(address, PRODUCT, HEARTBEAT_SECONDS)
        try:
            client.call(methods.QueueDeclare(queue=LOCK, exclusive=True), methods.QueueDeclareOk)
            return client
        except Refused as refused:
            client.abandon()
            if refused.code != ResourceLocked.code:
                raise
            if time.monotonic() > deadline:
                raise WarrenError(f"{otherwise} ({address.place})") from refused
            time.sleep(0.5)


def _taken(received: Received) -> Taken:
    method = received.method
    if not isinstance(method, methods.BasicDeliver):
        raise refusal(method)
    digest = blake2b(digest_size=12)
    for part in (method.exchange.encode(), method.routing_key.encode(), _lasting(received), received.body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return Taken(
        method.delivery_tag,
        method.redelivered,
        digest.hexdigest(),
        method.exchange,
        method.routing_key,
        received,
    )


def _lasting(received: Received) -> bytes:
    """The properties without what a queue puts in: quorum queues add a header, and sort them all when they do."""
    start, end = properties_span(received.content)
    if not received.content[start] << 8 & HEADERS:
        return received.content[start:end]
    properties = received.properties
    headers = properties.headers or {}
    properties.headers = {name: headers[name] for name in sorted(headers) if name != COUNT_HEADER} or None
    return encode_properties(properties)
