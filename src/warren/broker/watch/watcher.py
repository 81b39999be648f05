"""Watches publishes for those who asked: journeys, the firehose of a traced vhost, tracers outside, samples of latency.

It hears each stage from publish.py and tells the rest; what a journey says of a stage is written here.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.amqp.frames import properties_span
from warren.amqp.properties import decode_properties
from warren.broker.exchanges.base import Envelope, Exchange
from warren.broker.message import NEVER, Message, content_with
from warren.broker.publish.publish import asks_for_journey
from warren.broker.publish.republish import WIDE
from warren.broker.queue.entry import Entry
from warren.broker.queue.outcome import DELIVERED, DISCARDED, DISPLACING, DUPLICATE, FAILED, REFUSED, SCHEDULED
from warren.broker.queue.queue import Queue
from warren.broker.queue.recipient import Recipient
from warren.broker.session.channel import Channel
from warren.broker.session.house import House
from warren.broker.session.observer import Observer, Watching
from warren.broker.session.tracer import Tracer
from warren.broker.watch.explain import explain
from warren.broker.watch.firehose import trace_delivery, trace_publish
from warren.broker.watch.journey import Awaited, Journey, Journeys
from warren.broker.watch.latency import Latency
from warren.broker.watch.own_messages import OwnMessages
from warren.errors import AmqpError


class Watch(Watching):
    """Who watches a node, and so which of its publishes."""

    def __init__(self, node: House) -> None:
        self.node = node
        self.journeys = Journeys(node)
        self.latency = Latency(node)
        self.own = OwnMessages(node.errands)
        self.tracer: Tracer | None = None

    def changed(self) -> None:
        node = self.node
        is_traced = any(vhost.tracing for vhost in node.vhosts.values())
        is_told = is_traced or self.tracer is not None
        node.is_watched = is_told or self.journeys.is_on() or self.latency.wanted > 0
        node.watches_deliveries = is_told or len(self.latency.followed) > 0

    def delivered(self, channel: Recipient, queue: Queue, entry: Entry) -> None:
        if self.latency.followed:
            self.latency.delivered(queue, entry)
        assert isinstance(channel, Channel)
        if channel.vhost.tracing:
            trace_delivery(self.own, channel, queue.name, entry)
        if self.tracer is not None:
            headers = entry.message.properties().headers
            self.tracer.delivered(channel.vhost.name, queue.name, headers, entry.redelivered)

    def observer_of(self, channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> Observer | None:
        journey: Journey | None = None
        if asks_for_journey(content) or self._is_wanted(arguments):
            journey = self._begin(channel, arguments, content, body_size)
            if not self.node.intercepts_publish:
                journey.note("interceptor", "none")
        if journey is None and self.tracer is None and not channel.vhost.tracing and self.latency.wanted == 0:
            return None
        return Watcher(self, channel, journey)

    def observer_asked_by(
        self, extension: str, channel: Channel, arguments: bytes, content: bytes, body_size: i64
    ) -> Observer | None:
        journey = self._begin(channel, arguments, content, body_size)
        journey.note("interceptor", f"{extension} asked for the journey")
        return Watcher(self, channel, journey)

    def _is_wanted(self, arguments: bytes) -> bool:
        return self.journeys.is_on() and self.journeys.wants(names_in(arguments)[0])

    def _begin(self, channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> Journey:
        connection = channel.connection
        journey = self.journeys.begin(channel.vhost.name, connection.name, channel.user, arrival(channel))
        journey.exchange, journey.routing_key = names_in(arguments)
        journey.body_size = body_size
        pieces = ", in more than one read" if channel.arrival >= 0 else ""
        journey.note(
            "reader", f"{len(content)} bytes of content on channel {channel.number} of {connection.name}{pieces}"
        )
        return journey


class Watcher(Observer):
    """Of one publish. Stages are told to the journey if there is one, the whole to the others."""

    def __init__(self, watch: Watch, channel: Channel, journey: Journey | None) -> None:
        self._watch = watch
        self._channel = channel
        self._journey = journey
        self._tracer = watch.tracer
        self._is_traced = False
        self._outcomes: list[int] = []

    def _note(self, stage: str, text: str) -> None:
        if self._journey is not None:
            self._journey.note(stage, text)

    # -- checks ----------------------------------------------------------------------------------------------------

    def intercepted(self, name: str, arguments: bytes, body_size: i64) -> None:
        self._note("interceptor", f"{name} let it pass with a body of {body_size} bytes")
        if self._journey is not None:
            self._journey.exchange, self._journey.routing_key = names_in(arguments)
            self._journey.body_size = body_size

    def entering(self, arguments: bytes, content: bytes) -> bytes:
        """The content with the headers that the tracer wants in it."""
        tracer = self._tracer
        if tracer is None:
            return content
        self._is_traced = True
        start, end = properties_span(content)
        properties = decode_properties(content, start, end)
        exchange, key = names_in(arguments)
        headers = tracer.publish_started(self._channel.vhost.name, exchange, key, properties.headers)
        if headers is None:
            return content
        properties.headers = headers
        return content_with(content, self._channel.number, properties, self._channel.connection.frame_max)

    def weighed(self, body_size: i64, limit: i64) -> None:
        self._note("size", f"a body of {body_size} bytes, at most {limit}")

    def may_write(self, exchange: str) -> None:
        channel = self._channel
        self._note(
            "permission", f"user '{channel.user}' may write to {shown(exchange)} in vhost '{channel.vhost.name}'"
        )

    def found(self, exchange: Exchange) -> None:
        self._note("exchange", f"{shown(exchange.name)} is a {exchange.type} exchange, and not internal")

    def read(self, message: Message, message_id: str | None, seqno: i64) -> None:
        if self._journey is None:
            return
        facts = ["persistent" if message.persistent else "transient"]
        if message.ttl != NEVER:
            facts.append(f"expires after {message.ttl} ms")
        if message.priority > 0:
            facts.append(f"priority {message.priority}")
        if len(message.origin.keys) > 1:
            facts.append(f"{len(message.origin.keys) - 1} more keys from CC and BCC")
        if seqno > 0:
            facts.append(f"number {seqno} of its channel")
        self._journey.message_id = message_id or ""
        self._journey.note("properties", ", ".join(facts))

    def may_use_keys(self, exchange: Exchange, keys: list[str]) -> None:
        if exchange.type == "topic":
            names = " and ".join([f"'{key}'" for key in keys])
            self._note("topic permission", f"user '{self._channel.user}' may write with the key {names}")

    def may_claim(self, user_id: str) -> None:
        self._note("user id", f"'{user_id}' may be what user '{self._channel.user}' calls itself")

    # -- queues ----------------------------------------------------------------------------------------------------

    def routed(self, exchange: Exchange, message: Message, envelope: Envelope, queues: list[Queue]) -> None:
        latency = self._watch.latency
        channel = self._channel
        # A schedule is part of its exchange: there is no queue of that name.
        names = [queue.name for queue in queues if not queue.is_schedule]
        if self._tracer is not None:
            self._tracer.routed(names)
            if len(queues) > WIDE:
                # It takes some turns, in which others begin, and a tracer hears of one publish at a time.
                self._end_trace("")
        if self._journey is not None:
            note_route(self._journey, channel.vhost.exchanges, exchange, envelope, queues)
        if channel.vhost.tracing:
            trace_publish(self._watch.own, channel, message, names)
        if latency.wanted > 0 and channel.transaction is None:
            latency.follow(queues, arrival(channel))

    def held(self) -> None:
        self._note("transaction", "it waits for tx.commit")
        self._end("in a transaction")
        self._end_trace("")

    def committed(self) -> None:
        self._note("transaction", "committed")
        self._end("")

    def abandoned(self, how: str) -> None:
        self._note("transaction", how)
        self._end(how)

    def queued(self, queue: Queue, outcome: i64) -> None:
        self._outcomes.append(outcome)
        self._note("queue", "; ".join([fate(queue, outcome), *limits_of(queue)]))

    def returned(self) -> None:
        self._note("answer", "basic.return, 312 NO_ROUTE")
        self._end("returned")

    def dropped(self) -> None:
        self._note("answer", "no queue, and not mandatory: dropped")
        self._end("dropped")

    def answered(self, seqno: i64, is_kept: bool) -> None:
        """The last of it: where it is in the log, and what its publisher hears."""
        self._end_trace("")
        journey = self._journey
        if journey is None:
            return
        store = self._channel.connection.node.store
        is_refused = REFUSED in self._outcomes or FAILED in self._outcomes
        if is_kept and store.position == 0:
            journey.note("store", "in memory only: this broker has no data folder")
        elif is_kept:
            journey.note("store", f"position {store.position} of the log, on disk up to {store.synced}")
        if not journey.outcome:
            journey.outcome = "refused" if is_refused else "scheduled" if SCHEDULED in self._outcomes else "routed"
        if seqno == 0:
            journey.note("confirm", "none was asked for")
        elif is_refused:
            journey.note("confirm", f"basic.nack for number {seqno}")
        elif is_kept and store.position > store.synced:
            self._watch.journeys.awaiting.append(Awaited(store.position, journey, journey.outcome))
            journey.outcome = "waits for the disk"
        else:
            journey.note("confirm", f"basic.ack for number {seqno}")

    def refused(self, error: AmqpError) -> None:
        if self._journey is not None:
            self._journey.refuse(error)
        self._end_trace(f"{error.code} {error.name}")

    def _end(self, outcome: str) -> None:
        if self._journey is not None:
            self._journey.outcome = outcome

    def _end_trace(self, refusal: str) -> None:
        if self._tracer is not None and self._is_traced:
            self._is_traced = False
            self._tracer.publish_ended(refusal)


def arrival(channel: Channel) -> i64:
    """When the first frame of the publish was read."""
    return channel.arrival if channel.arrival >= 0 else channel.connection.node.host.arrival()


def names_in(arguments: bytes) -> tuple[str, str]:
    """Exchange and key of a publish frame; empty also when it cannot be read, which is found out soon enough."""
    end = 3 + (arguments[2] if len(arguments) > 2 else 0)
    last = end + 1 + (arguments[end] if len(arguments) > end else 0)
    return arguments[3:end].decode("utf-8", "replace"), arguments[end + 1 : last].decode("utf-8", "replace")


def shown(exchange: str) -> str:
    return exchange or "the default exchange"


def note_route(
    journey: Journey, exchanges: dict[str, Exchange], exchange: Exchange, envelope: Envelope, queues: list[Queue]
) -> None:
    journey.queues = [queue.name for queue in queues if not queue.is_schedule]
    names = ", ".join(journey.queues)
    stage = journey.note("route", f"to {names}" if names else ("to no queue yet" if queues else "to no queue"))
    began = journey.stopwatch()
    stage.steps = explain(exchanges, exchange, envelope)
    journey.leave_out(began)


def limits_of(queue: Queue) -> list[str]:
    """What may happen to any message of this queue."""
    options = queue.options
    facts = []
    if queue.keeps_all:
        return [f"keeps {options.max_bytes} bytes"] if options.max_bytes >= 0 else []
    if options.max_length >= 0:
        facts.append(f"at most {options.max_length} messages ({options.overflow})")
    if options.max_bytes >= 0:
        facts.append(f"at most {options.max_bytes} bytes ({options.overflow})")
    if options.ttl >= 0:
        facts.append(f"messages expire after {options.ttl} ms")
    if options.dead_letter_exchange is not None:
        facts.append(f"dead letters go to '{options.dead_letter_exchange or 'the default exchange'}'")
    return facts


_FATES: Final = {
    REFUSED: "{name} is full and refused it",
    FAILED: "{name} failed over it, and begins anew without it",
    SCHEDULED: "it waits in the schedule of exchange {name}, as number {number}",
    DUPLICATE: "{name} took it for a duplicate",
    DISCARDED: "{name} discarded it: it would expire at once, and nobody waits for it",
    DELIVERED: "{name} handed it straight to a consumer",
    DISPLACING: "{name} took it as number {number}, and dropped its head: it may hold no more",
}


def fate(queue: Queue, outcome: i64) -> str:
    """What the queue did with the message that it has just been given."""
    name = f"'{queue.name}'"
    number = queue.newest()
    text = _FATES.get(int(outcome))
    if text is not None:
        return text.format(name=name, number=number)
    if queue.keeps_all:
        return f"stream {name} took it at offset {number - 1}"
    return f"{name} took it as number {number}, behind {queue.backing.length - 1} others"
