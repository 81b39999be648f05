"""Every fault that a cluster promises to bear, on three real nodes and three real etcds, each on a machine of its own.

    python -m tests.replication.cluster_faults [--seconds 10] [--only NAME ...] [--break NAME] [--list]

Before and during a fault clients publish with confirms, consume and declare (tests/faults/kill9_load.py); then all is
mended, drained and judged (checker.py). A line of JSON for each fault: what was confirmed, lost, resurrected or came
twice unflagged, and the longest time for which no node answered anybody. The machines are namespaces (network.py).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.faults.checker import check
from tests.faults.history import History
from tests.faults.kill9_client import Client, Gone
from tests.faults.kill9_load import DEAD_LETTERS, Load, declare_topology, drain
from tests.replication.cluster_kills import FENCE, traceback_in
from tests.replication.network import Network, command, is_inside, obstacle
from tests.replication.real_nodes import Cluster, Machine, NodeProcess, wait_for
from tests.replication.watchman import Watchman
from warren.amqp import methods

NODES: Final = ("n1", "n2", "n3")
ETCDS: Final = ("e1", "e2", "e3")
SPARE: Final = "n4"
# Seconds without another leader before a fault begins or is judged.
_CALM: Final = 3.0
_DISK_BYTES: Final = 256 * 1024 * 1024
# In a node: files beside its folder that make its disk hang, or its clock go wrong by so many seconds.
_PRELUDE: Final = """
import os, time
def between(real):
    def hanging(handle):
        while os.path.exists({hang!r}):
            time.sleep(0.02)
        return real(handle)
    return hanging
os.fdatasync, os.fsync = between(os.fdatasync), between(os.fsync)
def wrong(real, unit):
    def told():
        try:
            with open({clock!r}) as file:
                return real() + int(file.read()) * unit
        except OSError:
            return real()
    return told
