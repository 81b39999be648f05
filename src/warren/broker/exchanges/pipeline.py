"""x-pipeline: an exchange whose routing step is a pipeline on Spark.

What clients publish goes to the exchange's input, a stream that the pipeline reads. What the pipeline publishes, as a
header tells, goes to the bound queues as at a topic exchange. Nobody who publishes or consumes sees anything of Spark.
"""

from __future__ import annotations

from typing import Final

from warren.amqp.fields import Field, Table
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.topic import TopicExchange
from warren.errors import PreconditionFailed

PIPELINE: Final = "x-pipeline"
# The pipeline's name, in the arguments of the exchange, or else in a policy.
NAME_ARGUMENT: Final = "x-pipeline"
NAME_SETTING: Final = "pipeline"
# Marks the binding that leads to the input.
INPUT_ARGUMENT: Final = "x-pipeline-input"
RESULT_HEADER: Final = "x-pipeline-result"


def input_of(exchange: str) -> str:
    """The stream that keeps what was published until the pipeline has read it, and after."""
    return f"pipeline.{exchange}"


def pipeline_named_in(arguments: Table) -> str:
    """Empty when they name none: a policy may."""
    field = arguments.get(NAME_ARGUMENT)
    if field is None:
        return ""
    if not isinstance(field.value, str) or not field.value:
        raise PreconditionFailed(f"Invalid argument, '{NAME_ARGUMENT}' must name the pipeline")
    return field.value


def input_arguments() -> Table:
    return {INPUT_ARGUMENT: Field("t", True)}


class PipelineExchange(Exchange):
    def __init__(self, vhost: str, name: str, pipeline: str) -> None:
        super().__init__(vhost, name, PIPELINE)
        self.pipeline = pipeline
        self.looks_beyond_keys = True
        self._inputs: list[Destination] = []
        self._results = TopicExchange(vhost, name)

    def add(self, binding: Binding) -> None:
        if is_input(binding):
            self._inputs.append(binding.destination)
        else:
            self._results.add(binding)

    def remove(self, binding: Binding) -> None:
        if is_input(binding):
            self._inputs.remove(binding.destination)
        else:
            self._results.remove(binding)

    def match(self, envelope: Envelope) -> list[Destination]:
        if envelope.headers is not None and RESULT_HEADER in envelope.headers:
            return self._results.match(envelope)
        return self._inputs


def is_input(binding: Binding) -> bool:
    field = binding.arguments.get(INPUT_ARGUMENT)
    return field is not None and field.value is True
