"""The one tree of errors: the class is the AMQP reply code.

Code that finds a fault raises; only the channel (soft errors) and the connection (hard errors)
turn what was raised into a close method. Nobody else sends one.
"""

from __future__ import annotations

REPLY_TEXT_MAX = 255
# As method_id: the peer is told 0 and 0, because no method of its own is to blame.
NO_METHOD = -1


class WarrenError(Exception):
    """A mistake of the user's, told in one line: bad configuration, port in use, data directory locked."""


class AmqpError(Exception):
    """Something the peer must be told. `class_id` and `method_id` name the failing method when known."""

    code = 541
    name = "INTERNAL_ERROR"

    def __init__(self, explanation: str, method_id: int = 0) -> None:
        super().__init__(explanation)
        self.explanation = explanation
        # The combined id (class << 16 | method); filled in by the translator when the raiser left it 0.
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        """What the peer reads: cut by characters first, then by the bytes a short string can hold."""
        text = f"{self.name} - {self.explanation}"[:REPLY_TEXT_MAX]
        return text.encode(errors="surrogateescape")[:REPLY_TEXT_MAX].decode(errors="ignore")


class SoftError(AmqpError):
    """Closes the channel and spares the connection."""


class HardError(AmqpError):
    """Closes the connection."""


class AccessRefused(SoftError):
    code = 403
    name = "ACCESS_REFUSED"


class NotFound(SoftError):
    code = 404
    name = "NOT_FOUND"


class ResourceLocked(SoftError):
    code = 405
    name = "RESOURCE_LOCKED"


class PreconditionFailed(SoftError):
    code = 406
    name = "PRECONDITION_FAILED"


class ConnectionForced(HardError):
    code = 320
    name = "CONNECTION_FORCED"


class LoginRefused(HardError):
    """403 at connection level: authentication failed. Kept apart from AccessRefused, which is soft."""

    code = 403
    name = "ACCESS_REFUSED"


class FrameError(HardError):
    code = 501
    name = "FRAME_ERROR"


class SyntaxRefused(HardError):
    code = 502
    name = "SYNTAX_ERROR"


class CommandInvalid(HardError):
    code = 503
    name = "COMMAND_INVALID"


class ChannelError(HardError):
    code = 504
    name = "CHANNEL_ERROR"


class UnexpectedFrame(HardError):
    code = 505
    name = "UNEXPECTED_FRAME"


class ResourceError(HardError):
    code = 506
    name = "RESOURCE_ERROR"


class NotAllowed(HardError):
    code = 530
    name = "NOT_ALLOWED"


class NotImplementedByBroker(HardError):
    code = 540
    name = "NOT_IMPLEMENTED"


class InternalError(HardError):
    code = 541
    name = "INTERNAL_ERROR"