time.time, time.time_ns = wrong(time.time, 1), wrong(time.time_ns, 10**9)
"""


# Promises that nodes break on purpose, to see that it is found out.
BREAKS: Final = {
    "no waiting": "from warren.replication.leader import Replicas\nReplicas.committed = lambda self: self.window.last",
}


class Etcds:
    """Three of them that are one."""

    def __init__(self, folder: Path, machines: list[Machine]) -> None:
        self.urls = [f"http://{machine.host}:2379" for machine in machines]
        self.options = ["--etcd", ",".join(self.urls)]
        peers = [f"http://{machine.host}:2380" for machine in machines]
        together = ",".join(f"{name}={peer}" for name, peer in zip(ETCDS, peers, strict=True))
        self._folder = folder
        self._commands = {
            name: [
                *machine.prefix, shutil.which("etcd") or "etcd", "--name", name, "--data-dir", str(folder / name),
                "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", peer, "--initial-cluster", together, "--unsafe-no-fsync",
                # Many processes share few cores here.
                "--heartbeat-interval", "100", "--election-timeout", "1000", "--pre-vote",
            ]
            for name, machine, url, peer in zip(ETCDS, machines, self.urls, peers, strict=True)
        }  # fmt: skip
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in ETCDS:
            self.start(name)

    def start(self, name: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(self._commands[name], stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def stop(self) -> None:
        for name in ETCDS:
            self.kill(name)


class Clients(Load):
    """Behind any node, until they are stopped."""

    def __init__(self, history: History, first: int, hosts: dict[int, str]) -> None:
        super().__init__(history, 1 << 14, methods.QueuePurge(queue=FENCE))
        self._first = first
        self._hosts = hosts
        self._clients: list[Client] = []

    def connect(self, port: int, name: str = "") -> Client:
        client = Client(port, name, self._hosts[port])
        self._clients.append(client)
        return client

    def publish(self, name: str, client: Client, rng: random.Random) -> None:
        # What was on its way when a wire was cut may come after what was published since, by another connection.
        name = f"{name} of {client.name}"
        self.counts[name] = self._first
        super().publish(name, client, rng)

    def stop(self) -> None:
        self.is_stopping = True
        for client in self._clients:
            with suppress(OSError):
                client.socket.shutdown(2)
        self._clients.clear()
        self.join()


class Stage:
    """What faults act on, and what clients do meanwhile."""

    def __init__(self, folder: Path, seconds: float, broken: str) -> None:
        self.folder = folder
        self.seconds = seconds
        self._breaking = BREAKS.get(broken, "")
        self.network = Network([*NODES, SPARE, *ETCDS])
        machines = self.network.machines
        self.etcds = Etcds(folder, [machines[name] for name in ETCDS])
        self.by_name = {name: self.new_node(name, folder / name) for name in NODES}
        self.random = random.Random(seconds)
        self._first = 0
        try:
            self.cluster = Cluster(self.etcds, list(self.by_name.values()))
        except BaseException:
            self.etcds.stop()
            raise

    def new_node(self, name: str, folder: Path) -> NodeProcess:
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", folder], check=True)
        node = NodeProcess(
            self.etcds, folder, "--loopback-users", "", "--store-segment-bytes", "1048576", "--disk-free-limit", "0",
            machine=self.network.machines[name],
        )  # fmt: skip
        switches = {name: str(self.switch(node, name)) for name in ("hang", "clock")}
        node.prelude = _PRELUDE.format(**switches) + self._breaking
        return node

    def switch(self, node: NodeProcess, name: str) -> Path:
        return node.folder.with_suffix(f".{name}")

    # -- who is who ------------------------------------------------------------------------------------------------

    def leader(self) -> str:
        leader = self.cluster.leader()
        return next(name for name, node in self.by_name.items() if node is leader)

    def followers(self) -> list[str]:
        leader = self.leader()
        return [name for name in NODES if name != leader]

    def settle(self) -> None:
        """All in sync, and for a while: where wires are mended, etcd may elect once more."""
        since, leader = time.monotonic(), ""
        while leader == "" or time.monotonic() - since < _CALM:
            self.cluster.wait_in_sync(len(NODES), 120)
            if self.leader() != leader:
                since, leader = time.monotonic(), self.leader()
            time.sleep(0.2)

    def _wait_alone(self) -> None:
        """Until the leader knows of every client that it has gone: those behind a cut wire are missed later."""

        def is_alone() -> bool:
            leader = self.cluster.leader()
            request = urllib.request.Request(f"http://{leader.machine.host}:{leader.http_port}/api/connections")
            request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
            with urllib.request.urlopen(request, timeout=10) as answer:
                return bool(json.load(answer) == [])

        wait_for(is_alone, 120, "the end of the clients' connections")

    # -- one fault -------------------------------------------------------------------------------------------------

    def play(self, name: str, fault: Fault) -> dict[str, object]:
        self.settle()
        self._first += 1_000_000
        told = {node: len(node.errors.read_text()) for node in self.cluster.nodes}
        history = History()
        clients = Clients(history, self._first, {node.amqp_port: node.machine.host for node in self.cluster.nodes})
        behind = self.by_name[self.random.choice(NODES)]
        with self.connect(behind) as client:
            declare_topology(client)
            client.declare(FENCE)
        clients.start(behind.amqp_port, 0, self._first)
        time.sleep(1.5)
        watchman = Watchman(list(self.by_name.values()))
        try:
            with fault(self):
                began = time.monotonic()
                time.sleep(min(3.0, self.seconds / 2))
                clients.stop()
                history.crash()
                self._go_on(clients, watchman, began)
            healed = time.monotonic()
            wait_for(lambda: watchman.is_served_after(healed), 120, f"service after '{name}'")
            self.settle()
            time.sleep(0.5)
        finally:
            clients.stop()
            gap = watchman.end()
        self._wait_alone()
        drain(clients, self.by_name[self.followers()[0]].amqp_port)
        verdict = check(history, DEAD_LETTERS)
        complaints = [line for node in told for line in traceback_in(node.errors.read_text()[told[node] :])]
        return {
            "fault": name,
            **verdict.summary(),
            "seconds_without_service": round(gap, 1),
            "complaints": complaints[:30],
            "is_good": verdict.is_good() and not complaints,
        }

    def _go_on(self, clients: Clients, watchman: Watchman, began: float) -> None:
        """Clients come back behind a node that serves, if there is one before the fault is over."""
        end = began + self.seconds
        while time.monotonic() < end:
            for node in self.by_name.values():
                if self._serves(node):
                    with suppress(Gone, AssertionError):
                        clients.start(node.amqp_port, 1, self._first + 1)
                        time.sleep(max(0.0, end - time.monotonic()))
                        return
            time.sleep(0.2)

    def _serves(self, node: NodeProcess) -> bool:
        try:
            with Client(node.amqp_port, "", node.machine.host, 1.0) as client:
                client.ask(methods.QueuePurge(queue=FENCE), methods.QueuePurgeOk)
                return True
        except (Gone, AssertionError):
            return False

    def connect(self, node: NodeProcess) -> Client:
        """As soon as there is a leader behind it."""

        def attempt() -> Client | None:
            try:
                return Client(node.amqp_port, "", node.machine.host)
            except (Gone, AssertionError):
                return None

        client = wait_for(attempt, 60, "a connection")
        assert isinstance(client, Client)
        return client

    def stop(self) -> None:
        self.network.heal()
        self.cluster.stop()


Fault = Callable[[Stage], AbstractContextManager[None]]
FAULTS: dict[str, Fault] = {}


def fault(play: Callable[[Stage], Iterator[None]]) -> Callable[[Stage], Iterator[None]]:
    FAULTS[play.__name__.replace("_", " ")] = contextmanager(play)
    return play


# -- processes ---------------------------------------------------------------------------------------------------------


@fault
def leader_killed(stage: Stage) -> Iterator[None]:
    node = stage.by_name[stage.leader()]
    node.kill()
    yield
    node.start()


@fault
def follower_killed(stage: Stage) -> Iterator[None]:
    node = stage.by_name[stage.followers()[0]]
    node.kill()
    yield
    node.start()


@fault
def all_killed_and_started(stage: Stage) -> Iterator[None]:
    for node in stage.by_name.values():
        node.kill()
    for node in stage.by_name.values():
        node.start()
    yield


@fault
def leader_told_to_stop(stage: Stage) -> Iterator[None]:
    node = stage.by_name[stage.leader()]
    assert node.terminate() == 0
    yield
    node.start()


@fault
def lead_handed_over(stage: Stage) -> Iterator[None]:
    done = stage.cluster.command("transfer")
    assert done.returncode == 0, done.stderr
    yield


@fault
def one_after_another_restarted(stage: Stage) -> Iterator[None]:
    for name in (*stage.followers(), stage.leader()):
        assert stage.by_name[name].terminate() == 0
        stage.by_name[name].start()
        stage.settle()
    yield


@fault
def leader_stopped_and_continued(stage: Stage) -> Iterator[None]:
    node = stage.by_name[stage.leader()]
    node.signal(signal.SIGSTOP)
    yield
    node.signal(signal.SIGCONT)


@fault
def follower_stopped_and_continued(stage: Stage) -> Iterator[None]:
    node = stage.by_name[stage.followers()[0]]
    node.signal(signal.SIGSTOP)
    yield
    node.signal(signal.SIGCONT)


@fault
def one_etcd_killed(stage: Stage) -> Iterator[None]:
    stage.etcds.kill(ETCDS[0])
    yield
    stage.etcds.start(ETCDS[0])


@fault
def all_etcds_killed(stage: Stage) -> Iterator[None]:
    for name in ETCDS:
        stage.etcds.kill(name)
    yield
    for name in ETCDS:
        stage.etcds.start(name)


# -- the network -------------------------------------------------------------------------------------------------------


@fault
def leader_cut_from_etcd(stage: Stage) -> Iterator[None]:
    stage.network.cut([stage.leader()], list(ETCDS))
    yield
    stage.network.heal()


@fault
def leader_cut_from_followers(stage: Stage) -> Iterator[None]:
    stage.network.cut([stage.leader()], stage.followers())
    yield
    stage.network.heal()


@fault
def follower_cut_from_all(stage: Stage) -> Iterator[None]:
    one = stage.followers()[0]
    stage.network.cut([one], [name for name in (*NODES, *ETCDS) if name != one])
    yield
    stage.network.heal()


@fault
def what_the_leader_sends_is_lost(stage: Stage) -> Iterator[None]:
    leader, followers = stage.leader(), stage.followers()
    for name in followers:
        stage.network.cut_way(leader, name)
    yield
    stage.network.heal()


@fault
def what_followers_send_is_lost(stage: Stage) -> Iterator[None]:
    leader, followers = stage.leader(), stage.followers()
    for name in followers:
        stage.network.cut_way(name, leader)
    yield
    stage.network.heal()


@fault
def what_the_leader_sends_to_etcd_is_lost(stage: Stage) -> Iterator[None]:
    for name in ETCDS:
        stage.network.cut_way(stage.leader(), name)
    yield
    stage.network.heal()


def _part(stage: Stage, *groups: tuple[int, ...]) -> None:
    """Machines have a node and an etcd each."""
    for some in groups:
        for others in groups:
            if some != others:
                stage.network.cut(
                    [names[one] for one in some for names in (NODES, ETCDS)],
                    [names[other] for other in others for names in (NODES, ETCDS)],
                )


@fault
def partition_halves(stage: Stage) -> Iterator[None]:
    _part(stage, (0,), (1, 2))
    yield
    stage.network.heal()


@fault
def partition_random_halves(stage: Stage) -> Iterator[None]:
    numbers = [0, 1, 2]
    stage.random.shuffle(numbers)
    _part(stage, (numbers[0],), (numbers[1], numbers[2]))
    yield
    stage.network.heal()


@fault
def partition_random_node(stage: Stage) -> Iterator[None]:
    # Of three machines every half is a node: here it is the leader's.
    leader = NODES.index(stage.leader())
    _part(stage, (leader,), tuple(number for number in range(3) if number != leader))
    yield
    stage.network.heal()


@fault
def partition_majorities_ring(stage: Stage) -> Iterator[None]:
    # Everyone sees a majority, and no two the same: of three machines, two do not see each other.
    leader = NODES.index(stage.leader())
    other = (leader + 1) % 3
    stage.network.cut([NODES[leader], ETCDS[leader]], [NODES[other], ETCDS[other]])
    yield
    stage.network.heal()


# -- disks and clocks --------------------------------------------------------------------------------------------------


@fault
def disk_of_the_leader_hangs(stage: Stage) -> Iterator[None]:
    switch = stage.switch(stage.by_name[stage.leader()], "hang")
    switch.touch()
    yield
    switch.unlink()


@fault
def disk_of_a_follower_hangs(stage: Stage) -> Iterator[None]:
    switch = stage.switch(stage.by_name[stage.followers()[0]], "hang")
    switch.touch()
    yield
    switch.unlink()


@contextmanager
def _full(node: NodeProcess) -> Iterator[None]:
    ballast = node.folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    yield
    ballast.unlink()


@fault
def disk_of_a_follower_is_full(stage: Stage) -> Iterator[None]:
    with _full(stage.by_name[stage.followers()[0]]):
        yield


@fault
def disk_of_the_leader_is_full(stage: Stage) -> Iterator[None]:
    node = stage.by_name[stage.leader()]
    with _full(node):
        yield
    assert node.process is not None
    if node.process.poll() is not None:
        # It has said so, and ended: an operator makes room and starts it again.
        node.start()


def _damage(node: NodeProcess) -> None:
    """One bit of every large file, in its middle."""
    for path in (node.folder / "messages").iterdir():
        size = path.stat().st_size
        if size > 4096 and path.suffix != ".new":
            with path.open("r+b") as file:
                file.seek(size // 3)
                byte = file.read(1)
                file.seek(size // 3)
                file.write(bytes([byte[0] ^ 4]))


@fault
def files_of_a_follower_are_damaged(stage: Stage) -> Iterator[None]:
    name = stage.followers()[0]
    node = stage.by_name[name]
    node.kill()
    _damage(node)
    node.start()
    stage.settle()
    # What it was given again must be good enough to lead with.
    assert stage.cluster.command("transfer", stage.cluster.uuid_of(node)).returncode == 0
    yield


@fault
def files_of_the_leader_are_damaged_while_all_are_down(stage: Stage) -> Iterator[None]:
    damaged = stage.by_name[stage.leader()]
    for node in stage.by_name.values():
        node.kill()
    _damage(damaged)
    for node in stage.by_name.values():
        node.start()
    yield


@fault
def disk_of_a_follower_is_new(stage: Stage) -> Iterator[None]:
    node = stage.by_name[stage.followers()[0]]
    node.kill()
    for path in node.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    node.start()
    yield


@fault
def clocks_jump_by_a_minute(stage: Stage) -> Iterator[None]:
    leader, followers = stage.leader(), stage.followers()
    for name, seconds in zip((leader, *followers), (-60, 60, -3600), strict=True):
        stage.switch(stage.by_name[name], "clock").write_text(str(seconds))
    stage.by_name[leader].kill()
    stage.by_name[leader].start()
    yield
    for name in NODES:
        stage.switch(stage.by_name[name], "clock").unlink()


@fault
def a_copy_of_the_leaders_folder_is_started(stage: Stage) -> Iterator[None]:
    leader = stage.by_name[stage.leader()]
    copy = stage.new_node(SPARE, stage.folder / "copy")
    shutil.copytree(leader.folder, copy.folder, dirs_exist_ok=True)
    # What the leader confirms meanwhile the copy does not have.
    time.sleep(2)
    copy.start()
    stage.cluster.nodes.append(copy)
    yield
    copy.kill()
    stage.cluster.nodes.remove(copy)
    complaints = traceback_in(copy.errors.read_text())
    assert not complaints, complaints


# -- the command -------------------------------------------------------------------------------------------------------


def run(names: list[str], seconds: float, broken: str) -> bool:
    is_good = True
    with tempfile.TemporaryDirectory(prefix="warren-faults-") as folder:
        stage = Stage(Path(folder), seconds, broken)
        try:
            for name in names:
                verdict = stage.play(name, FAULTS[name])
                print(json.dumps(verdict), flush=True)  # noqa: T201
                is_good = is_good and bool(verdict["is_good"])
        except BaseException:
            for node in stage.cluster.nodes:
                sys.stderr.write(f"-- {node.folder.name}\n{node.errors.read_text()[-3000:]}\n")
            raise
        finally:
            stage.stop()
            for mounted in Path(folder).iterdir():
                if mounted.is_mount():
                    subprocess.run(["umount", "-l", mounted], check=False)
    return is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long a fault lasts")
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="NAME")
    parser.add_argument("--break", dest="broken", default="", choices=["", *BREAKS])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(FAULTS))  # noqa: T201
        return
    if not is_inside():
        why = obstacle()
        if why:
            print(json.dumps({"skipped": why}))  # noqa: T201
            return
        inside = command("tests.replication.cluster_faults", *sys.argv[1:])
        os.execvp(inside[0], inside)
    sys.exit(0 if run(options.only or list(FAULTS), options.seconds, options.broken) else 1)


if __name__ == "__main__":
    main()
