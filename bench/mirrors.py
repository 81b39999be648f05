"""What mirroring costs: a leader with one follower beside a single node, all on this machine.

    python -m bench.mirrors

The same load in turn on the single node, on the leader and through the follower's port, which passes it on: rate,
latency and each process's CPU time for a message. Then how fast a follower catches up that has nothing, and one that
has everything and must show that; and how long a publisher waits when the leader is killed or hands over. Needs etcd.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from tests.replication.real_nodes import LEASE_SECONDS, Cluster, NodeProcess, wait_for
from tests.replication.test_failover import Publisher

from bench import brokers
from bench.rows import DISK_ROW, ROWS
from bench.run import PATIENCE, RESULTS, SCRATCH, median_of
from bench.spark import fill
from warren.perf.measure import Figures
from warren.perf.processes import cpu_seconds

LOADS: Final = ("persistent, window 1,000", "same, acking consumer", DISK_ROW)
SIZE: Final = 1024
# Seconds for a node to notice, copy and join.
JOIN: Final = 300


@dataclass(frozen=True)
class Way:
    """Where clients connect to, and whose CPU time that costs."""

    name: str
    uri: str
    pids: dict[str, int]


def drive(way: Way, command: tuple[str, ...], seconds: float) -> Figures:
    """Of the whole run: to be divided by all of its messages, what processes used is measured from end to end."""
    before = {role: cpu_seconds([pid]) for role, pid in way.pids.items()}
    whole = [sys.executable, "-m", "warren", "perf", *command, "--seconds", str(seconds), "--uri", way.uri, "--json"]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE, check=True)
    found = json.loads(done.stdout)
    each = 1e6 / found["published"]
    figures: Figures = {name: found[name] for name in ("rate", "p50_us", "p99_us")}
    for role, pid in way.pids.items():
        figures[f"{role}_cpu_us"] = (cpu_seconds([pid]) - before[role]) * each
    figures["cpu_us"] = sum(figures[f"{role}_cpu_us"] for role in way.pids)
    return figures


@contextmanager
def single_node() -> Iterator[Way]:
    with brokers.warren().start(SCRATCH) as running:
        yield Way("single node", running.uri, {"leader": running.pids[0]})


@contextmanager
def pair() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        cluster = Cluster.new(Path(folder), 2)
        try:
            cluster.wait_in_sync(2)
            yield cluster
        finally:
            cluster.stop()


def ways_of(cluster: Cluster) -> list[Way]:
    leader, (follower,) = cluster.leader(), cluster.followers()
    pids = {role: node.process.pid for role, node in (("leader", leader), ("follower", follower)) if node.process}
    return [
        Way(name, f"amqp://guest:guest@{node.address}/%2F", pids)
        for name, node in (("leader", leader), ("through the follower", follower))
    ]


def catch_up(cluster: Cluster, follower: NodeProcess, is_wiped: bool) -> float:
    """Seconds from its ready line until it is in sync."""
    follower.kill()
    cluster.wait_in_sync(1)
    if is_wiped:
        shutil.rmtree(follower.folder)
    lives = len(follower.roles())
    follower.start()
    wait_for(lambda: len(follower.roles()) > lives, JOIN, "the follower's start")
    begun = time.perf_counter()
    cluster.wait_in_sync(2, JOIN)
    return time.perf_counter() - begun


def measure_joins(cluster: Cluster, megabytes: int) -> Figures:
    leader, (follower,) = cluster.leader(), cluster.followers()
    fill(f"amqp://guest:guest@{leader.address}/%2F", SIZE, megabytes * 1024)
    copied = catch_up(cluster, follower, is_wiped=True)
    compared = catch_up(cluster, follower, is_wiped=False)
    rates = {"copy_mb_per_second": megabytes / copied, "compare_mb_per_second": megabytes / compared}
    return {"megabytes": megabytes, **rates}


def measure_gaps(cluster: Cluster) -> Figures:
    first = cluster.leader()
    killed = gap(cluster, first.kill)
    first.start()
    cluster.wait_in_sync(2, JOIN)
    handed_over = gap(cluster, partial(cluster.command, "transfer"))
    return {"lease_seconds": LEASE_SECONDS, "killed": killed, "handed_over": handed_over}


def gap(cluster: Cluster, happens: Callable[[], object]) -> float:
    """The longest that one who publishes, through either node, waited for a confirm until another led."""
    first = cluster.leader()

    def watch() -> None:
        happens()
        wait_for(lambda: cluster.leader() is not first, JOIN, "another leader")

    publisher = Publisher([node.amqp_port for node in cluster.nodes], "orders")
    publisher.publish(100)
    watching = threading.Thread(target=watch)
    watching.start()
    while watching.is_alive():
        publisher.publish(1)
    publisher.publish(100)
    publisher.close()
    return publisher.longest_gap


def print_figures(console: Console, found: dict[str, dict[str, Figures]], joins: Figures, gaps: Figures) -> None:
    columns = ("rate, /s", "p50, us", "p99, us", "leader's CPU, us", "follower's", "together", "rate for the CPU")
    table = Table("load", "by way of", *columns, title="A leader and a follower beside a single node")
    for load, ways in found.items():
        alone = ways["single node"]
        for name, figures in ways.items():
            keys = ("rate", "p50_us", "p99_us", "leader_cpu_us", "follower_cpu_us", "cpu_us")
            cells = [f"{figures[key]:,.1f}" if key in figures else "" for key in keys]
            table.add_row(load, name, *cells, f"{alone['cpu_us'] / figures['cpu_us']:.0%}")
    console.print(table)
    console.print(
        f"of {joins['megabytes']:.0f} MB one that has nothing copies {joins['copy_mb_per_second']:.0f} a second, "
        f"one that has all compares {joins['compare_mb_per_second']:.0f}"
    )
    console.print(
        f"longest wait for a confirm: {gaps['killed']:.1f} s when the leader is killed, with a lease of "
        f"{gaps['lease_seconds']:.0f} s; {gaps['handed_over']:.1f} s when it hands over"
    )


@click.command()
@click.option("--seconds", default=4.0, show_default=True, help="Of each measurement.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--megabytes", default=512, show_default=True, help="That a follower catches up with.")
def main(seconds: float, rounds: int, megabytes: int) -> None:
    """Measure a leader and its follower beside a single node."""
    console = Console()
    if not console.is_terminal:
        console.width = 150
    SCRATCH.mkdir(parents=True, exist_ok=True)
    commands = {row.name: row.command for row in ROWS if row.name in LOADS}
    all_found: dict[str, dict[str, list[Figures]]] = {}
    with single_node() as alone, pair() as cluster:
        for _ in range(rounds):
            for load in LOADS:
                for way in (alone, *ways_of(cluster)):
                    figures = drive(way, commands[load], seconds)
                    all_found.setdefault(load, {}).setdefault(way.name, []).append(figures)
        # First: a hand-over with much on disk takes as long as comparing it does.
        gaps = measure_gaps(cluster)
        joins = measure_joins(cluster, megabytes)
    found = {load: {name: median_of(each) for name, each in ways.items()} for load, ways in all_found.items()}
    results = {"medians": found, "joins": joins, "gaps": gaps, "all": all_found}
    (RESULTS / "mirrors.json").write_text(json.dumps(results, indent=1) + "\n")
    print_figures(console, found, joins, gaps)


if __name__ == "__main__":
    main()
