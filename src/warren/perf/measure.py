"""What happened between two moments: counts, time, and what it cost the broker and ourselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from warren.client.connection import Client
from warren.errors import WarrenError
from warren.perf.histogram import Histogram
from warren.perf.plan import Plan
from warren.perf.processes import busy_seconds, cpu_seconds
from warren.perf.workers import Board, Job, Phase, Workers

TICK: Final = 0.05
# A run of so many messages that gets no further for this long has lost some.
STALLED: Final = 15.0
# After a timed run, how long consumers may take to catch up, and how long they may pause meanwhile.
CATCH_UP: Final = 2.0
QUIET: Final = 0.5

Figures: TypeAlias = dict[str, float]
# Told the share that is done and the messages so far, every TICK.
Watch: TypeAlias = Callable[[float, int], None]


@dataclass(frozen=True)
class Moment:
    at: float
    published: int
    confirmed: int
    consumed: int
    # Seconds of CPU time so far: the broker's, our workers', and the whole machine's.
    broker_cpu: float
    own_cpu: float
    busy_cpu: float


@dataclass(frozen=True)
class Measured:
    """From the first moment to the last, and what came of it all."""

    first: Moment
    last: Moment
    times: Histogram
    # Of the whole run, with warm-up and end.
    published: int
    confirmed: int
    consumed: int
    pids: Sequence[int] = field(default_factory=tuple)

    @property
    def seconds(self) -> float:
        return max(self.last.at - self.first.at, 1e-9)

    def rate(self, name: str) -> float:
        return self.count(name) / self.seconds

    def count(self, name: str) -> int:
        return int(getattr(self.last, name)) - int(getattr(self.first, name))

    def cost(self, messages: int) -> Figures:
        """CPU time for each of these messages; the broker's only if it was told which process that is."""
        each = 1e6 / max(messages, 1)
        figures = {"client_cpu_us": (self.last.own_cpu - self.first.own_cpu) * each}
        if self.pids:
            broker = self.last.broker_cpu - self.first.broker_cpu
            others = self.last.busy_cpu - self.first.busy_cpu - broker - (self.last.own_cpu - self.first.own_cpu)
            figures = {"cpu_us": broker * each, "cpu_percent": 100 * broker / self.seconds, **figures}
            # What neither we nor the broker did: the more of it, the less the rates are worth.
            figures["other_cpu_percent"] = 100 * max(others, 0.0) / self.seconds
        return figures

    def of_rounds(self, name: str) -> Figures:
        """Of a workload that only counts how often it went round, which the board has as published."""
        figures = {"rate": self.rate("published"), "seconds": self.seconds, name: self.published}
        return figures | self.times.figures() | self.cost(self.count("published"))


def measure(workers: Workers, plan: Plan, pids: Sequence[int], watch: Watch) -> Measured:
    """Let a workers run its time, or its number of messages, and end it in order."""
    workers.go()
    if plan.messages:
        first, last = _count_out(workers, plan, pids, watch)
    else:
        first, last = _time_out(workers, plan, pids, watch)
    workers.board.phase = Phase.ENDING
    board = workers.board
    if plan.consumers and not plan.messages:
        _let_consumers_catch_up(board, plan)
    times = workers.finish()
    return Measured(first, last, times, board.published, board.confirmed, board.consumed, tuple(pids))


def measure_rounds(name: str, job: Job, plan: Plan, pids: Sequence[int], watch: Watch) -> Figures:
    """A run of one worker, who counts how often it went round."""
    # A broker that refuses us should say so before any process is started.
    with Client(plan.target), Workers(plan, [job]) as workers:
        return measure(workers, plan, pids, watch).of_rounds(name)


def _time_out(workers: Workers, plan: Plan, pids: Sequence[int], watch: Watch) -> tuple[Moment, Moment]:
    whole = plan.warmup + plan.seconds
    start = time.monotonic()
    _sleep_until(
        start + plan.warmup, workers, lambda: watch((time.monotonic() - start) / whole, _progress(workers.board))
    )
    workers.board.phase = Phase.MEASURING
    first = _look(workers, pids)
    _sleep_until(start + whole, workers, lambda: watch((time.monotonic() - start) / whole, _progress(workers.board)))
    return first, _look(workers, pids)


def _sleep_until(deadline: float, workers: Workers, report: Callable[[], None]) -> None:
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, TICK))
        workers.check()
        report()


def _count_out(workers: Workers, plan: Plan, pids: Sequence[int], watch: Watch) -> tuple[Moment, Moment]:
    workers.board.phase = Phase.MEASURING
    first = _look(workers, pids)
    changed_at, seen = time.monotonic(), -1
    while (done := _done(workers.board, plan)) < plan.messages:
        workers.check()
        if done != seen:
            changed_at, seen = time.monotonic(), done
            watch(done / plan.messages, done)
        if time.monotonic() - changed_at > STALLED:
            raise WarrenError(f"the broker is stuck: {done} of {plan.messages} messages came through")
        time.sleep(0.002)
    return first, _look(workers, pids)


def _done(board: Board, plan: Plan) -> int:
    """Messages that have gone all the way, which is not the same way in all runs."""
    if plan.consumers:
        return board.consumed // plan.copies if plan.publishers else board.consumed
    return board.confirmed if plan.window else board.published


def _progress(board: Board) -> int:
    return max(board.consumed, board.confirmed) or board.published


def _look(workers: Workers, pids: Sequence[int]) -> Moment:
    board = workers.board
    costs = (cpu_seconds(pids), cpu_seconds(workers.pids), busy_seconds())
    return Moment(time.monotonic(), board.published, board.confirmed, board.consumed, *costs)


def _let_consumers_catch_up(board: Board, plan: Plan) -> None:
    deadline = time.monotonic() + CATCH_UP
    changed_at, seen = time.monotonic(), -1
    while board.consumed < board.published * plan.copies and time.monotonic() < deadline:
        if board.consumed != seen:
            changed_at, seen = time.monotonic(), board.consumed
        if time.monotonic() - changed_at > QUIET:
            return
        time.sleep(0.01)
