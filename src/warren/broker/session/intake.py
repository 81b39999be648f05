"""The way into a connection, as the connection knows it: reader.py takes bytes apart, handshake.py is channel 0."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.amqp.constants import FRAME_MAX_BEFORE_OPEN
from warren.errors import AmqpError

# RabbitMQ lets clients that are off by the size of the frame header get away with it.
SIZE_FUDGE: Final[i64] = 8


class Intake:
    """Of a connection to which nobody sends bytes, this is all there is."""

    def __init__(self) -> None:
        self.payload_max: i64 = FRAME_MAX_BEFORE_OPEN
        # What was read and not yet handled: less than a frame, or more while reading is held.
        self.tail = b""
        # The method that is being handled, for errors that do not name theirs.
        self.method_id: i64 = 0
        # How far the handshake has come, as management shows it.
        self.state = "running"

    def handle(self, data: bytes) -> None:
        """Bytes of the socket, in order."""

    def forget_channel(self) -> None:
        """A channel is gone: nothing of it may be remembered."""

    def may_tell(self, error: AmqpError) -> bool:
        """Whether the peer has come far enough to be told what went wrong."""
        return True

    def password_verified(self, is_right: bool) -> None:
        """The answer to a login."""
