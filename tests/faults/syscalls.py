"""Stops or fails a broker at the N-th call that changes a file, for every N of a fixed script.

    python -m tests.faults.syscalls [--sample COUNT] [--break NAME] [--json FILE]

The script publishes, acks, rejects, rolls segments, compacts, deletes and declares within a few dozen calls. A small
library that is loaded before the others (faulty_io.c) counts the calls; test_syscalls.py asks strace for the same.
"""

from __future__ import annotations

import argparse
import errno
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.checker import Verdict, check
from tests.faults.history import History
from tests.faults.kill9_broker import Broker, DidNotBoot, Nursery
from tests.faults.kill9_client import Client, Gone, identity_of, publish_frames
from tests.faults.kill9_load import Load, drain
from tests.faults.kill9_sabotage import DISKS
from tests.faults.telling import exit_where_skipped, tell_and_exit
from warren.amqp import methods
from warren.client.session import frame_of

SEGMENT_BYTES: Final = 4096
OPTIONS: Final = ("--store-segment-bytes", str(SEGMENT_BYTES), "--disk-free-limit", "0", "--memory-high-watermark", "0")
LARGEST: Final = 700
DEAD_LETTERS: Final = {"a": "dead"}
QUEUES: Final = ("a", "b", "dead")
SOURCE: Final = Path(__file__).with_name("faulty_io.c")


def reason_to_skip() -> str | None:
    return None if shutil.which("gcc") else "there is no gcc to compile what is loaded into the broker"


def compile_library(folder: Path, source: Path = SOURCE) -> Path:
    library = folder / source.with_suffix(".so").name
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return library


class Script:
    """One client that does one thing after the other, so that the calls come in nearly the same order every time."""

    def __init__(self, history: History, has_failed: Callable[[], bool], name: str = "s") -> None:
        self.history = history
        self._name = name
        self.load = Load(history, LARGEST)
        self._has_failed = has_failed
        # Publishes that were answered although the disk had failed before they were sent.
        self.late_confirms = 0
        self._tag = 0
        self._settled = 0

    def run(self, port: int) -> None:
        """Raises Gone when the broker goes."""
        with Client(port, self._name) as client:
            self.client = client
            self._run(client)

    def _run(self, client: Client) -> None:
        client.declare_exchange("fan", "fanout")
        declare_queues(client)
        client.bind("a", "fan")
        client.bind("b", "fan")
        client.confirm_select()
        for _ in range(5):
            self._publish("", "a", ("a",), 4)
            self._publish("fan", "", ("a", "b"), 3)
            # One in seven stays, so that segments become sparse.
            self._take("a", 6)
            self._take("b", 2)
        self._declare_and_delete("short-lived")
        self._publish("", "b", ("b",), 3)
        # What is left to do for the files is done when nothing else is.
        time.sleep(0.05)
        self._publish("", "a", ("a",), 1)

    def _publish(self, exchange: str, key: str, queues: tuple[str, ...], count: int) -> None:
        batch = b""
        for _ in range(count):
            self._tag += 1
            identity = f"{self._name}-{self._tag}"
            self.history.publish(self._name, self._tag, identity, queues)
            batch += publish_frames(exchange, key, identity, self.load.body_for(identity))
        is_too_late = self._has_failed()
        self.client.send(batch)
        confirmed = self._tag - count
        while confirmed < self._tag:
            answer = self.client.wait_for(methods.Method)
            if isinstance(answer.method, (methods.BasicAck, methods.BasicNack)):
                note = self.history.confirm if isinstance(answer.method, methods.BasicAck) else self.history.nack
                note(self._name, answer.method.delivery_tag, answer.method.multiple)
                confirmed = answer.method.delivery_tag if answer.method.multiple else confirmed + 1
                self.late_confirms += is_too_late and isinstance(answer.method, methods.BasicAck)

    def _take(self, queue: str, count: int) -> None:
        for number in range(count):
            self.client.send(frame_of(methods.BasicGet(queue=queue)))
            event = self.client.wait_for(methods.Method)
            if not isinstance(event.method, methods.BasicGetOk):
                return
            identity, tag = identity_of(event), event.method.delivery_tag
            intact = event.body == self.load.body_for(identity)
            self.history.deliver(self._name, queue, identity, event.method.redelivered, intact)
            kind = "reject" if queue == "a" and number == 3 else "ack"
            self.history.settle(kind, self._name, queue, identity)
            self._settled += 1
            settle = methods.BasicReject(tag, False) if kind == "reject" else methods.BasicAck(tag, False)
            self.client.send(frame_of(settle))
        self._ask_for_fence()
        self.history.fence(self._name, self._settled)

    def _ask_for_fence(self) -> None:
        """When it is answered, what was settled before is for good: a process that is killed has handed all to the
        operating system before it answers anything."""
        self.client.qos(10)

    def _declare_and_delete(self, queue: str) -> None:
        self._define(queue, lambda: self.client.declare(queue))
        self._define(queue, lambda: self.client.delete(queue), "delete")

    def _define(self, name: str, do: Callable[[], object], kind: str = "declare") -> None:
        self.history.definition(kind, name)
        do()
        self.history.definition(f"{kind}d", name)


