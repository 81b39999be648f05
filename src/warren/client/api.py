"""The management API of a running broker, as commands and pipelines use it. Works against RabbitMQ too."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from warren.errors import WarrenError

DEFAULT_URL: Final = "http://guest:guest@127.0.0.1:15672"
TIMEOUT: Final = 60.0
# Of the API's addresses: what one of a kind is called, and which kinds are within a virtual host.
_KINDS: Final = {
    "queues": "queue",
    "exchanges": "exchange",
    "policies": "policy",
    "scheduled": "exchange",
    "users": "user",
    "vhosts": "virtual host",
    "connections": "connection",
}
_IN_VHOST: Final = ("queues", "exchanges", "policies", "scheduled")


class Api:
    def __init__(self, url: str, headers: dict[str, str] | None = None, timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WarrenError(f"{url} is not an address like {DEFAULT_URL}")
        self._where = f"{parts.hostname}:{parts.port or 15672}"
        self._is_encrypted = parts.scheme == "https"
        self._timeout = timeout
        self._user = unquote(parts.username or "guest")
        login = f"{self._user}:{unquote(parts.password or 'guest')}"
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
        connection = kind(self._where, timeout=self._timeout)
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
            raise WarrenError(self._refusal(response.status, path, reason_in(text)))
        return json.loads(text) if text else None

    def _refusal(self, status: int, path: tuple[str, ...], reason: str) -> str:
        """A sentence for people. What the broker has to say goes before what can be told from the status."""
        if status == 401 and reason == "Login failed":
            return f"the broker at {self._where} does not know user '{self._user}' with this password"
        if status == 401:
            return f"user '{self._user}' may not do this: {reason}"
        if status == 404 and reason in ("Not Found", "vhost_not_found"):
            return f"there is no {_named(path)}"
        return reason


def _named(path: tuple[str, ...]) -> str:
    """What a request is about, by its address."""
    kind, names = path[0], path[1:]
    one = _KINDS.get(kind)
    if one is None or not names:
        return "such thing at this broker: " + " ".join(path)
    if kind in _IN_VHOST and len(names) > 1:
        return f"{one} '{names[1]}' in virtual host '{names[0]}'"
    return f"{'virtual host' if kind in _IN_VHOST else one} '{names[0]}'"


def reason_in(text: str) -> str:
    """What an error's body says; a proxy in between may have sent something else than JSON."""
    try:
        answer = json.loads(text)
        reason = answer.get("reason", answer)
        # RabbitMQ sometimes gives a list of a word and what it is about.
        return ": ".join(str(each) for each in reason) if isinstance(reason, list) else str(reason)
    except (ValueError, AttributeError):
        return text.strip()[:200]
