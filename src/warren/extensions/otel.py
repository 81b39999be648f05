"""OpenTelemetry: spans of publish, route and deliver, with the context in the message's headers (`traceparent`).

    tracer = "warren.extensions.otel:OpenTelemetryTracer"

Needs the extra `otel`. Spans go where the process's tracer provider sends them; where none was set, one is made that
follows OTEL_TRACES_EXPORTER: `console`, or an exporter that is installed under that name (`otlp`), else `none`.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Any

from warren.amqp.fields import Field, Table
from warren.errors import WarrenError
from warren.extend import Tracer
from warren.extras import how_to_install

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
except ImportError as error:
    raise WarrenError(f"OpenTelemetry is not installed: {how_to_install('otel')}") from error

EXPORTER_VARIABLE = "OTEL_TRACES_EXPORTER"


class OpenTelemetryTracer(Tracer):
    def __init__(self) -> None:
        super().__init__()
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(made_provider(os.environ.get(EXPORTER_VARIABLE, "none")))
        self._tracer = trace.get_tracer("warren")
        self._publish: Span | None = None
        self._route: Span | None = None

    def publish_started(self, vhost: str, exchange: str, routing_key: str, headers: Table | None) -> Table | None:
        facts = {
            "messaging.system": "rabbitmq",
            "messaging.operation.type": "publish",
            "messaging.destination.name": exchange or "amq.default",
            "messaging.rabbitmq.destination.routing_key": routing_key,
            "messaging.rabbitmq.vhost": vhost,
        }
        name = f"publish {exchange or 'amq.default'}"
        self._publish = self._tracer.start_span(name, context_in(headers), SpanKind.SERVER, attributes=facts)
        within = trace.set_span_in_context(self._publish)
        self._route = self._tracer.start_span("route", within)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, within)
        changed: Table = {} if headers is None else dict(headers)
        changed.update({key: Field("S", value) for key, value in carrier.items()})
        return changed

    def routed(self, queues: list[str]) -> None:
        if self._route is not None:
            self._route.set_attribute("warren.queues", queues)
            self._route.end()
            self._route = None

    def publish_ended(self, refusal: str) -> None:
        self.routed([])
        if self._publish is None:
            return
        if refusal:
            self._publish.set_status(Status(StatusCode.ERROR, refusal))
        self._publish.end()
        self._publish = None

    def delivered(self, vhost: str, queue: str, headers: Table | None, redelivered: bool) -> None:
        facts: dict[str, str | bool] = {
            "messaging.system": "rabbitmq",
            "messaging.operation.type": "deliver",
            "messaging.destination.name": queue,
            "messaging.rabbitmq.vhost": vhost,
            "messaging.rabbitmq.message.redelivered": redelivered,
        }
        self._tracer.start_span(f"deliver {queue}", context_in(headers), SpanKind.PRODUCER, attributes=facts).end()


def context_in(headers: Table | None) -> Context:
    """What the publisher, or the broker before, said about where it belongs."""
    texts = {name: str(field.value) for name, field in (headers or {}).items() if isinstance(field.value, str)}
    return propagate.extract(texts)


def made_provider(exporter: str) -> TracerProvider:
    provider = TracerProvider(resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "warren")}))
    if exporter != "none":
        provider.add_span_processor(BatchSpanProcessor(made_exporter(exporter)))
    return provider


def made_exporter(name: str) -> SpanExporter:
    found: Any = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if found is None:
        raise WarrenError(f"{EXPORTER_VARIABLE}={name}: no such exporter is installed")
    exporter: SpanExporter = found.load()()
    return exporter
