"""/ : one page for whoever opens the port in a browser."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from warren import __version__

PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Warren</title>
<h1>Warren {__version__}</h1>
<p>A message broker that speaks AMQP 0-9-1 as RabbitMQ does. This port serves:</p>
<ul>
<li><a href="/api/overview">/api</a>: the management API, with RabbitMQ's paths and shapes (basic authentication)</li>
<li><a href="/metrics">/metrics</a>: counters for Prometheus</li>
</ul>
</html>
"""


async def show(_: Request) -> Response:
    return HTMLResponse(PAGE)


ROUTES: Final = [Route("/", show)]
