"""What the pure core asks of the world. The server answers it with sockets, a loop and files; tests with lists.

Time is handed in as milliseconds that never go backwards (Node.tick); randomness comes from Host.token.
"""

from __future__ import annotations

from typing import Final, Protocol

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Wire:
    """The socket of one connection. No protocol, whose methods compiled code must look up; as it stands, of a
    connection that exists only within the broker and hears no answers."""

    def opened(self) -> None:
        """Its peer has logged in and opened a virtual host."""

    def write(self, data: bytes) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self, farewell: bytes) -> None:
        """Write this, if anything, and close once all has left. The server then calls Connection.lost()."""


class Login(Protocol):
    """Somebody who waits to be let in."""

    peer_host: str

    def password_verified(self, is_right: bool) -> None: ...


# Those of the logging module.
INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40


@mypyc_attr(allow_interpreted_subclasses=True)
class Host:
    """The process around the core."""

    def wake(self) -> None:
        """Output or timers changed: call Node.flush() at the end of this turn, once."""
        raise NotImplementedError

    def token(self) -> str:
        """22 random characters of the URL-safe base64 alphabet."""
        raise NotImplementedError

    def draw(self) -> int:
        """A random number of 32 bits."""
        raise NotImplementedError

    def stopwatch(self) -> int:
        """Nanoseconds of a clock whose differences are what counts."""
        raise NotImplementedError

    def arrival(self) -> int:
        """What the stopwatch showed when the bytes that are being handled were read."""
        raise NotImplementedError

    def remembers_password(self, algorithm: str, password_hash: str, password: str) -> bool:
        """It was right before. Takes no time."""
        raise NotImplementedError

    def verify_password(self, login: Login, algorithm: str, password_hash: str, password: str) -> None:
        """Check off the loop, then call login.password_verified(ok), at once or later. A user whom nobody knows has
        no algorithm."""
        raise NotImplementedError

    def log(self, level: int, text: str) -> None:
        raise NotImplementedError


class Recorder(Protocol):
    """Where definitions survive a restart. Values have the shapes of RabbitMQ's definitions file.

    What is put and deleted is durable when the store has reached the position that it has afterwards.
    """

    def put(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None: ...

    def delete(self, kind: str, key: tuple[str, ...]) -> None: ...


class NoRecorder:
    """Definitions that live as long as the process: the in-process broker of tests."""

    def put(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None:
        pass

    def delete(self, kind: str, key: tuple[str, ...]) -> None:
        pass
