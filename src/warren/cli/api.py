"""The management API of a running broker, as the other commands use it. Works against RabbitMQ too."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

import click

from warren.errors import WarrenError

DEFAULT_URL: Final = "http://guest:guest@127.0.0.1:15672"
TIMEOUT: Final = 60.0

url_option = click.option(
    "--url",
    default=DEFAULT_URL,
    envvar="WARREN_URL",
    show_default=True,
    help="Management API of the broker, with user and password. Also WARREN_URL.",
)


class Api:
    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WarrenError(f"{url} is not an address like {DEFAULT_URL}")
        self._where = f"{parts.hostname}:{parts.port or 15672}"
        self._is_encrypted = parts.scheme == "https"
        login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
        self._headers = {
            "Authorization": "Basic " + b64encode(login.encode()).decode(),
            "Content-Type": "application/json",
            **(headers or {}),
        }

    def get(self, *path: str, **query: object) -> Any:
        return self._ask("GET", path, None, query)

    def put(self, *path: str, body: object) -> Any:
        return self._ask("PUT", path, body, {})

    def post(self, *path: str, body: object) -> Any:
        return self._ask("POST", path, body, {})

    def patch(self, *path: str, body: object) -> Any:
        return self._ask("PATCH", path, body, {})

    def delete(self, *path: str, **query: object) -> Any:
        return self._ask("DELETE", path, None, query)

    def _ask(self, method: str, path: tuple[str, ...], body: object, query: dict[str, object]) -> Any:
        kind = http.client.HTTPSConnection if self._is_encrypted else http.client.HTTPConnection
        connection = kind(self._where, timeout=TIMEOUT)
        target = "/api/" + "/".join(quote(part, safe="") for part in path)
        asked = {name: value for name, value in query.items() if value is not None}
        if asked:
            target += "?" + urlencode(asked)
        try:
            connection.request(method, target, None if body is None else json.dumps(body), self._headers)
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise WarrenError(f"no answer from {self._where}: {error}") from error
        finally:
            connection.close()
        if response.status >= 400:
            raise WarrenError(f"{method} {target}: {response.status} {reason_in(text)}")
        return json.loads(text) if text else None


def reason_in(text: str) -> str:
    """What an error's body says; a proxy in between may have sent something else than JSON."""
    try:
        answer = json.loads(text)
        return str(answer.get("reason", answer))
    except (ValueError, AttributeError):
        return text.strip()[:200]
