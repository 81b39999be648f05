"""What a queue did with a message that was published to it: Queue.publish says so, and nobody has to guess."""

from __future__ import annotations

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
