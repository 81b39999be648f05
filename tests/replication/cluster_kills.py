"""kill -9 of the leader under load, again and again, with every client behind a follower; then drain it and judge.

    python -m tests.replication.cluster_kills --rounds 20 --seconds 8 [--lease 10] [--only kill ...] [--json FILE]

The load, the history and the judge are those of tests/faults/kill9.py: what was confirmed is there, what was settled
does not come back, and what comes twice says so. Now and then the leader is stopped, or told to hand over, instead.
Somebody asks all the time whether anybody is served (watchman.py): longer than promised must nobody wait for that.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.faults.checker import check
from tests.faults.history import History
from tests.faults.kill9_client import Client, Gone
from tests.faults.kill9_load import DEAD_LETTERS, Load, declare_topology, drain
from tests.faults.telling import tell
from tests.replication.real_nodes import LEASE_SECONDS, Cluster, NodeProcess, wait_for
from tests.replication.watchman import Watchman
from warren.amqp import methods

FENCE: Final = "fence"
# How often each is done, and whether the leader can still hand over.
KINDS: Final = {"kill": 3, "stop": 1, "terminate": 1, "transfer": 1}
PLANNED: Final = ("terminate", "transfer")
# Seconds until somebody is served again: after a hand-over, and after the end of a lease.
_HANDED_OVER: Final = 1.0
_TAKEN_OVER: Final = 3.0


class Rounds:
    def __init__(self, cluster: Cluster, seed: int, kinds: list[str]) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self.history = History(seed)
        # The answer to a purge waits until all before it is durable on every node.
        self.load = Load(self.history, 1 << 16, methods.QueuePurge(queue=FENCE))
        self._kinds = [kind for kind in kinds for _ in range(KINDS[kind])]
        # Seconds without service, of each fault of a kind.
        self.gaps: dict[str, list[float]] = {}

    def run(self, rounds: int, seconds: float) -> None:
        self._cluster.wait_in_sync(len(self._cluster.nodes), 60)
        with Client(self._cluster.leader().amqp_port) as client:
            declare_topology(client)
            client.declare(FENCE)
        watchman = Watchman(self._cluster.nodes)
        try:
            for number in range(rounds):
                self._round(number, seconds, watchman)
                if sys.stderr.isatty():
                    sys.stderr.write(f"\rcluster_kills: {number + 1}/{rounds}")
        finally:
            watchman.end()
        self._cluster.wait_in_sync(len(self._cluster.nodes), 60)
        drain(self.load, self._cluster.followers()[0].amqp_port)

    def _round(self, number: int, seconds: float, watchman: Watchman) -> None:
        cluster = self._cluster
        cluster.wait_in_sync(len(cluster.nodes), 60)
        leader = cluster.leader()
        behind = self._random.choice([node for node in cluster.nodes if node is not leader])
        self.load.start(behind.amqp_port, number, self._random.getrandbits(32))
        time.sleep(seconds)
        kind = self._random.choice(self._kinds)
        self.load.is_stopping = True
        began = time.monotonic()
        self._hurt(leader, kind)
        self.load.join()
        self.history.crash()
        wait_for(lambda: self._is_served(leader), 60, "service")
        served = time.monotonic()
        wait_for(lambda: watchman.is_served_after(served), 60, "service for all")
        self.gaps.setdefault(kind, []).append(round(watchman.longest_gap(since=began), 2))
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


def late(gaps: dict[str, list[float]], lease: int) -> dict[str, list[float]]:
    """Those that took longer than promised."""
    promised = {kind: _HANDED_OVER if kind in PLANNED else lease + _TAKEN_OVER for kind in gaps}
    found = {kind: [gap for gap in each if gap > promised[kind]] for kind, each in gaps.items()}
    return {kind: each for kind, each in found.items() if each}


def run(rounds: int, seconds: float, seed: int, lease: int, kinds: list[str]) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="warren-cluster-kills-") as folder:
        cluster = Cluster.new(Path(folder), 3, "--lease-seconds", str(lease))
        try:
            story = Rounds(cluster, seed, kinds)
            story.run(rounds, seconds)
            verdict = check(story.history, DEAD_LETTERS)
            complaints = [line for node in cluster.nodes for line in traceback_in(node.errors.read_text())]
        finally:
            cluster.stop()
    return {
        "seed": seed,
        "rounds": rounds,
        "lease": lease,
        "seconds_without_service": story.gaps,
        "late": late(story.gaps, lease),
        "refusals": len(story.load.refusals),
        "complaints": complaints[:20],
        **verdict.summary(),
        "is_good": verdict.is_good() and not complaints and not late(story.gaps, lease),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--lease", type=int, default=LEASE_SECONDS)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    summary = run(options.rounds, options.seconds, options.seed, options.lease, options.only)
    tell(summary, options.json)
    sys.exit(0 if summary["is_good"] else 1)


if __name__ == "__main__":
    main()
