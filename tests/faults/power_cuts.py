"""A loss of power at any moment of a real broker's life: what the disk may hold then is recovered, and judged.

    python -m tests.faults.power_cuts --images 1000 [--seed N] [--break NAME] [--json FILE]

A broker works through a script while a library that is loaded into it (recorded_io.c) keeps every call that changes a
file. Each image is what a disk may hold if the power goes before one of these calls: all that was synced, and of the
rest whatever the disk likes. A broker starts on it, and what is there is held against what clients had been told.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.checker import check
from tests.faults.history import History, Op
from tests.faults.kill9_broker import Broker, DidNotBoot, Nursery
from tests.faults.kill9_client import Client, Closed, Gone
from tests.faults.kill9_load import Load, drain, drain_stream
from tests.faults.kill9_sabotage import DISKS
from tests.faults.recorded_disk import Call, RecordedDisk, read_trace, way_of, write_files
from tests.faults.syscalls import (
    DEAD_LETTERS,
    LARGEST,
    OPTIONS,
    QUEUES,
    Report,
    Script,
    compile_library,
    declare_queues,
    reason_to_skip,
)
from tests.faults.telling import exit_where_skipped, tell
from warren.amqp import methods

SOURCE: Final = Path(__file__).with_name("recorded_io.c")
STREAM: Final = "stream"
STREAM_ARGUMENTS: Final[dict[str, object]] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 8192}
FENCE: Final = "fence"
CHURNED: Final = ("churned-0", "churned-1", "churned-2")
SHORT_LIVED: Final = "short-lived"
LIVES: Final = 3
ROUNDS: Final = 6


class TimedOps(list[Op]):
    """When each was noted, on the clock of the trace."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def append(self, op: Op) -> None:
        self.seconds.append(time.monotonic())
        super().append(op)

    def until(self, seconds: float) -> list[Op]:
        return [op for op, at in zip(self, self.seconds, strict=True) if at <= seconds]


class PowerScript(Script):
    """With a stream, and queues that come and go. Whatever it is told, a loss of power must not take back."""

    # The file that ends the broker before it changes another.
    end: Path | None = None

    def _run(self, client: Client) -> None:
        self._define("exchange", lambda: client.declare_exchange("fan", "fanout"))
        declare_queues(client)
        client.declare(FENCE)
        client.declare(STREAM, STREAM_ARGUMENTS)
        for queue in ("a", "b", STREAM):
            client.bind(queue, "fan")
        client.confirm_select()
        for number in range(ROUNDS):
            self._publish("", "a", ("a",), 4)
            self._publish("fan", "", ("a", "b", STREAM), 6)
            # Some stay, so that segments become sparse.
            self._take("a", 9)
            self._take("b", 5)
            self._declare_and_delete(SHORT_LIVED)
            self._churn(CHURNED[number % len(CHURNED)])
        # What is left to do for the files is done when nothing else is.
        time.sleep(0.05)
        if self.end is not None:
            self.end.touch()
            self._publish("", "a", ("a",), 3)

    def _ask_for_fence(self) -> None:
        """Answered when all before it is on disk."""
        self.client.ask(methods.QueuePurge(queue=FENCE), methods.QueuePurgeOk)

    def _churn(self, queue: str) -> None:
        known = [op.kind for op in self.history.ops if op.queue == queue and op.kind in ("declared", "deleted")]
        if known and known[-1] == "declared":
            self._define(queue, lambda: self.client.delete(queue), "delete")
        else:
            self._define(queue, lambda: self.client.declare(queue))


@dataclass
class Trace:
    """All that brokers did to one folder, and what their clients did and saw."""

    folder: Path
    calls: list[Call] = field(default_factory=list)
    history: History = field(default_factory=lambda: History(ops=TimedOps()))


