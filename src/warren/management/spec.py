"""What an endpoint takes and gives, said beside it: openapi.py prints it, and nothing else says it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

Schema = dict[str, Any]
H = TypeVar("H", bound=Callable[..., Any])

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
ANYTHING: Final[Schema] = {}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
# Some languages write an empty object as an empty list, and RabbitMQ takes it.
ARGUMENTS: Final[Schema] = {"type": "object", "description": "x-arguments, as of a declaration over AMQP"}
TAGS: Final[Schema] = {"oneOf": [TEXT, TEXTS]}

# By function: request bodies, answers where the method does not tell them, and questions beyond those of a listing.
BODIES: Final[dict[Callable[..., Any], Schema]] = {}
ANSWERS: Final[dict[Callable[..., Any], dict[int, Schema | None]]] = {}
QUESTIONS: Final[dict[Callable[..., Any], dict[str, Schema]]] = {}


def shape(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


def whole(**properties: Schema) -> Schema:
    """All of them are always there."""
    return shape(tuple(properties), **properties)


def list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def takes(*required: str, **properties: Schema) -> Callable[[H], H]:
    """The JSON object that the request must carry. A name with a hyphen is written with an underscore twice."""

    def remember(handler: H) -> H:
        named = {name.replace("__", "-"): schema for name, schema in properties.items()}
        BODIES[handler] = shape(required, **named)
        return handler

    return remember


def gives(answers: dict[int, Schema | None]) -> Callable[[H], H]:
    """Statuses, and what comes with them; None for nothing."""

    def remember(handler: H) -> H:
        ANSWERS[handler] = answers
        return handler

    return remember


def asks(**questions: Schema) -> Callable[[H], H]:
    """Parameters in the query string."""

    def remember(handler: H) -> H:
        QUESTIONS[handler] = {name.replace("__", "-"): schema for name, schema in questions.items()}
        return handler

    return remember
