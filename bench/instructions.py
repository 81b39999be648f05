"""How many instructions the compiled broker takes for each round of a workload: what valgrind counts is the same
whatever else the machine does, so that one per cent can be told from none. What the kernel does is not in it.

    python -m bench.instructions churn declare --seconds 10

Beside the number stays callgrind's file, for callgrind_annotate --inclusive=yes.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from bench import brokers
from bench.rows import ACKS
from bench.run import SCRATCH
from warren.errors import WarrenError

LOADS: Final = {
    "churn": ("churn", "--publishers", "1"),
    "declare": ("declare",),
    "get": ("get",),
    "confirm": ("many", "--connections", "1"),
    "rpc": ("rpc",),
    "persistent": ("confirms", "--persistent", "--consumers", "1", *ACKS),
    "acks": ("throughput", "--size", "1024", *ACKS),
}
# What a workload calls its rounds.
ROUNDS: Final = ("rounds", "opened", "consumed")
# Seconds that are not counted: the first rounds make what the others find.
WARM_UP: Final = 2


def count(load: str, seconds: int) -> float:
    """Instructions a round, the few of connecting included."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    profile = SCRATCH / f"callgrind.{load}"
    with brokers.warren(under_valgrind(profile)).start(SCRATCH) as broker:
        _run(load, WARM_UP, broker.uri)
        with counted(broker.pids[0]):
            rounds = _run(load, seconds, broker.uri)
    return total_of(profile) / rounds


def under_valgrind(profile: Path) -> tuple[str, ...]:
    """A command that runs another and writes this file at its end."""
    return ("valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}")


@contextlib.contextmanager
def counted(pid: int) -> Iterator[None]:
    _switch("on", pid)
    yield
    _switch("off", pid)


def total_of(profile: Path) -> int:
    found = re.search(r"^totals: (\d+)", profile.read_text(), re.MULTILINE)
    if found is None:
        raise WarrenError(f"callgrind has counted nothing in {profile}")
    return int(found[1])


def _switch(state: str, pid: int) -> None:
    control = shutil.which("callgrind_control") or ""
    subprocess.run([control, "-i", state, str(pid)], check=True, capture_output=True)


def _run(load: str, seconds: int, uri: str) -> int:
    """How many rounds it took."""
    perf = [sys.executable, "-m", "warren", "perf", *LOADS[load], "--uri", uri, "--json"]
    perf += ["--warmup", "0", "--seconds", str(seconds)]
    figures = json.loads(subprocess.run(perf, check=True, stdout=subprocess.PIPE, cwd=SCRATCH).stdout)
    return next(int(figures[name]) for name in ROUNDS if name in figures)


@click.command()
@click.argument("loads", nargs=-1, type=click.Choice(list(LOADS)))
@click.option("--seconds", default=10, show_default=True)
def main(loads: tuple[str, ...], seconds: int) -> None:
    """Of all LOADS unless some are named."""
    if shutil.which("valgrind") is None:
        raise click.ClickException("valgrind is not installed")
    for load in loads or tuple(LOADS):
        click.echo(f"{load:12}{count(load, seconds):12,.0f}")


if __name__ == "__main__":
    main()
