"""A small disk, filled by publishing and drained again, many times: nobody may lose anything or stop for good.

python -m tests.faults.disk_full [--cycles 20] [--break NAME] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.checker import Verdict, check
from tests.faults.history import History
from tests.faults.kill9_broker import Broker, Nursery
from tests.faults.kill9_client import Client, Gone, identity_of, publish_frames
from tests.faults.kill9_load import Load, drain
from tests.faults.telling import exit_where_skipped, tell_and_exit
from warren.amqp import methods
from warren.client.session import frame_of

DISK: Final = 64 * 1024 * 1024
LIMIT: Final = 20_000_000
SEGMENT_BYTES: Final = 4 * 1024 * 1024
OPTIONS: Final = ("--store-segment-bytes", str(SEGMENT_BYTES), "--disk-free-limit", str(LIMIT))
LARGEST: Final = 40_000
WINDOW: Final = 300
PATIENCE: Final = 30.0
# Without an alarm the disk fills until a write fails.
BREAKS: Final = {"no-alarm": ("--store-segment-bytes", str(SEGMENT_BYTES), "--disk-free-limit", "0")}


def reason_to_skip() -> str | None:
    if os.geteuid() != 0:
        return "only root may mount a small disk"
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]
        mounted = subprocess.run(command, capture_output=True, timeout=10)
        if mounted.returncode != 0:
            return "a tmpfs cannot be mounted here"
        subprocess.run(["umount", folder], check=True, timeout=10)
    return None


@contextmanager
def small_disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="warren-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(folder)], check=True, timeout=10)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=10)
        folder.rmdir()


@dataclass
class Report:
    cycles: int = 0
    published_bytes: int = 0
    least_free: int = DISK
    # Seconds from crossing the limit to hearing connection.blocked, and from an empty queue to unblocked.
    slowest_block: float = 0.0
    slowest_unblock: float = 0.0
    failures: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)

    def is_good(self) -> bool:
        return not self.failures and self.verdict.is_good()

    def summary(self) -> dict[str, object]:
        own = {name: value for name, value in vars(self).items() if name != "verdict"}
        shown = {name: len(value) if isinstance(value, list) else value for name, value in own.items()}
        return {**shown, **self.verdict.summary()}

    def complaints(self) -> str:
        return f"{ {name: keys[:5] for name, keys in self.verdict.violations().items()} } {self.failures[:3]}"


class Filler(threading.Thread):
    """Publishes until it is told to stop, waiting while blocked as a good client does."""

    def __init__(self, client: Client, history: History, load: Load) -> None:
        super().__init__(name="filler")
        self._client = client
        self._history = history
        self._load = load
        self.may_publish = threading.Event()
        self.is_over = False
        self.published_bytes = 0
        self.failure = ""

    def run(self) -> None:
        try:
            self._fill()
        except Gone as error:
            self.failure = f"publisher: {error}"

    def _fill(self) -> None:
        tag = answered = 0
        while not self.is_over or answered < tag:
            if self.may_publish.is_set() and not self._client.blocked and tag - answered < WINDOW and not self.is_over:
                tag += 1
                identity = f"p-{tag}"
                body = self._load.body_for(identity)
                self.published_bytes += len(body)
                self._history.publish("filler", tag, identity, ("q",))
                self._client.send(publish_frames("", "q", identity, body))
                self._client.receive(0)
            else:
                self._client.receive(0.02)
            while self._client.events:
                method = self._client.events.popleft().method
                if isinstance(method, methods.BasicAck):
                    self._history.confirm("filler", method.delivery_tag, method.multiple)
                    answered = method.delivery_tag if method.multiple else answered + 1


class Cycles:
    def __init__(self, broker: Broker, folder: Path, report: Report) -> None:
        self._broker = broker
        self._folder = folder
        self._report = report
        self.history = History()
        self.load = Load(self.history, LARGEST)
        self._settled = 0

    def run(self, cycles: int) -> None:
        with Client(self._broker.port) as publisher, Client(self._broker.port, "taker") as self._consumer:
            publisher.declare("q")
            publisher.confirm_select()
            self._consumer.qos(200)
            self._publisher = publisher
            self._filler = Filler(publisher, self.history, self.load)
            self._filler.start()
            try:
                for _ in range(cycles):
                    self._cycle()
                    self._report.cycles += 1
            finally:
                self._end()

    def _cycle(self) -> None:
        self._filler.may_publish.set()
        crossed = self._wait(lambda: self._free() < LIMIT, "the disk did not fill")
        blocked = self._wait(lambda: self._publisher.blocked, "the publisher was not blocked")
        self._report.slowest_block = max(self._report.slowest_block, blocked - crossed)
        self._filler.may_publish.clear()
        self._drain()
        empty = time.monotonic()
        unblocked = self._wait(lambda: not self._publisher.blocked, "the publisher was not unblocked")
        self._report.slowest_unblock = max(self._report.slowest_unblock, unblocked - empty)

    def _end(self) -> None:
        self._filler.is_over = True
        self._filler.join(PATIENCE)
        if self._filler.failure:
            self._report.failures.append(f"{self._filler.failure} {self._broker.text()[-1500:]}")
        elif self._filler.is_alive():
            self._report.failures.append("the publisher has no answer to all it sent")
        else:
            self._drain()
        self._report.published_bytes = self._filler.published_bytes

    def _free(self) -> int:
        free = shutil.disk_usage(self._folder).free
        self._report.least_free = min(self._report.least_free, free)
        return free

    def _wait(self, is_so: object, complaint: str) -> float:
        assert callable(is_so)
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            self._free()
            if time.monotonic() > deadline or self._filler.failure:
                raise AssertionError(f"{complaint}: {self._free()} free; {self._filler.failure}")
            time.sleep(0.002)
        return time.monotonic()

    def _drain(self) -> None:
        """All that is there; publishers whose bytes are already with the broker may add some."""
        client = self._consumer
        client.consume("q")
        while True:
            answer = b""
            while client.events:
                event = client.events.popleft()
                if isinstance(event.method, methods.BasicDeliver):
                    self.load.note_delivery("taker", event)
                    self.history.settle("ack", "taker", "q", identity_of(event))
                    answer += frame_of(methods.BasicAck(event.method.delivery_tag, False))
                    self._settled += 1
            client.send(answer)
            if client.declare("q", passive=True) == 0 and not client.events:
                break
        client.ask(methods.BasicCancel("q"), methods.BasicCancelOk)
        self.history.fence("taker", self._settled)


def run(cycles: int, sabotage: str = "") -> Report:
    report = Report()
    with small_disk() as folder, Nursery() as nursery:
        broker = nursery.start(folder / "data", *BREAKS.get(sabotage, OPTIONS))
        broker.wait_ready()
        one = Cycles(broker, folder, report)
        try:
            one.run(cycles)
        except (AssertionError, Gone) as error:
            report.failures.append(f"{error}: {broker.text()[-1500:]}")
        if sabotage:
            report.failures.append(f"exit code {broker.wait()}: {broker.text()[-1500:]}")
            _drain_on_larger_disk(nursery, folder, one)
        elif broker.exit_code() is not None:
            report.failures.append(f"exit code {broker.exit_code()}: {broker.text()[-1500:]}")
        broker.kill()
        report.verdict.add(check(one.history))
    return report


def _drain_on_larger_disk(nursery: Nursery, folder: Path, cycles: Cycles) -> None:
    """Whatever a full disk did to the files, with some space a broker starts and has all that was confirmed."""
    command = ["mount", "-o", f"remount,size={2 * DISK}", str(folder)]
    subprocess.run(command, check=True, timeout=10)
    broker = nursery.start(folder / "data", *OPTIONS)
    broker.wait_ready()
    drain(cycles.load, broker.port, ("q",))
    broker.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--break", dest="sabotage", default="", choices=["", *BREAKS])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    exit_where_skipped(reason_to_skip(), arguments.json)
    report = run(arguments.cycles, arguments.sabotage)
    tell_and_exit(report, arguments.json)


if __name__ == "__main__":
    main()
