"""What an echo costs in Python on uvloop, beside the bare one in C: the floor of every broker that is written so.

    python -m bench.floor --connections 50

The two take turns, so that a busy moment of the machine meets both.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
from typing import Final, cast

import click
import uvloop

from bench.echo import ask, build, serving
from bench.instructions import WARM_UP, counted, total_of, under_valgrind
from bench.run import SCRATCH
from warren.perf.processes import cpu_seconds

C: Final = "C, epoll"
PYTHON: Final = "Python, uvloop"


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._answer = cast(asyncio.Transport, transport).write

    def data_received(self, data: bytes) -> None:
        self._answer(data)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    click.echo(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def cpu_us(command: list[str], connections: int, seconds: float) -> float:
    with serving(command) as (pid, port):
        before = cpu_seconds([pid])
        count = ask(port, connections, seconds)
        return (cpu_seconds([pid]) - before) * 1e6 / count


def instructions(command: list[str], connections: int, seconds: float) -> float:
    profile = SCRATCH / "callgrind.echo"
    with serving([*under_valgrind(profile), *command]) as (pid, port):
        ask(port, connections, WARM_UP)
        with counted(pid):
            count = ask(port, connections, seconds)
    return total_of(profile) / count


@click.command()
@click.option("--connections", default=1, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="Of each repetition.")
@click.option("--repeat", default=5, show_default=True)
@click.option("--as-server", is_flag=True, help="Be the one in Python: print a port and serve it.")
def main(connections: int, seconds: float, repeat: int, as_server: bool) -> None:
    if as_server:
        uvloop.run(serve())
        return
    SCRATCH.mkdir(parents=True, exist_ok=True)
    servers = {C: [build(SCRATCH)], PYTHON: [sys.executable, "-m", "bench.floor", "--as-server"]}
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(repeat):
        for name, command in servers.items():
            cpu[name].append(cpu_us(command, connections, seconds))
    for name, command in servers.items():
        count = f"{instructions(command, connections, seconds):,.0f}" if shutil.which("valgrind") else "not counted"
        times = f"median {statistics.median(cpu[name]):.1f}, least {min(cpu[name]):.1f}"
        click.echo(f"{name:16}CPU us: {times}; instructions without the kernel's: {count}")
    ratios = [python / bare for python, bare in zip(cpu[PYTHON], cpu[C], strict=True)]
    click.echo(f"{PYTHON} takes {statistics.median(ratios):.2f} times the CPU of {C}")


if __name__ == "__main__":
    main()
