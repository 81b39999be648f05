"""A broker in a cgroup of little memory, and clients that would fill it: it says so to publishers, and does not die.

    python -m tests.faults.memory_wall [--cycles 20] [--memory 256] [--break NAME] [--json FILE]

In turn: bodies that never end, answers that nobody reads, and bodies as large as they may be. Beside them somebody
publishes with confirms, and nothing of that may be lost when the broker is killed afterwards.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.backlog import memory_group, peak_memory
from tests.faults.checker import Verdict, check
from tests.faults.disk_full import Filler
from tests.faults.history import History
from tests.faults.kill9_broker import Broker, spawn
from tests.faults.kill9_client import Client, Gone
from tests.faults.kill9_load import Load, drain
from tests.faults.telling import exit_where_skipped, tell_and_exit
from warren.amqp import methods
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.client.session import FRAME_MAX, frame_of

LARGEST: Final = 64 * 1024
BIG: Final = 16 * 1024 * 1024
# What the careful publisher adds in a cycle at most: a backlog costs disk, and all of it is drained at the end.
CYCLE_BYTES: Final = 20_000_000
PATIENCE: Final = 60.0
# Without an alarm nobody is told to stop, and bodies may take all there is.
BREAKS: Final = {"no-limits": ("--memory-high-watermark", "0", "--unfinished-max", str(1 << 40))}


@dataclass
class Report:
    cycles: int = 0
    megabytes: int = 0
    # Resident bytes at their highest, and how often the kernel had to look for memory at the wall.
    peak: int = 0
    at_the_wall: int = 0
    blocked: int = 0
    floods: int = 0
    # The backlog and holes between its messages may keep an alarm on until somebody consumes.
    blocked_at_the_end: bool = False
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


def reason_to_skip() -> str | None:
    with memory_group(64) as group:
        return None if group is not None else "a memory cgroup cannot be made here"


# -- floods ------------------------------------------------------------------------------------------------------------


def publish(queue: str, body: bytes) -> bytes:
    head = frame_of(methods.BasicPublish(exchange="", routing_key=queue))
    return head + content_frames(1, encode_properties(Properties()), body, FRAME_MAX)


def unfinished(client: Client, is_over: threading.Event) -> None:
    """All of a body but its end."""
    client.send(publish("heap", bytes(BIG))[: -FRAME_MAX // 2])
    is_over.wait(PATIENCE)


def unread(client: Client, is_over: threading.Event) -> None:
    """Its own messages, asked for and not read."""
    name = f"unread-{client.socket.getsockname()[1]}"
    client.ask(methods.QueueDeclare(queue=name, exclusive=True), methods.QueueDeclareOk)
    client.send(publish(name, bytes(LARGEST)) * 300)
    client.send(frame_of(methods.BasicGet(queue=name)) * 300)
    is_over.wait(PATIENCE)


def large(client: Client, is_over: threading.Event) -> None:
    body = publish("heap", bytes(BIG))
    while not is_over.is_set():
        client.send(body)


Flooding = Callable[[Client, threading.Event], None]
FLOODS: Final[dict[Flooding, int]] = {unfinished: 24, unread: 12, large: 6}


class Flood(threading.Thread):
    """One hostile client. To be turned away is its lot, and no failure."""

    def __init__(self, port: int, flooding: Flooding, is_over: threading.Event) -> None:
        super().__init__(name=flooding.__name__, daemon=True)
        self._port = port
        self._flooding = flooding
        self._is_over = is_over
        self._client: Client | None = None

    def run(self) -> None:
        with suppress(Gone, AssertionError):
            self._client = Client(self._port)
            self._flooding(self._client, self._is_over)

    def close(self) -> None:
        if self._client is not None:
            # The thread may be in the middle of a send that nobody reads.
            with suppress(OSError):
                self._client.socket.shutdown(2)
        self.join(PATIENCE)
        if self._client is not None:
            self._client.close()


# -- cycles ------------------------------------------------------------------------------------------------------------


class Wall:
    def __init__(self, folder: Path, group: Path, options: tuple[str, ...], report: Report) -> None:
        self._data_dir = folder / "data"
        self._group = group
        self._options = options
        self._report = report
        self._history = History()
        self._load = Load(self._history, LARGEST)
        self._brokers: list[Broker] = []

    def start(self) -> Broker:
        """Within the group from the beginning: what it has of memory it asks when it starts."""
        enter = f'echo $$ > {self._group / "cgroup.procs"}; exec "$@"'
        broker = spawn(self._data_dir, *self._options, wrapper=("sh", "-c", enter, "sh"))
        self._brokers.append(broker)
        broker.wait_ready(PATIENCE)
        return broker

    def stop(self) -> None:
        for broker in self._brokers:
            broker.kill()

    def run(self, cycles: int, seconds: float) -> None:
        broker = self.start()
        with Client(broker.port) as publisher, Client(broker.port) as owner:
            owner.ask(methods.QueueDeclare(queue="heap"), methods.QueueDeclareOk)
            publisher.declare("q")
            publisher.confirm_select()
            filler = Filler(publisher, self._history, self._load)
            filler.start()
            try:
                for _ in range(cycles):
                    for flooding, count in FLOODS.items():
                        self._flood(broker, filler, publisher, flooding, count, seconds)
                    owner.ask(methods.QueuePurge(queue="heap"), methods.QueuePurgeOk)
                    self._report.cycles += 1
                self._report.peak = peak_memory(broker)
                self._report.blocked_at_the_end = publisher.blocked
            finally:
                # What has no answer yet may be there or not.
                broker.kill()
                filler.is_over = True
                filler.join(PATIENCE)
        broker = self.start()
        drain(self._load, broker.port, ("q",))
        broker.kill()
        self._report.verdict.add(check(self._history))

    def _flood(
        self, broker: Broker, filler: Filler, publisher: Client, flooding: Flooding, count: int, seconds: float
    ) -> None:
        is_over = threading.Event()
        floods = [Flood(broker.port, flooding, is_over) for _ in range(count)]
        before = filler.published_bytes
        filler.may_publish.set()
        for flood in floods:
            flood.start()
        has_blocked, end = False, time.monotonic() + seconds
        while time.monotonic() < end and broker.exit_code() is None:
            has_blocked = has_blocked or publisher.blocked
            if filler.published_bytes - before > CYCLE_BYTES:
                filler.may_publish.clear()
            time.sleep(0.01)
        filler.may_publish.clear()
        is_over.set()
        for flood in floods:
            flood.close()
        self._report.blocked += has_blocked
        self._report.floods += count
        if broker.exit_code() is not None:
            raise AssertionError(f"{flooding.__name__}: exit code {broker.exit_code()}: {broker.text()[-1500:]}")


def run(cycles: int, megabytes: int = 256, seconds: float = 3.0, sabotage: str = "") -> Report:
    report = Report(megabytes=megabytes)
    folder = Path(tempfile.mkdtemp(prefix="warren-wall-"))
    try:
        with memory_group(megabytes) as group:
            assert group is not None, reason_to_skip()
            wall = Wall(folder, group, BREAKS.get(sabotage, ()), report)
            try:
                wall.run(cycles, seconds)
            except (AssertionError, Gone) as error:
                report.failures.append(str(error))
            finally:
                wall.stop()
            report.at_the_wall = int((group / "memory.failcnt").read_text())
    finally:
        shutil.rmtree(folder)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--memory", type=int, default=256, help="megabytes of the cgroup")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each flood")
    parser.add_argument("--break", dest="sabotage", default="", choices=["", *BREAKS])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    exit_where_skipped(reason_to_skip(), arguments.json)
    report = run(arguments.cycles, arguments.memory, arguments.seconds, arguments.sabotage)
    tell_and_exit(report, arguments.json)


if __name__ == "__main__":
    main()