@dataclass
class Report:
    points: int = 0
    unreached: int = 0
    failed_boots: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    calls: dict[str, int] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)

    def is_good(self) -> bool:
        return not self.failed_boots and not self.failures and self.verdict.is_good()

    def summary(self) -> dict[str, object]:
        own = {name: value for name, value in vars(self).items() if name != "verdict"}
        shown = {name: len(value) if isinstance(value, list) else value for name, value in own.items()}
        return {**shown, **self.verdict.summary()}

    def complaints(self) -> str:
        examples = {name: keys[:5] for name, keys in self.verdict.violations().items()}
        return f"{examples} " + "\n".join(self.failures[:5] + self.failed_boots[:3])


@dataclass(frozen=True)
class Fault:
    """The `at`-th call of those named fails, or the process ends there."""

    at: int
    action: str
    calls: str = ""
    sticky: bool = False

    def variables(self, folder: Path) -> dict[str, str]:
        return {
            "FAULTY_FOLDER": f"{folder}/",
            "FAULTY_AT": str(self.at),
            "FAULTY_ACTION": self.action,
            "FAULTY_CALLS": self.calls,
            "FAULTY_STICKY": "1" if self.sticky else "0",
            "FAULTY_LOG": str(folder.with_suffix(".calls")),
        }

    @property
    def is_error(self) -> bool:
        return self.action.isdigit()


