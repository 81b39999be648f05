"""kill -9 of the leader under load, again and again, with every client behind a follower; then drain it and judge.

    python -m tests.replication.cluster_kills --rounds 20 --seconds 8 [--json FILE]

The load, the history and the judge are those of tests/faults/kill9.py: what was confirmed is there, what was settled
does not come back, and what comes twice says so. Now and then the leader is stopped, or told to hand over, instead.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.checker import check
from tests.faults.history import History
from tests.faults.kill9_client import Client, Gone
from tests.faults.kill9_load import DEAD_LETTERS, Load, declare_topology, drain
from tests.faults.telling import tell
from tests.replication.real_nodes import Cluster, NodeProcess, wait_for
from warren.amqp import methods

FENCE = "fence"


class Rounds:
    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self.history = History(seed)
        # The answer to a purge waits until all before it is durable on every node.
        self.load = Load(self.history, 1 << 16, methods.QueuePurge(queue=FENCE))
        # Seconds from the fault until somebody could declare something again.
        self.gaps: list[float] = []
        self.faults: dict[str, int] = {}

    def run(self, rounds: int, seconds: float) -> None:
        self._cluster.wait_in_sync(len(self._cluster.nodes), 60)
        with Client(self._cluster.leader().amqp_port) as client:
            declare_topology(client)
            client.declare(FENCE)
        for number in range(rounds):
            self._round(number, seconds)
            if sys.stderr.isatty():
                sys.stderr.write(f"\rcluster_kills: {number + 1}/{rounds}, longest gap {max(self.gaps):.1f} s")
        self._cluster.wait_in_sync(len(self._cluster.nodes), 60)
        drain(self.load, self._cluster.followers()[0].amqp_port)

    def _round(self, number: int, seconds: float) -> None:
        cluster = self._cluster
        cluster.wait_in_sync(len(cluster.nodes), 60)
        leader = cluster.leader()
        behind = self._random.choice([node for node in cluster.nodes if node is not leader])
        self.load.start(behind.amqp_port, number, self._random.getrandbits(32))
        time.sleep(seconds)
        kind = self._random.choice(("kill", "kill", "kill", "stop", "terminate", "transfer"))
        self.faults[kind] = self.faults.get(kind, 0) + 1
        self.load.is_stopping = True
        began = time.monotonic()
        self._hurt(leader, kind)
        self.load.join()
        self.history.crash()
        wait_for(lambda: self._is_served(leader), 60, "service")
        self.gaps.append(time.monotonic() - began)
        if kind == "stop":
            leader.signal(signal.SIGCONT)
        elif kind != "transfer":
            leader.start()

    def _hurt(self, leader: NodeProcess, kind: str) -> None:
        if kind == "kill":
            leader.kill()
        elif kind == "stop":
            leader.signal(signal.SIGSTOP)
            # Its clients behind another node hear nothing until that node notices.
            wait_for(lambda: self._is_served(leader), 60, "service")
        elif kind == "terminate":
            assert leader.terminate() == 0
        else:
            assert self._cluster.command("transfer").returncode == 0

    def _is_served(self, leader: NodeProcess) -> bool:
        for node in self._cluster.nodes:
            if node is not leader and node.roles()[-1:] == ["leader"]:
                try:
                    with Client(node.amqp_port) as client:
                        client.declare("served")
                        return True
                except Gone:
                    continue
        return False


def traceback_in(text: str) -> list[str]:
    """The first, in short: nodes that are killed and stopped have nothing to complain about."""
    at = text.find("Traceback")
    return [] if at < 0 else text[max(0, at - 300) : at + 2500].splitlines()


def run(rounds: int, seconds: float, seed: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="warren-cluster-kills-") as folder:
        cluster = Cluster.new(Path(folder), 3)
        try:
            story = Rounds(cluster, seed)
            story.run(rounds, seconds)
            verdict = check(story.history, DEAD_LETTERS)
            complaints = [line for node in cluster.nodes for line in traceback_in(node.errors.read_text())]
        finally:
            cluster.stop()
    return {
        "seed": seed,
        "rounds": rounds,
        "faults": story.faults,
        "longest_gap": round(max(story.gaps), 2),
        "mean_gap": round(sum(story.gaps) / len(story.gaps), 2),
        "refusals": len(story.load.refusals),
        "complaints": complaints[:20],
        **verdict.summary(),
        "is_good": verdict.is_good() and not complaints,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    summary = run(options.rounds, options.seconds, options.seed)
    tell(summary, options.json)
    sys.exit(0 if summary["is_good"] else 1)


if __name__ == "__main__":
    main()
