"""What a queue did with a message that was published to it: Queue.publish says so, and nobody has to guess."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

TAKEN: Final = 1
# Taken, and the head had to go for it.
DISPLACING: Final = 2
# To a consumer, past the queue.
DELIVERED: Final = 3
# It would have expired at once, and nobody waited for it.
DISCARDED: Final = 4
DUPLICATE: Final = 5
# A delayed exchange keeps it until its time has come.
SCHEDULED: Final = 6
# The queue is full.
REFUSED: Final = 7
# The queue itself broke over it.
FAILED: Final = 8


class Outcome(IntEnum):
    """The same by name. The path of a message uses the numbers: compiled they cost nothing, a member of an enum is
    looked up by its name each time, which made a fan-out to ten queues take twice as long."""

    TAKEN = TAKEN
    DISPLACING = DISPLACING
    DELIVERED = DELIVERED
    DISCARDED = DISCARDED
    DUPLICATE = DUPLICATE
    SCHEDULED = SCHEDULED
    REFUSED = REFUSED
    FAILED = FAILED