def record(folder: Path, sabotage: str) -> Trace:
    """Some lives on one folder, each killed at its end; the last may finish what it does."""
    data_dir = folder / "recorded" / "data"
    data_dir.parent.mkdir()
    trace = Trace(data_dir)
    variables = {"RECORDED_FOLDER": str(data_dir.parent), "RECORDED_TO": str(folder / "trace")}
    with Nursery(sabotage, compile_library(folder, SOURCE)) as nursery:
        for life in range(LIVES):
            script = PowerScript(trace.history, lambda: False, f"life{life}")
            script.end = folder / f"end-{life}" if life < LIVES - 1 else None
            broker = nursery.start(data_dir, *OPTIONS, variables={**variables, "RECORDED_END": str(script.end)})
            try:
                with suppress(Gone):
                    script.run(broker.wait_ready())
                if script.end is None:
                    broker.signal(signal.SIGTERM)
                broker.wait()
            finally:
                broker.kill()
            trace.history.crash()
    trace.calls = read_trace(folder / "trace", data_dir)
    return trace


class Images:
    def __init__(self, folder: Path, trace: Trace, nursery: Nursery, seed: int) -> None:
        self._data_dir = folder / "image" / "data"
        self._trace = trace
        self._nursery = nursery
        self._random = random.Random(seed)
        self.report = Report()
        for call in trace.calls:
            self.report.calls[call.kind] = self.report.calls.get(call.kind, 0) + 1

    def run(self, count: int) -> None:
        """At so many moments of the trace, in its order."""
        moments = sorted(self._random.randrange(1, len(self._trace.calls)) for _ in range(count))
        disk = RecordedDisk(self._trace.folder.parent)
        happened = 0
        for moment in moments:
            for call in self._trace.calls[happened:moment]:
                disk.happen(call)
            happened = moment
            self._judge(moment, disk.after(way_of(self._random)))
            if self.report.points % 100 == 0:
                complaints = self.report.complaints()[:200]
                sys.stderr.write(f"power cuts: {self.report.points}/{count} images, {complaints}\n")

    def _judge(self, moment: int, files: dict[str, bytes | None]) -> None:
        shutil.rmtree(self._data_dir.parent, ignore_errors=True)
        write_files(files, self._data_dir.parent)
        ops = self._trace.history.ops
        assert isinstance(ops, TimedOps)
        history = History(moment, ops.until(self._trace.calls[moment].seconds))
        history.crash()
        broker = self._nursery.start(self._data_dir, *OPTIONS)
        try:
            self._look(broker, Load(history, LARGEST))
        except DidNotBoot as error:
            self.report.failed_boots.append(f"image {moment}: {error}")
        except (AssertionError, Gone) as error:
            self.report.failures.append(f"image {moment}: {type(error).__name__}: {error}")
        finally:
            broker.kill()
        verdict = check(history, DEAD_LETTERS)
        # That a message was delivered is written before it leaves, and synced only with the next that must be.
        verdict.unflagged.clear()
        if not verdict.is_good():
            self.report.failures.append(f"image {moment}: {verdict.violations()}\n{broker.text()[-1000:]}")
        self.report.verdict.add(verdict)
        self.report.points += 1

    def _look(self, broker: Broker, load: Load) -> None:
        port = broker.wait_ready()
        for queue in (*CHURNED, SHORT_LIVED):
            load.look_up(queue, port)
        load.history.definition("present" if _has_exchange(port) else "absent", "exchange")
        with Client(port) as client:
            # What the script did not come to declare is declared now, to be found empty.
            declare_queues(client)
            client.declare(STREAM, STREAM_ARGUMENTS)
        drain(load, port, QUEUES)
        drain_stream(load, port, STREAM)


def _has_exchange(port: int) -> bool:
    with Client(port) as client:
        try:
            client.ask(methods.ExchangeDeclare(exchange="fan", passive=True), methods.ExchangeDeclareOk)
        except Closed as error:
            if not str(error).startswith("404"):
                raise
            return False
        return True


def run(images: int, seed: int = 0, sabotage: str = "") -> Report:
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="warren-power-"))
    try:
        trace = record(folder, sabotage)
        with Nursery() as nursery:
            judge = Images(folder, trace, nursery, seed)
            judge.run(images)
        judge.report.seconds = time.monotonic() - begin
        return judge.report
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--break", dest="sabotage", default="", choices=["", *DISKS])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    exit_where_skipped(reason_to_skip(), arguments.json)
    report = run(arguments.images, arguments.seed, arguments.sabotage)
    tell({"seed": arguments.seed, **report.summary()}, arguments.json)
    if not report.is_good():
        sys.exit(report.complaints())


if __name__ == "__main__":
    main()
