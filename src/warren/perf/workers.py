"""The worker processes of a run and the board of shared numbers by which they and their starter know of each other.

Publishing and consuming have a process each, so that neither waits for the other's turn at the interpreter.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Sequence
from ctypes import Structure, c_longlong
from enum import IntEnum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Final, TypeAlias

from warren.errors import WarrenError
from warren.perf.histogram import Histogram
from warren.perf.plan import Plan


class Phase(IntEnum):
    """Of a run, in order."""

    WARMING = 0
    MEASURING = 1
    # Publishers finish the message they are at; consumers go on.
    ENDING = 2
    CLOSING = 3


# Starting an interpreter takes a moment, on a busy machine a long one.
PATIENCE: Final = 60.0
_SPAWN: Final = multiprocessing.get_context("spawn")


class Board(Structure):
    """Each number has one writer: the phase the starter, published and confirmed one process, consumed another."""

    phase: int
    published: int
    confirmed: int
    consumed: int
    _fields_ = tuple((name, c_longlong) for name in ("phase", "published", "confirmed", "consumed"))


class Starter:
    """The starter as a worker sees it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def fileno(self) -> int:
        """Readable when the starter is gone, and the worker must go too."""
        return self._pipe.fileno()

    def wait_for_go(self) -> None:
        self._pipe.send(None)
        self._pipe.recv()


Job: TypeAlias = Callable[[Plan, Board, Starter], Histogram]


def work(job: Job, plan: Plan, board: Board, pipe: Connection) -> None:
    """The whole life of a worker process."""
    # Ctrl-C reaches all processes of a terminal; the starter ends the others in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipe.send(job(plan, board, Starter(pipe)))
    except (WarrenError, OSError) as error:
        _tell(pipe, error)
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - the top of the process: a bug is told as such
        traceback.print_exc()
        _tell(pipe, error)


def _tell(pipe: Connection, error: Exception) -> None:
    try:
        pipe.send(WarrenError(str(error) or type(error).__name__))
    except OSError:
        return


class Workers:
    """Workers from the start to the end of a block. Whatever happens, none is left after it."""

    def __init__(self, plan: Plan, jobs: Sequence[Job]) -> None:
        self.board = _SPAWN.RawValue(Board)
        self._workers: list[tuple[BaseProcess, Connection]] = []
        # What those who went home before the end have timed, by their place in the list.
        self._timed: dict[int, Histogram] = {}
        for job in jobs:
            ours, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=work, args=(job, plan, self.board, theirs), daemon=True)
            process.start()
            # With our copy closed, a worker that dies is seen as the end of its pipe.
            theirs.close()
            self._workers.append((process, ours))

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process, pipe in self._workers:
            if error is not None:
                process.terminate()
            process.join(PATIENCE)
            pipe.close()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._workers if process.pid is not None]

    def go(self) -> None:
        """All connect first, then all begin."""
        for _, pipe in self._workers:
            _receive(pipe)
        for _, pipe in self._workers:
            pipe.send(None)

    def check(self) -> None:
        """Raise what a worker failed with, if one did. One that has published all it should goes home early."""
        for place, (_, pipe) in enumerate(self._workers):
            if place not in self._timed and pipe.poll():
                self._take(place)

    def finish(self) -> Histogram:
        """Let all go home, and return what they timed; only one kind of worker times anything."""
        self.board.phase = Phase.CLOSING
        for place in range(len(self._workers)):
            if place not in self._timed:
                self._take(place)
        return max(self._timed.values(), key=lambda timed: timed.total)

    def _take(self, place: int) -> None:
        timed = _receive(self._workers[place][1])
        assert timed is not None
        self._timed[place] = timed


def _receive(pipe: Connection) -> Histogram | None:
    try:
        if not pipe.poll(PATIENCE):
            raise WarrenError("a worker process does not answer")
        found = pipe.recv()
    except EOFError:
        raise WarrenError("a worker process died") from None
    if isinstance(found, WarrenError):
        raise found
    assert found is None or isinstance(found, Histogram)
    return found
