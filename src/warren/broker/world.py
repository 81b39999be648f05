"""What the pure core asks of the world. The server answers it with sockets, a loop and files; tests with lists.

Time is handed in as milliseconds that never go backwards (Node.tick); randomness comes from Host.token.
"""

from __future__ import annotations

from typing import Final, Protocol

from mypy_extensions import mypyc_attr


class Wire(Protocol):
    """The socket of one connection."""

    def opened(self) -> None:
        """Its peer has logged in and opened a virtual host."""

    def write(self, data: bytes) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, farewell: bytes) -> None:
        """Write this, if anything, and close once all has left. The server then calls Connection.lost()."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NoWire:
    """Of a connection that exists only within the broker, and hears no answers."""

    def opened(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self, farewell: bytes) -> None:
        pass


class Login(Protocol):
    """Somebody who waits to be let in."""

    peer_host: str

    def password_verified(self, is_right: bool) -> None: ...


# Those of the logging module.
INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40


class Host(Protocol):
    """The process around the core."""

    def wake(self) -> None:
        """Output or timers changed: call Node.flush() at the end of this turn, once."""

    def token(self) -> str:
        """22 random characters of the URL-safe base64 alphabet."""

    def draw(self) -> int:
        """A random number of 32 bits."""

    def stopwatch(self) -> int:
        """Nanoseconds of a clock whose differences are what counts."""

    def arrival(self) -> int:
        """What the stopwatch showed when the bytes that are being handled were read."""

    def remembers_password(self, algorithm: str, password_hash: str, password: str) -> bool:
        """It was right before. Takes no time."""

    def verify_password(self, login: Login, algorithm: str, password_hash: str, password: str) -> None:
        """Check off the loop, then call login.password_verified(ok), at once or later. A user whom nobody knows has
        no algorithm."""

    def log(self, level: int, text: str) -> None: ...


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
