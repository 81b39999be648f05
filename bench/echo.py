"""The limit of small turns: a bare echo in C, asked in the same way by as many connections as the broker was."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from warren.perf.asking import Circle, Party, Step
from warren.perf.measure import Figures
from warren.perf.processes import cpu_seconds

SOURCE: Final = Path(__file__).with_suffix(".c")
# About as long as a publish, with a beginning that the answer must have too.
QUESTION: Final = b"echo" * 25


def compiler() -> str | None:
    return shutil.which("cc")


def beside_echo(cpu_us: float, connections: int, echoes: int, folder: Path, seconds: float) -> Figures:
    """What a bare echo costs now, and how many times so many of them the broker's `cpu_us` is."""
    with serving([build(folder)]) as (pid, port):
        cpu = cpu_seconds([pid])
        count = ask(port, connections, seconds)
        each = (cpu_seconds([pid]) - cpu) * 1e6 / count
    return {"echo_cpu_us": each, "echo_ratio": cpu_us / (echoes * each)} if each else {}


def build(folder: Path) -> str:
    program = folder / "echo"
    subprocess.run([str(compiler()), "-O2", "-o", program, SOURCE], check=True)
    return str(program)


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[tuple[int, int]]:
    """Its process, and the port that it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate()


def ask(port: int, connections: int, seconds: float) -> int:
    """How many echoes so many connections got, one after the other."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(_connected(port)) for _ in range(connections)]
        circle = Circle([Party([Step(one, QUESTION, one, b"echo", len(QUESTION))]) for one in sockets], 1)
        count, deadline = 0, time.monotonic() + seconds
        while (may_begin := time.monotonic() < deadline) or circle.is_busy:
            count += len(circle.turn(may_begin))
    return count


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
