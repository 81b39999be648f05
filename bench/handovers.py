"""How long nobody is served when a leader hands over, with nothing stored and with much.

    python -m bench.handovers [--store NAME ...]

A leader and a follower on this machine, and one who publishes through either of them and waits for each confirm: the
longest wait when an operator moves the lead, and when the leader is told to stop. Needs etcd.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from tests.replication.real_nodes import NodeProcess

from bench.mirrors import JOIN, gap, pair
from bench.run import RESULTS, SCRATCH
from bench.spark import fill
from warren.perf.measure import Figures

# What a queue holds: messages, and the bytes of each.
STORES: Final = {
    "nothing": (0, 100),
    "512 MB, 1 KiB each": (512 * 1024, 1024),
    "5 million, 100 bytes each": (5_000_000, 100),
}


def measure(messages: int, size: int) -> Figures:
    """Seconds."""
    with pair() as cluster:
        first = cluster.leader()
        fill(f"amqp://guest:guest@{first.address}/%2F", size, messages, "classic")
        cluster.wait_in_sync(2, JOIN)
        moved = gap(cluster, partial(cluster.command, "transfer"))
        cluster.wait_in_sync(2, JOIN)
        second: NodeProcess = cluster.leader()
        stopped = gap(cluster, second.terminate)
        return {"transfer": moved, "stop": stopped}


@click.command()
@click.option("--store", "stores", multiple=True, type=click.Choice(list(STORES)), default=list(STORES))
def main(stores: tuple[str, ...]) -> None:
    """Measure how long nobody is served when a leader hands over."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    found = {name: measure(*STORES[name]) for name in stores}
    (RESULTS / "handovers.json").write_text(json.dumps(found, indent=1) + "\n")
    table = Table("stored", "transfer, s", "SIGTERM, s", title="Longest wait for a confirm")
    for name, figures in found.items():
        table.add_row(name, f"{figures['transfer']:.2f}", f"{figures['stop']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
