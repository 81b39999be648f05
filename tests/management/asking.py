"""A small client of the API: what was answered, with its status and headers."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from warren import Broker


@dataclass
class Answer:
    status: int
    text: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Asking:
    def __init__(self, broker: Broker, login: str | None = "guest:guest") -> None:
        self._where = broker.http_url.removeprefix("http://")
        self._login = login

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def put(self, path: str, body: object = None) -> Answer:
        return self.ask("PUT", path, body)

    def post(self, path: str, body: object = None) -> Answer:
        return self.ask("POST", path, body)

    def delete(self, path: str, **headers: str) -> Answer:
        return self.ask("DELETE", path, None, **headers)

    def ask(self, method: str, path: str, body: object, **headers: str) -> Answer:
        if self._login is not None:
            headers["Authorization"] = "Basic " + b64encode(self._login.encode()).decode()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self._where, timeout=20)
        try:
            connection.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            text = response.read().decode()
            return Answer(response.status, text, {name.lower(): value for name, value in response.getheaders()})
        finally:
            connection.close()
