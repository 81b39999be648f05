"""/api/openapi.json: the API described from its own table of routes, for generators, testers and readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from warren import __version__
from warren.management.calls import Handler, Needs, OpenResource, Resource
from warren.management.spec import ANSWERS, BODIES, FLAG, NUMBER, OBJECT, QUESTIONS, TEXT, Schema, list_of, whole

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ERROR: Final[Schema] = {"$ref": "#/components/schemas/Error"}
_REFUSED: Final = {
    400: "The request says something that cannot be.",
    401: "Who asks is unknown, or may not.",
    403: "A change with a session's cookie needs the CSRF token.",
    404: "There is no such thing.",
    405: "The path does not know this method.",
    409: "It cannot be done as things are, and nothing changed.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    429: "Too many failed logins from this address.",
}
_LISTING_QUESTIONS: Final[dict[str, Schema]] = {
    "page": {"type": "integer", "minimum": 1},
    "page_size": {"type": "integer", "minimum": 1, "maximum": 500},
    "name": TEXT,
    "use_regex": FLAG,
    "sort": TEXT,
    "sort_reverse": FLAG,
    "columns": TEXT,
}
_PAGE: Final[Schema] = whole(
    total_count=NUMBER,
    item_count=NUMBER,
    filtered_count=NUMBER,
    page=NUMBER,
    page_size=NUMBER,
    page_count=NUMBER,
    items=list_of(OBJECT),
)


def document(routes: list[BaseRoute]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for each in routes:
        if isinstance(each, Resource) and each.path.startswith("/api"):
            operations = paths.setdefault(each.path, {})
            for method, handler in each.handlers.items():
                operations[method.lower()] = _operation(each, method, handler)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Warren's management API",
            "version": __version__,
            "description": "RabbitMQ's management API, and what Warren adds to it. Names in paths are percent-encoded: "
            "the virtual host / is %2F.",
        },
        "security": [{"basic": []}, {"session": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": "warren_session"},
            },
            "schemas": {"Error": whole(error=TEXT, reason={"oneOf": [TEXT, {"type": "array", "items": {}}]})},
        },
    }


def _operation(resource: Resource, method: str, handler: Handler) -> dict[str, Any]:
    where = handler.__module__.rpartition(".")[2]
    operation: dict[str, Any] = {
        "operationId": method.lower() + re.sub(r"\W+", "_", resource.path.removeprefix("/api")).rstrip("_"),
        "summary": _summary(handler),
        "tags": [where],
        "parameters": [*_in_path(resource.path), *_in_query(method, handler)],
        "responses": _responses(method, handler),
    }
    if isinstance(resource, OpenResource):
        operation["security"] = []
    elif resource.needs > Needs.NOTHING:
        operation["description"] = f"Needs the tag {resource.needs.name.lower()} or a greater one."
    body = BODIES.get(_function(handler))
    if body is not None:
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"content": content, "required": bool(body.get("required"))}
    return operation


def _function(handler: Handler) -> Callable[..., Any]:
    """Under which spec.py has it: a method's is that of its class."""
    function: Callable[..., Any] = getattr(handler, "__func__", handler)
    return function


def _summary(handler: Handler) -> str:
    """The handler's first words, or its name."""
    text = (handler.__doc__ or "").strip().split("\n")[0]
    return text or handler.__name__.replace("_", " ").capitalize()


def _in_path(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(path)
    ]


def _in_query(method: str, handler: Handler) -> list[dict[str, Any]]:
    questions = dict(QUESTIONS.get(_function(handler), {}))
    if method == "GET" and _is_listing(handler):
        questions |= _LISTING_QUESTIONS
    elif method == "GET":
        questions.setdefault("columns", TEXT)
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in questions.items()]


def _is_listing(handler: Handler) -> bool:
    return handler.__name__.startswith("list_") and _function(handler) not in ANSWERS


def _responses(method: str, handler: Handler) -> dict[str, Any]:
    answers = ANSWERS.get(_function(handler))
    if answers is None and method == "GET":
        answers = {200: {"oneOf": [list_of(OBJECT), _PAGE]} if _is_listing(handler) else OBJECT}
    elif answers is None:
        answers = {201: None, 204: None} if method in ("PUT", "POST") else {204: None}
    responses = {str(status): _response("Done.", schema) for status, schema in answers.items()}
    for status, meaning in _REFUSED.items():
        responses.setdefault(str(status), _response(meaning, _ERROR))
    return responses


def _response(meaning: str, schema: Schema | None) -> dict[str, Any]:
    response: dict[str, Any] = {"description": meaning}
    if schema is not None:
        response["content"] = {"application/json": {"schema": schema}}
    return response


async def show(request: Request) -> Response:
    return JSONResponse(document(request.app.routes))


# Without a login, as a page that describes it would be.
ROUTES: Final = [Route("/api/openapi.json", show)]
