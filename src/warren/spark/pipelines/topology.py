"""Makes the streams, queues and exchanges that a pipeline names, where they are not there yet."""

from __future__ import annotations

from collections.abc import Iterable

from warren.amqp.fields import Table, table_of
from warren.amqp.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.broker.exchanges.pipeline import NAME_ARGUMENT, PIPELINE
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.client.session import Refused
from warren.errors import NotFound, WarrenError
from warren.spark.pipelines.model import Definition, SinkKind, Source, SourceKind

# Ids that a queue remembers: the default, and as many as it may be asked to.
_LEAST_IDS = 1000
_MOST_IDS = 1_000_000


def input_stream(definition: Definition, source: Source) -> str:
    """Where messages of an exchange are kept until, and after, the pipeline has read them."""
    return f"pipeline.{definition.name}.{source.name}"


def declare(definition: Definition) -> None:
    topology = _Topology(definition.broker, f"pipeline {definition.name}")
    for source in definition.sources.values():
        if source.declare:
            topology.declare_source(definition, source)
    for sink in definition.sinks.values():
        if sink.declare and sink.kind is SinkKind.PIPELINE:
            topology.declare_pipeline_exchange(sink.place, definition.name)
        elif sink.declare:
            topology.declare_place(sink.kind, sink.place, sink.exchange_type)
    if definition.dead_letters is not None:
        topology.declare_place(
            definition.dead_letters.kind, definition.dead_letters.place, "topic", _letters_arguments(definition)
        )


def is_warren(broker: str) -> bool:
    """It calls itself RabbitMQ, for clients that ask, and says here what it is."""
    with Client(parse_uri(broker), "pipeline") as client:
        return "warren_version" in client.server_properties


def depth_of(broker: str, queues: Iterable[str]) -> int | None:
    """How many messages wait in these queues; None when the broker does not say."""
    try:
        with Client(parse_uri(broker), "pipeline") as client:
            asked = (QueueDeclare(queue=name, passive=True) for name in queues)
            return sum(client.call(each, QueueDeclareOk).message_count for each in asked)
    except WarrenError:
        return None


class _Topology:
    def __init__(self, broker: str, product: str) -> None:
        self._target = parse_uri(broker)
        self._product = product

    def declare_source(self, definition: Definition, source: Source) -> None:
        if source.kind is SourceKind.QUEUE:
            self._queue(source.place, {})
        elif source.kind is SourceKind.STREAM:
            self._queue(source.place, _stream_arguments())
        elif source.kind is SourceKind.PIPELINE:
            self.declare_pipeline_exchange(source.place, definition.name)
        elif source.kind is SourceKind.EXCHANGE:
            self._exchange(source.place, "topic")
            stream = input_stream(definition, source)
            self._queue(stream, _stream_arguments())
            with Client(self._target, self._product) as client:
                for key in source.keys:
                    client.call(QueueBind(queue=stream, exchange=source.place, routing_key=key), QueueBindOk)

    def declare_place(self, kind: SinkKind, place: str, exchange_type: str, of_queue: Table | None = None) -> None:
        if kind is SinkKind.EXCHANGE and place:
            self._exchange(place, exchange_type)
        elif kind is SinkKind.STREAM:
            self._queue(place, _stream_arguments())
        elif kind is SinkKind.QUEUE:
            self._queue(place, of_queue or {})

    def declare_pipeline_exchange(self, name: str, pipeline: str) -> None:
        if self._is_there(ExchangeDeclare(exchange=name, passive=True), ExchangeDeclareOk):
            return
        arguments = table_of({NAME_ARGUMENT: pipeline})
        with Client(self._target, self._product) as client:
            asked = ExchangeDeclare(exchange=name, type=PIPELINE, durable=True, arguments=arguments)
            client.call(asked, ExchangeDeclareOk)

    def _queue(self, name: str, arguments: Table) -> None:
        """One that is there is taken as it is, whatever its arguments: it may have been declared with more of them."""
        if self._is_there(QueueDeclare(queue=name, passive=True), QueueDeclareOk):
            return
        with Client(self._target, self._product) as client:
            client.call(QueueDeclare(queue=name, durable=True, arguments=arguments), QueueDeclareOk)

    def _exchange(self, name: str, kind: str) -> None:
        if self._is_there(ExchangeDeclare(exchange=name, passive=True), ExchangeDeclareOk):
            return
        with Client(self._target, self._product) as client:
            client.call(ExchangeDeclare(exchange=name, type=kind, durable=True), ExchangeDeclareOk)

    def _is_there(
        self, question: QueueDeclare | ExchangeDeclare, answer: type[QueueDeclareOk] | type[ExchangeDeclareOk]
    ) -> bool:
        # A connection of its own, because a no closes the channel.
        try:
            with Client(self._target, self._product) as client:
                client.call(question, answer)
        except Refused as error:
            if error.code == NotFound.code:
                return False
            raise
        return True


def _letters_arguments(definition: Definition) -> Table:
    """A batch that is done again sends its misfits again, all of them at worst."""
    rows = sum(source.max_rows for source in definition.sources.values() if source.can_misfit)
    size = min(max(rows, _LEAST_IDS), _MOST_IDS)
    return table_of({"x-message-deduplication": True, "x-cache-size": size})


def _stream_arguments() -> Table:
    return table_of({"x-queue-type": "stream"})
