"""What a queue did with a message that was published to it: Queue.publish says so, and nobody has to guess."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Outcome(Enum):
    TAKEN = "taken"
    # Taken, and the head had to go for it.
    DISPLACING = "displacing"
    # To a consumer, past the queue.
    DELIVERED = "delivered"
    # It would have expired at once, and nobody waited for it.
    DISCARDED = "discarded"
    DUPLICATE = "duplicate"
    # A delayed exchange keeps it until its time has come.
    SCHEDULED = "scheduled"
    # The queue is full.
    REFUSED = "refused"
    # The queue itself broke over it.
    FAILED = "failed"


# Compiled code reads a constant of a module at once, a member of an enum by its name.
TAKEN: Final = Outcome.TAKEN
DISPLACING: Final = Outcome.DISPLACING
DELIVERED: Final = Outcome.DELIVERED
DISCARDED: Final = Outcome.DISCARDED
DUPLICATE: Final = Outcome.DUPLICATE
SCHEDULED: Final = Outcome.SCHEDULED
REFUSED: Final = Outcome.REFUSED
FAILED: Final = Outcome.FAILED
