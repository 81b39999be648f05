"""Sends a pipeline's status to the broker's management API, with a lease. Best effort: a page that is not
up to date must not disturb the pipeline, so whatever goes wrong here is only noted in the status."""

from __future__ import annotations

import threading
from typing import Final

from warren.client.api import Api
from warren.errors import WarrenError
from warren.spark.pipelines.state import Status

LEASE_SECONDS: Final = 15
_TIMEOUT: Final = 5.0


class Reporter:
    """A thread that sends the newest status; older ones that it had no time for are forgotten."""

    def __init__(self, api: str, vhost: str, name: str) -> None:
        self._url = api
        self._vhost = vhost
        self._name = name
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
                api = Api(self._url, timeout=_TIMEOUT)
                api.put("pipelines", self._vhost, self._name, body={**status, "lease": LEASE_SECONDS})
                self.last_error = None
            except (WarrenError, ValueError) as error:
                # A ValueError where somebody else than a broker answers, and not in JSON.
                self.last_error = str(error)
