"""Spans of publish, route and deliver, tied to each other and to the publisher's by the message's headers."""

from __future__ import annotations

import threading

import pika
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from warren import Broker
from warren.errors import WarrenError
from warren.extensions.otel import made_exporter

TRACER = "warren.extensions.otel:OpenTelemetryTracer"
TRACE = 0x4BF92F3577B34DA6A3CE929D0E0E4736
PARENT = 0x00F067AA0BA902B7


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The process has one provider for good."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    trace.set_tracer_provider(provider)
    return found


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_spans_follow_a_message_from_its_publisher_to_its_consumer(exporter: InMemorySpanExporter) -> None:
    exporter.clear()
    with Broker(tracer=TRACER) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        headers = {"traceparent": f"00-{TRACE:032x}-{PARENT:016x}-01", "kept": 1}
        channel.basic_publish("", "q", b"body", pika.BasicProperties(headers=headers, message_id="m"))
        _, properties, body = channel.basic_get("q", auto_ack=True)
    assert (body, properties.message_id, properties.headers["kept"]) == (b"body", "m", 1)
    spans = by_name(exporter)
    publish, route, deliver = spans["publish amq.default"], spans["route"], spans["deliver q"]
    for span in (publish, route, deliver):
        assert span.context is not None
        assert span.context.trace_id == TRACE
    assert publish.context is not None
    assert publish.parent is not None
    assert publish.parent.span_id == PARENT
    assert route.parent is not None
    assert route.parent.span_id == publish.context.span_id
    assert deliver.parent is not None
    assert deliver.parent.span_id == publish.context.span_id
    assert properties.headers["traceparent"] == f"00-{TRACE:032x}-{publish.context.span_id:016x}-01"
    assert route.attributes is not None
    assert route.attributes["warren.queues"] == ("q",)


def test_a_message_without_a_context_begins_one(exporter: InMemorySpanExporter) -> None:
    exporter.clear()
    with Broker(tracer=TRACER) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"body")
        _, properties, _ = channel.basic_get("q", auto_ack=True)
    assert by_name(exporter)["publish amq.default"].parent is None
    assert properties.headers["traceparent"].startswith("00-")


def test_a_refused_publish_is_a_span_with_an_error(exporter: InMemorySpanExporter) -> None:
    exporter.clear()
    with Broker(tracer=TRACER) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.basic_publish("missing", "k", b"")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("q", passive=True)
    assert by_name(exporter)["publish missing"].status.description == "404 NOT_FOUND"


def test_publishes_that_pass_one_to_very_many_queues_have_their_spans(exporter: InMemorySpanExporter) -> None:
    exporter.clear()
    with (
        Broker(tracer=TRACER) as broker,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as first,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as second,
    ):
        wide, other = first.channel(), second.channel()
        other.confirm_delivery()
        wide.confirm_delivery()
        wide.exchange_declare("wide", "fanout")
        # So little in each turn that it takes hundreds of them.
        broker.call(lambda node: setattr(node.errands.budget, "units", 1))
        for number in range(400):
            wide.queue_declare(f"q{number}")
            wide.queue_bind(f"q{number}", "wide")
        sending = threading.Thread(
            target=wide.basic_publish, args=("wide", "", b"", pika.BasicProperties(delivery_mode=2))
        )
        sending.start()
        while sending.is_alive():
            other.basic_publish("", "q0", b"")
        sending.join()
    names = [span.name for span in exporter.get_finished_spans()]
    assert names.count("publish wide") == 1
    assert names.count("publish amq.default") + 1 == names.count("route")


def test_an_exporter_that_is_not_installed_is_named() -> None:
    with pytest.raises(WarrenError, match="OTEL_TRACES_EXPORTER=nonsense: no such exporter is installed"):
        made_exporter("nonsense")
