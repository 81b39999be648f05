"""Sends a pipeline's status to the broker's management API, with a lease. Best effort: a page that is not
up to date must not disturb the pipeline, so whatever goes wrong here is only noted in the status."""

from __future__ import annotations

import http.client
import json
import threading
from base64 import b64encode
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from warren.spark.pipelines.state import Status

LEASE_SECONDS: Final = 15
_TIMEOUT: Final = 5.0


class Reporter:
    """A thread that sends the newest status; older ones that it had no time for are forgotten."""

    def __init__(self, api: str, vhost: str, name: str) -> None:
        self._url = urlsplit(api)
        self._path = f"/api/pipelines/{quote(vhost, safe='')}/{quote(name, safe='')}"
        self._newest: Status | None = None
        self._changed = threading.Condition()
        self._is_over = False
        self.last_error: str | None = None
        self._thread = threading.Thread(target=self._run, name="pipeline-reporter", daemon=True)
        if api:
            self._thread.start()

    def report(self, status: Status) -> None:
        with self._changed:
            self._newest = status
            self._changed.notify()

    def close(self) -> None:
        """Sends what is left first."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(2 * _TIMEOUT)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._newest is None and not self._is_over:
                    self._changed.wait()
                status, self._newest = self._newest, None
            if status is None:
                return
            try:
                self._send(status)
                self.last_error = None
            except (OSError, http.client.HTTPException) as error:
                self.last_error = f"no answer from {self._url.hostname}: {error}"

    def _send(self, status: Status) -> None:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port or 15672, timeout=_TIMEOUT)
        login = f"{unquote(self._url.username or 'guest')}:{unquote(self._url.password or 'guest')}"
        headers = {
            "Authorization": "Basic " + b64encode(login.encode()).decode(),
            "Content-Type": "application/json",
        }
        try:
            connection.request("PUT", self._path, json.dumps({**status, "lease": LEASE_SECONDS}), headers)
            response = connection.getresponse()
            response.read()
            if response.status >= 400:
                raise http.client.HTTPException(f"{response.status} {response.reason}")
        finally:
            connection.close()
