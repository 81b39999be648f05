"""`warren migrate` in a process that kills itself at a named point of a batch: python -m ... POINT BATCH ARGUMENTS.

POINT `break` breaks it instead: what came back is not known, as if no ledger were kept.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

from warren.amqp.fields import Table
from warren.cli.main import main
from warren.migrate.ledger import Ledger, Standing
from warren.migrate.move import QueueMover
from warren.migrate.source import OldBroker, Taken

# The second first: what has come back once before it is committed looks alike when it comes again.
POINTS: Final = ("committed", "acked", "noted", "taken")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    def __init__(self, point: str, batch: int) -> None:
        self._point = point
        self._left = batch

    def reached(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                die()


def install(countdown: Countdown) -> None:
    take, ack, commit = OldBroker.take, OldBroker.ack, Ledger.commit

    def watched_take(self: OldBroker, queue: str, most: int, arguments: Table | None = None) -> list[Taken]:
        taken = take(self, queue, most, arguments)
        countdown.reached("taken")
        return taken

    def watched_ack(self: OldBroker, queue: str, tag: int) -> None:
        ack(self, queue, tag)
        countdown.reached("acked")

    def watched_commit(self: Ledger, queue: str, messages: list[bytes], standing: Standing) -> None:
        commit(self, queue, messages, standing)
        countdown.reached("committed" if messages else "noted")

    OldBroker.take, OldBroker.ack, Ledger.commit = watched_take, watched_ack, watched_commit  # type: ignore[method-assign]


def forget(self: QueueMover, taken: list[Taken], ready: int) -> int:
    return 0


if __name__ == "__main__":
    point, batch = sys.argv[1], int(sys.argv[2])
    sys.argv[1:] = sys.argv[3:]
    if point.startswith("break-"):
        QueueMover._count_known = forget  # type: ignore[method-assign]
    install(Countdown(point.removeprefix("break-"), batch))
    main()
