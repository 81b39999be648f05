"""A consumer that was away for a night: millions of small messages in, a restart, and all of them out in order.

    python -m tests.faults.backlog [--messages 5000000] [--memory 512] [--break NAME] [--json FILE]

The broker runs in a memory cgroup where that can be had.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.kill9_broker import Broker, Nursery
from tests.faults.kill9_client import Client
from tests.faults.telling import tell
from warren.amqp import methods
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.client.session import frame_of

BODY: Final = 100
BATCH: Final = 500
# Publishes without an answer.
WINDOW: Final = 20_000
QUEUE: Final = "backlog"
PATIENCE: Final = 60.0
# Of what is delivered: its method frame for our consumer tag and queue, then the header, then the body.
_METHOD: Final = 7 + 4 + 1 + len(QUEUE) + 8 + 1 + 1 + 1 + len(QUEUE) + 1
_STRIDE: Final = _METHOD + 23 + 8 + BODY
_NUMBER: Final = struct.Struct(f">{_STRIDE - BODY - 1}xQ{BODY - 8 + 1}x")
_GROUPS: Final = Path("/sys/fs/cgroup/memory")
# A broker that keeps every message in memory.
BREAKS: Final = ("keep-all",)


@dataclass
class Report:
    messages: int = 0
    confined: bool = False
    publish_seconds: float = 0.0
    restart_seconds: float = 0.0
    drain_seconds: float = 0.0
    # Resident bytes at their highest: while filling, and from the restart to the end.
    peak_filling: int = 0
    peak_draining: int = 0
    drained: int = 0
    disordered: int = 0
    left_on_disk: int = 0

    def is_whole(self) -> bool:
        return self.drained == self.messages and self.disordered == 0


@contextmanager
def memory_group(megabytes: int) -> Iterator[Path | None]:
    """None where there is no such thing, or it is not ours to make."""
    group = _GROUPS / f"warren-backlog-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        group.rmdir()


class Backlog:
    def __init__(self, nursery: Nursery, folder: Path, group: Path | None, report: Report) -> None:
        self._nursery = nursery
        self._data_dir = folder / "data"
        self._group = group
        self.report = report

    def run(self, messages: int) -> None:
        self.report.messages = messages
        broker = self._start()
        begin = time.monotonic()
        with Client(broker.port) as client:
            client.declare(QUEUE)
            client.confirm_select()
            publish(client, messages)
        self.report.publish_seconds = time.monotonic() - begin
        self.report.peak_filling = peak_memory(broker)
        broker.kill()
        begin = time.monotonic()
        broker = self._start()
        with Client(broker.port) as client:
            assert client.declare(QUEUE, passive=True) == messages
            self.report.restart_seconds = time.monotonic() - begin
            begin = time.monotonic()
            self.report.drained, self.report.disordered = drain(client, messages)
            self.report.drain_seconds = time.monotonic() - begin
            self.report.peak_draining = peak_memory(broker)
            _wait_for_files(client, self._data_dir)
        # In blocks of 512: the segment being written has room that takes no space.
        self.report.left_on_disk = sum(path.stat().st_blocks * 512 for path in (self._data_dir / "messages").iterdir())
        broker.kill()

    def _start(self) -> Broker:
        broker = self._nursery.start(self._data_dir)
        if self._group is not None:
            (self._group / "cgroup.procs").write_text(str(broker.pid))
        broker.wait_ready(PATIENCE)
        return broker


def publish(client: Client, messages: int) -> None:
    head = frame_of(methods.BasicPublish(exchange="", routing_key=QUEUE))
    head += content_frames(1, encode_properties(Properties(delivery_mode=2)), bytes(BODY), 131072)[: -BODY - 1]
    tail = bytes(BODY - 8) + b"\xce"
    answers = threading.Thread(target=_count_answers, args=(client, messages, credit := threading.Semaphore(WINDOW)))
    answers.start()
    for first in range(1, messages + 1, BATCH):
        last = min(first + BATCH, messages + 1)
        for _ in range(last - first):
            credit.acquire()
        client.send(b"".join([head + number.to_bytes(8, "big") + tail for number in range(first, last)]))
    answers.join(PATIENCE)
    assert not answers.is_alive(), "not everything was confirmed"


def _count_answers(client: Client, messages: int, credit: threading.Semaphore) -> None:
    answered = 0
    while answered < messages:
        client.receive(PATIENCE)
        while client.events:
            method = client.events.popleft().method
            assert isinstance(method, methods.BasicAck), repr(method)
            before = answered
            answered = method.delivery_tag if method.multiple else answered + 1
            credit.release(answered - before)


def drain(client: Client, messages: int) -> tuple[int, int]:
    """How many came, and how many of them out of order."""
    client.qos(5000)
    client.send(frame_of(methods.BasicConsume(queue=QUEUE, consumer_tag=QUEUE, no_wait=True)))
    rest = b""
    count = disordered = newest = 0
    while count < messages:
        if not select.select([client.socket], [], [], PATIENCE)[0]:
            break
        data = rest + client.socket.recv(1 << 20)
        whole = len(data) - len(data) % _STRIDE
        rest = data[whole:]
        for (number,) in _NUMBER.iter_unpack(data[:whole]):
            disordered += number != newest + 1
            newest = number
        if whole:
            count += whole // _STRIDE
            client.send(frame_of(methods.BasicAck(count, True)))
    return count, disordered


def peak_memory(broker: Broker) -> int:
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say")


def _wait_for_files(client: Client, data_dir: Path) -> None:
    """Until the settled segments are gone, or it takes too long."""
    deadline = time.monotonic() + PATIENCE
    while len(list((data_dir / "messages").glob("*.log"))) > 4 and time.monotonic() < deadline:
        client.qos(0)
        time.sleep(0.02)


def run(messages: int, megabytes: int = 512, sabotage: str = "") -> Report:
    report = Report()
    folder = Path(tempfile.mkdtemp(prefix="warren-backlog-"))
    try:
        with memory_group(megabytes) as group:
            report.confined = group is not None
            with Nursery(sabotage) as nursery:
                Backlog(nursery, folder, group, report).run(messages)
    finally:
        shutil.rmtree(folder)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5_000_000)
    parser.add_argument("--memory", type=int, default=512, help="megabytes of the cgroup")
    parser.add_argument("--most", type=int, default=300, help="megabytes that may be resident")
    parser.add_argument("--restart", type=float, default=10.0, help="seconds that a restart may take")
    parser.add_argument("--break", dest="sabotage", default="", choices=["", *BREAKS])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = run(arguments.messages, arguments.memory, arguments.sabotage)
    tell(vars(report), arguments.json)
    peak = max(report.peak_filling, report.peak_draining)
    if not report.is_whole() or peak > arguments.most << 20 or report.restart_seconds > arguments.restart:
        sys.exit("backlog: not all of it came back in order, in time, and within its memory")


if __name__ == "__main__":
    main()
