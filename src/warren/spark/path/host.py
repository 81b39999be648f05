"""The world around a node that serves no sockets: no clock, no passwords, and draws that a seed decides."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from zlib import crc32

from warren.broker.world import Host, Login, Wire

_log: Final = logging.getLogger("warren.path")


class StillHost(Host):
    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.tokens = 0
        # What the next draw is about: the same message draws the same number wherever and whenever it is asked.
        self.subject = b""
        # Whether the node wants its turn to be ended.
        self.is_awake = False

    def wake(self) -> None:
        self.is_awake = True

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:022d}"

    def draw(self) -> int:
        return crc32(self.subject, self.seed)

    def stopwatch(self) -> int:
        """Nothing is timed here."""
        return 0

    def arrival(self) -> int:
        return 0

    def remembers_password(self, algorithm: str, password_hash: str, password: str) -> bool:
        return False

    def verify_password(self, login: Login, algorithm: str, password_hash: str, password: str) -> None:
        """Whoever published was let in: only a user that the definitions do not know is not."""
        login.password_verified(algorithm != "")

    def log(self, level: int, text: str) -> None:
        """Who comes and goes is of no interest; what an extension does wrong is."""
        if level >= logging.ERROR:
            _log.log(level, "%s", text)


class DeafWire(Wire):
    """Keeps what was written until somebody takes it, and rings; once hushed, forgets it."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self._is_kept = True
        self._ring: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        if not self._is_kept:
            return
        self._written.append(data)
        if self._ring is not None:
            self._ring()

    def close(self, farewell: bytes) -> None:
        self._written.append(farewell)

    def take(self) -> bytes:
        data, self._written = b"".join(self._written), []
        return data

    def hush(self) -> None:
        """Nobody reads the answers to millions of publishes."""
        self._written = []
        self._is_kept = False

    def tell(self, ring: Callable[[], None]) -> None:
        self._ring = ring
