"""`make bench`: Warren and RabbitMQ under the same load in turn, as JSON, a table and a plot."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console

import warren.broker.node
from bench import brokers, disk
from bench.brokers import Contender, Running
from bench.echo import beside_echo, compiler
from bench.report import print_table
from bench.rows import DISK_ROW, FEATURES, ROWS, SCALING, START_ROW, Row
from warren.errors import WarrenError
from warren.perf.measure import Figures

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "bench" / "results"
# Not in the system's temporary folder, which may be memory: a disk is part of what is measured.
SCRATCH: Final = ROOT / "build" / "bench"
PATIENCE: Final = 300
# Of the load beside another: until it is under way, and as long after the other has ended.
HEAD_START: Final = 2.0


@dataclass(frozen=True)
class Pace:
    """How long and how often."""

    repetitions: int
    seconds: float
    warmup: float
    is_quick: bool

    def command_of(self, row: Row) -> list[str]:
        return self.timed(row.quick if self.is_quick and row.quick else row.command)

    def timed(self, command: Sequence[str], longer: float = 0.0) -> list[str]:
        if command[0] in ("idle", "backlog"):
            return list(command)
        return [*command, "--seconds", str(self.seconds + longer), "--warmup", str(self.warmup)]


THOROUGH: Final = Pace(repetitions=3, seconds=5.0, warmup=1.0, is_quick=False)
QUICK: Final = Pace(repetitions=1, seconds=1.2, warmup=0.4, is_quick=True)


@dataclass
class Bench:
    """All contenders stay up, so that they take turns within seconds and meet the same weather."""

    contenders: list[Contender]
    pace: Pace
    console: Console
    running: dict[str, tuple[ExitStack, Running]] = field(default_factory=dict)
    # By row and contender: what each repetition found.
    found: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)

    def run(self, rows: list[Row]) -> None:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        try:
            for row in rows:
                self._run_row(row)
        finally:
            for contender in list(self.running):
                self._stop(contender)

    def _run_row(self, row: Row) -> None:
        for repetition in range(self.pace.repetitions):
            for contender in self.contenders:
                with self.console.status(f"{row.name}: {contender.name}, {repetition + 1}"):
                    self._run_once(row, contender)

    def _run_once(self, row: Row, contender: Contender) -> None:
        if row.is_fresh:
            self._stop(contender.name)
        broker = self._up(contender)
        if row.is_secure:
            if not broker.secure_uri:
                return
            broker = replace(broker, uri=broker.secure_uri)
        with self._beside(broker, row):
            figures = self._drive(broker, self.pace.command_of(row))
        if row.grown:
            figures |= _kept(figures, self._drive(broker, self.pace.timed(row.grown)))
        if row.name == DISK_ROW:
            figures |= disk.beside_bare_sync(broker.uri, SCRATCH, self.pace.seconds)
        if row.echo[0] and compiler() is not None:
            figures |= beside_echo(figures["cpu_us"], *row.echo, SCRATCH, self.pace.seconds)
        self._keep(row.name, contender.name, figures)

    @contextmanager
    def _beside(self, broker: Running, row: Row) -> Iterator[None]:
        """The other load of a row, from before it begins until after it ends."""
        if not row.beside:
            yield
            return
        other = subprocess.Popen(_perf(broker, self.pace.timed(row.beside, HEAD_START * 2)), stdout=subprocess.DEVNULL)
        try:
            time.sleep(HEAD_START)
            yield
            if other.poll():
                raise WarrenError(f"warren perf {' '.join(row.beside)} ended with {other.returncode}")
        finally:
            other.wait(PATIENCE)

    def _drive(self, broker: Running, command: list[str]) -> Figures:
        whole = _perf(broker, command)
        done = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE, cwd=SCRATCH, check=False)
        if done.returncode:
            raise WarrenError(f"warren perf {' '.join(command)}: {done.stderr.strip()}")
        found = json.loads(done.stdout)
        return {name: value for name, value in found.items() if isinstance(value, int | float)}

    def _up(self, contender: Contender) -> Running:
        if contender.name not in self.running:
            stack = ExitStack()
            broker = stack.enter_context(contender.start(SCRATCH))
            self.running[contender.name] = (stack, broker)
            if broker.start_seconds:
                self._keep(START_ROW, contender.name, {"start_ms": broker.start_seconds * 1000})
        return self.running[contender.name][1]

    def _stop(self, name: str) -> None:
        if name in self.running:
            self.running.pop(name)[0].close()

    def _keep(self, row: str, contender: str, figures: Figures) -> None:
        self.found.setdefault(row, {}).setdefault(contender, []).append(figures)

    def medians(self) -> dict[str, dict[str, Figures]]:
        return {
            row: {name: median_of(figures) for name, figures in by_name.items()} for row, by_name in self.found.items()
        }


def _perf(broker: Running, command: list[str]) -> list[str]:
    pids = [word for pid in broker.pids for word in ("--pid", str(pid))]
    return [sys.executable, "-m", "warren", "perf", *command, "--uri", broker.uri, *pids, "--json"]


def _kept(small: Figures, grown: Figures) -> Figures:
    """Of each rate: what it was with more, and the share of the first that this is."""
    rates = [name for name in ("rate", "fill_rate", "drain_rate") if small.get(name)]
    return {f"grown_{name}": grown[name] for name in rates} | {
        f"kept_{name}": grown[name] / small[name] for name in rates
    }


def median_of(repetitions: list[Figures]) -> Figures:
    """Figure by figure."""
    return {name: median(figures[name] for figures in repetitions if name in figures) for name in repetitions[0]}


def write_results(bench: Bench, started: str) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{started}{'-quick' if bench.pace.is_quick else ''}.json"
    whole = {
        "started": started,
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "brokers": {contender.name: contender.version for contender in bench.contenders},
        "repetitions": bench.pace.repetitions,
        "seconds": bench.pace.seconds,
        "medians": bench.medians(),
        "all": bench.found,
    }
    path.write_text(json.dumps(whole, indent=1) + "\n")
    return path


def chosen_rows(pattern: str, quick: bool) -> list[Row]:
    rows = [row for row in (ROWS if quick and not pattern else (*ROWS, *FEATURES, *SCALING)) if pattern in row.name]
    if not rows:
        raise WarrenError(f"no row's name holds {pattern!r}")
    return rows


@click.command()
@click.option("--quick", is_flag=True, help="Once and shortly, for a first impression.")
@click.option("--rows", "pattern", default="", help="Only rows whose name holds this.")
@click.option("--uri", help="Another broker that is running, to be compared too.")
@click.option("--pid", multiple=True, type=int, help="Process of that broker; may be repeated.")
@click.option("--without-rabbitmq", is_flag=True, help="Warren alone.")
def main(quick: bool, pattern: str, uri: str | None, pid: tuple[int, ...], without_rabbitmq: bool) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = 120
    if not str(warren.broker.node.__file__).endswith(".so"):
        console.print("[yellow]Warren is not compiled here: these are not the figures to judge it by.[/]")
    if compiler() is None:
        console.print("[yellow]There is no C compiler (cc), so nothing is held against a bare echo.[/]")
    contenders = [brokers.warren()]
    if not without_rabbitmq:
        contenders.append(brokers.rabbitmq())
    if uri is not None:
        contenders.append(brokers.other(uri, list(pid)))
    bench = Bench(contenders, QUICK if quick else THOROUGH, console)
    started = time.strftime("%Y-%m-%dT%H%M%S")
    try:
        bench.run(chosen_rows(pattern, quick))
    except (WarrenError, FileNotFoundError) as error:
        console.print(f"[red]error:[/] {error}")
        sys.exit(1)
    path = write_results(bench, started)
    print_table(console, contenders, bench.medians())
    # Only here: it takes a second to import, and the figures are safe by now.
    from bench.plot import plot

    plot(path.with_suffix(".png"), contenders, bench.medians())
    console.print(f"{path.relative_to(ROOT)} and .png")


if __name__ == "__main__":
    main()