class Points:
    def __init__(self, folder: Path, sabotage: str = "") -> None:
        self._data_dir = folder / "data"
        self.report = Report()
        self._nursery = Nursery(sabotage, compile_library(folder))

    def __enter__(self) -> Points:
        return self

    def __exit__(self, *_: object) -> None:
        self._nursery.__exit__()

    def count(self, calls: str = "") -> int:
        """How many there are in a run that nothing disturbs."""
        self.run(Fault(0, "kill", calls))
        made = self._calls_made()
        for line in made:
            name = line.split()[0]
            self.report.calls[name] = self.report.calls.get(name, 0) + 1
        return len(made)

    def log_of(self, fault: Fault) -> list[str]:
        """The counted calls of one run, with their paths."""
        self.run(fault)
        return self._calls_made()

    def _calls_made(self) -> list[str]:
        log = self._data_dir.with_suffix(".calls")
        return log.read_text().splitlines() if log.exists() else []

    def _has_failed(self, fault: Fault) -> bool:
        return fault.is_error and 0 < fault.at <= len(self._calls_made())

    def run(self, fault: Fault) -> None:
        """The script with the fault, a restart without, and what the checker says."""
        shutil.rmtree(self._data_dir, ignore_errors=True)
        self._data_dir.with_suffix(".calls").unlink(missing_ok=True)
        history = History(fault.at)
        script = Script(history, lambda: self._has_failed(fault))
        broker = self._nursery.start(self._data_dir, *OPTIONS, variables=fault.variables(self._data_dir))
        try:
            broker.wait_ready()
            script.run(broker.port)
        except (DidNotBoot, Gone):
            pass
        self._judge_end(broker, fault)
        if script.late_confirms:
            self.report.failures.append(f"{fault}: {script.late_confirms} confirms after the disk had failed")
        history.crash()
        self._drain(script)
        verdict = check(history, DEAD_LETTERS)
        if not verdict.is_good():
            self.report.failures.append(f"{fault}: {verdict.violations()}")
        self.report.verdict.add(verdict)
        self.report.points += 1

    def _judge_end(self, broker: Broker, fault: Fault) -> None:
        if not 0 < fault.at <= len(self._calls_made()):
            self.report.unreached += 1
            broker.kill()
            return
        may_go_on = fault.action == "short" or (fault.is_error and not self._has_failed(fault))
        if may_go_on and broker.exit_code() is None:
            broker.kill()
            return
        try:
            code = broker.wait(10)
        except AssertionError as error:
            self.report.failures.append(f"{fault}: {error}")
            return
        text = broker.text()
        is_clear = code == 1 and "Traceback" not in text and "error: " in text
        if not (is_clear if fault.is_error else code == -signal.SIGKILL):
            call = self._calls_made()[fault.at - 1]
            self.report.failures.append(f"{fault} at {call}: exit code {code}: {text[-3000:]}")

    def _drain(self, script: Script) -> None:
        """As after any crash; what the script did not come to declare is declared now, to be found empty."""
        broker = self._nursery.start(self._data_dir, *OPTIONS)
        try:
            broker.wait_ready()
            with Client(broker.port) as client:
                declare_queues(client)
            drain(script.load, broker.port, QUEUES)
        except DidNotBoot as error:
            self.report.failed_boots.append(str(error))
        finally:
            broker.kill()


def declare_queues(client: Client) -> None:
    client.declare("dead")
    client.declare("a", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    client.declare("b")


def every_fault(points: Points) -> list[Fault]:
    """Short writes, a kill before every call, one within every write, and every call failing once and for good."""
    total = points.count()
    writes = points.count("write") + points.count("pwrite")
    faults = [Fault(1, "short", "write", sticky=True)]
    faults += [Fault(at, "kill") for at in range(1, total + 1)]
    faults += [Fault(at, "tear", "write,pwrite") for at in range(1, writes + 1)]
    faults += [Fault(at, str(errno.EIO)) for at in range(1, total + 1)]
    for call in ("fdatasync", "fsync"):
        faults += [Fault(at, str(errno.EIO), call, sticky=True) for at in range(1, points.count(call) + 1)]
    faults += [Fault(at, str(errno.ENOSPC), "write,pwrite", sticky=True) for at in range(1, writes + 1)]
    return faults


def run(sample: int = 0, seed: int = 0, sabotage: str = "") -> Report:
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="warren-syscalls-"))
    try:
        with Points(folder, sabotage) as points:
            faults = every_fault(points)
            if sample:
                faults = random.Random(seed).sample(faults, min(sample, len(faults)))
            for number, fault in enumerate(faults):
                points.run(fault)
                if number % 100 == 99:
                    sys.stderr.write(
                        f"syscalls: {number + 1}/{len(faults)} points, {points.report.complaints()[:200]}\n"
                    )
            points.report.seconds = time.monotonic() - begin
            return points.report
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="only so many points")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--break", dest="sabotage", default="", choices=["", *DISKS])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    exit_where_skipped(reason_to_skip(), arguments.json)
    report = run(arguments.sample, arguments.seed, arguments.sabotage)
    tell_and_exit(report, arguments.json)


if __name__ == "__main__":
    main()
