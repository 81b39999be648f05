"""The ASGI application: all resources, the metrics and the page, with the headers that every answer carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warren.management import (
    bindings,
    channels,
    connections,
    consumers,
    contents,
    definitions,
    exchanges,
    health,
    limits,
    messages,
    metrics,
    moves,
    node,
    openapi,
    overview,
    page,
    parameters,
    permissions,
    pipelines,
    policies,
    queues,
    scheduled,
    session,
    traces,
    users,
    vhosts,
)
from warren.management.calls import Context
from warren.management.refusals import HANDLERS, response_of

RESOURCES: Final = (
    session,
    overview,
    node,
    vhosts,
    exchanges,
    queues,
    bindings,
    connections,
    channels,
    consumers,
    messages,
    contents,
    moves,
    scheduled,
    traces,
    users,
    permissions,
    policies,
    limits,
    parameters,
    definitions,
    pipelines,
    health,
    metrics,
    openapi,
    page,
)
_HEADERS: Final = {
    "cache-control": "no-cache",
    # What the API sends is no page; page.py has a policy of its own.
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def make_app(context: Context) -> ASGIApp:
    return _app(context, [each for resource in RESOURCES for each in resource.ROUTES])


def make_metrics_app(context: Context) -> ASGIApp:
    """For a port of its own, on which nobody logs in."""
    return _app(context, metrics.OPEN_ROUTES)


def _app(context: Context, routes: Sequence[BaseRoute]) -> ASGIApp:
    app = Starlette(routes=routes, exception_handlers={**HANDLERS, Exception: answer_bug})
    app.state.context = context
    return Front(app)


async def answer_bug(request: Request, error: Exception) -> Response:
    """No detail to the peer; Starlette raises it again, and uvicorn logs it with its traceback."""
    return response_of(500, "internal_error", "unexpected error, see the broker's log")


class Front:
    """Around the routes: paths stay undecoded, so that %2F is part of a name, and answers get their headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # Tools differ in whether they end a path with a slash.
            scope["path"] = scope["raw_path"].decode("latin-1").rstrip("/") or "/"

        # The page has a form of its own; at this header the browser would ask in a window, over and over.
        is_script = scope["type"] == "http" and (b"x-requested-with", b"XMLHttpRequest") in scope["headers"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if is_script and "www-authenticate" in headers:
                    del headers["www-authenticate"]
            await send(message)

        await self._app(scope, receive, send_with_headers)
