"""`make cluster`: an etcd, three nodes, somebody who publishes and somebody who consumes. Kill one and watch.

kill -9 PID      of the leader, as the lines below tell: another takes over, and nothing confirmed is missing
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pika

NODES = 3
FIRST_PORT = 5680
ETCD_PORT = 5690
ETCD = f"http://127.0.0.1:{ETCD_PORT}"
OPTIONS = ["--cluster", "demo", "--etcd", ETCD]


def start(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603


def connect() -> pika.BlockingConnection:
    """To any node: whichever it is, it passes on to the leader."""
    ports = range(FIRST_PORT, FIRST_PORT + NODES)
    while True:
        for port in ports:
            with contextlib.suppress(pika.exceptions.AMQPError):
                return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        time.sleep(0.2)


class Traffic:
    """Numbers, each published until it is confirmed, and taken out again by somebody else."""

    def __init__(self) -> None:
        self.confirmed: set[int] = set()
        self.consumed: set[int] = set()
        self.longest_gap = 0.0
        for work in (self._publish, self._consume):
            threading.Thread(target=self._again_and_again, args=(work,), daemon=True).start()

    def _again_and_again(self, work: Callable[[], None]) -> None:
        while True:
            with contextlib.suppress(pika.exceptions.AMQPError):
                work()

    def _publish(self) -> None:
        channel = connect().channel()
        channel.confirm_delivery()
        channel.queue_declare("numbers", durable=True)
        while True:
            began, number = time.monotonic(), len(self.confirmed)
            channel.basic_publish("", "numbers", str(number).encode(), pika.BasicProperties(delivery_mode=2))
            self.confirmed.add(number)
            self.longest_gap = max(self.longest_gap, time.monotonic() - began)
            time.sleep(0.01)

    def _consume(self) -> None:
        channel = connect().channel()
        channel.queue_declare("numbers", durable=True)
        channel.basic_qos(prefetch_count=100)
        for method, _, body in channel.consume("numbers"):
            self.consumed.add(int(body))
            channel.basic_ack(method.delivery_tag)

    def line(self) -> str:
        confirmed, consumed = set(self.confirmed), set(self.consumed)
        missing = {number for number in confirmed if number < max(consumed, default=0)} - consumed
        gap = f"longest wait for a confirm {self.longest_gap:.1f} s"
        return f"{len(confirmed)} confirmed, {len(consumed)} consumed, {len(missing)} missing, {gap}"


def main() -> None:
    etcd = shutil.which("etcd")
    if etcd is None:
        sys.exit("there is no etcd on this machine: on Debian, apt install etcd-server")
    warren = [sys.executable, "-m", "warren"]
    with tempfile.TemporaryDirectory(prefix="warren-cluster-") as name:
        folder = Path(name)
        processes = [
            start(
                folder, "etcd", etcd, "--data-dir", str(folder / "etcd"),
                "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD,
                "--listen-peer-urls", f"http://127.0.0.1:{ETCD_PORT + 1}",
            )
        ]  # fmt: skip
        time.sleep(1)
        try:
            subprocess.run([*warren, "cluster", "init", *OPTIONS, "--data-dir", str(folder / "n0")], check=True)  # noqa: S603
            for number in range(NODES):
                processes.append(
                    start(
                        folder, f"n{number}", *warren, "serve", *OPTIONS, "--data-dir", str(folder / f"n{number}"),
                        "--amqp-port", str(FIRST_PORT + number), "--http-port", str(FIRST_PORT + 10000 + number),
                        "--replication-port", str(FIRST_PORT + 20000 + number), "--lease-seconds", "3",
                    )
                )  # fmt: skip
                print(f"n{number}: process {processes[-1].pid}, amqp://127.0.0.1:{FIRST_PORT + number}")  # noqa: T201
            traffic = Traffic()
            while True:
                time.sleep(5)
                print(traffic.line(), flush=True)  # noqa: T201
                subprocess.run([*warren, "cluster", "status", *OPTIONS], check=False)  # noqa: S603
        except KeyboardInterrupt:
            pass
        finally:
            for process in processes:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
