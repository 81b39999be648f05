"""A real etcd and real nodes, each a process, all on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, Protocol

import pika
import pytest
import trustme

from warren.config_loading import load
from warren.server.etcd import Etcd, EtcdError
from warren.server.membership import TRANSFER, nodes_of, transfer_value
from warren.server.tls import etcd_context_of

CLUSTER: Final = "orders"
LEASE_SECONDS: Final = 3
needs_etcd = pytest.mark.skipif(shutil.which("etcd") is None, reason="there is no etcd here (Debian: etcd-server)")


# Ports that were given out last, and may not be in use yet. Other workers give out others: each its own remainder.
_given: deque[int] = deque(maxlen=100)
_WORKERS: Final = 8


def free_port() -> int:
    """None that the system gives to clients: a node that takes over opens its ports anew, and may find one there."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    while True:
        port = SystemRandom().randrange(20_000 + worker, 32_000, _WORKERS)
        if port in _given:
            continue
        with socket.socket() as each, contextlib.suppress(OSError):
            each.bind(("127.0.0.1", port))
            _given.append(port)
            return port


def wait_for(is_so: Any, seconds: float, what: str) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen in {seconds} s")


@dataclass(frozen=True)
class Certificates:
    """Of one authority, for this machine: a server, and a client whose name is anna."""

    authority: trustme.CA
    ca: str
    cert: str
    key: str
    client: str

    @staticmethod
    def new(folder: Path) -> Certificates:
        authority = trustme.CA()
        server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("anna@example.org", common_name="anna")
        made = Certificates(authority, *(str(folder / f"{name}.pem") for name in ("ca", "cert", "key", "client")))
        authority.cert_pem.write_to_path(made.ca)
        server.cert_chain_pems[0].write_to_path(made.cert)
        server.private_key_pem.write_to_path(made.key)
        client.private_key_and_cert_chain_pem.write_to_path(made.client)
        return made

    def options(self, kind: str) -> list[str]:
        return [f"--{kind}-ca", self.ca, f"--{kind}-cert", self.cert, f"--{kind}-key", self.key]


@dataclass(frozen=True)
class Machine:
    """Where a process runs: this one, or a namespace of a network of its own."""

    host: str = "127.0.0.1"
    # What its commands begin with.
    prefix: tuple[str, ...] = ()


THIS: Final = Machine()


class EtcdServer:
    def __init__(self, folder: Path, certificates: Certificates | None = None) -> None:
        self.folder = folder
        self.port, peer_port = free_port(), free_port()
        self.url = f"http{'' if certificates is None else 's'}://127.0.0.1:{self.port}"
        # How nodes and commands get to it.
        self.options = ["--etcd", self.url]
        peer = f"http://127.0.0.1:{peer_port}"
        self._command = [
            shutil.which("etcd") or "etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", self.url,
            "--advertise-client-urls", self.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}", "--unsafe-no-fsync",
        ]  # fmt: skip
        if certificates is not None:
            self.options += certificates.options("etcd")
            self._command += ["--cert-file", certificates.cert, "--key-file", certificates.key]
            self._command += ["--trusted-ca-file", certificates.ca, "--client-cert-auth"]
        self.start()

    def start(self) -> None:
        with (self.folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_for(self._is_up, 20, "etcd")

    def _is_up(self) -> bool:
        with socket.socket() as each:
            return each.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class EtcdSource(Protocol):
    """One etcd, or several that are one."""

    options: list[str]

    def stop(self) -> None: ...


class NodeProcess:
    def __init__(
        self, etcd: EtcdSource, folder: Path, *options: str, cluster: str = CLUSTER, machine: Machine = THIS
    ) -> None:
        self.folder = folder
        self.machine = machine
        self.amqp_port, self.http_port, self.tls_port = free_port(), free_port(), free_port()
        self.stream_port = free_port()
        self._options = [
            "serve", "--host", machine.host, "--data-dir", str(folder), "--cluster", cluster, *etcd.options,
            "--replication-port", "0", "--stream-port", str(self.stream_port),
            "--amqp-port", str(self.amqp_port), "--http-port", str(self.http_port), "--tls-port", str(self.tls_port),
            "--lease-seconds", str(LEASE_SECONDS), *options,
        ]  # fmt: skip
        # Run in the process before anything else, to make it another than it is.
        self.prelude = ""
        self.output = folder.with_suffix(".out")
        self.errors = folder.with_suffix(".err")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> NodeProcess:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        main = f"{self.prelude}\nfrom warren.cli.main import main\nmain()"
        command = [*self.machine.prefix, sys.executable, "-c", main, *self._options]
        with self.output.open("ab") as out, self.errors.open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=out, stderr=errors, env=environment)
        return self

    @property
    def address(self) -> str:
        return f"{self.machine.host}:{self.amqp_port}"

    @property
    def http_url(self) -> str:
        return f"http://{self.machine.host}:{self.http_port}"

    def roles(self) -> list[str]:
        """Those that it has had, in order."""
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return [line.rpartition("role=")[2] for line in lines if line.startswith("warren ready")]

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            # One of its threads takes it and stops the others: where all wait for a core, these go on for a while.
            wait_for(self._is_stopped, 20, "a process that stops")

    def _is_stopped(self) -> bool:
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return all((task / "stat").read_text().rpartition(") ")[2].startswith("T") for task in tasks)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        if self.process is not None and self.is_running:
            self.process.kill()
            self.process.wait()

    def terminate(self) -> int:
        self.signal(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(30)


class Cluster:
    def __init__(self, etcd: EtcdSource, nodes: list[NodeProcess]) -> None:
        """Begins with the first of them."""
        self.etcd = etcd
        self.nodes = nodes
        config = load(None, {}, dict(zip(map(_option_of, etcd.options[::2]), etcd.options[1::2], strict=True)))
        self._looking = Etcd(config.etcd, CLUSTER, 2.0, etcd_context_of(config))
        try:
            done = self.command("init", "--data-dir", str(self.nodes[0].folder))
            assert done.returncode == 0, done.stderr
            for node in self.nodes:
                node.start()
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def new(folder: Path, count: int, *options: str, certificates: Certificates | None = None) -> Cluster:
        etcd = EtcdServer(folder, certificates)
        return Cluster(etcd, [NodeProcess(etcd, folder / f"n{number}", *options) for number in range(count)])

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = ["--cluster", CLUSTER, *self.etcd.options]
        return subprocess.run(
            [sys.executable, "-m", "warren", "cluster", arguments[0], *options, *arguments[1:]],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def replication_address(self) -> tuple[str, int]:
        """The leader's."""
        host, port = self._looking.read()["leader"]["value"]["replication"]
        return str(host), int(port)

    def status(self) -> list[dict[str, Any]]:
        """Of no node when etcd does not answer."""
        try:
            return nodes_of(self._looking.read())
        except EtcdError:
            return []

    def wait_in_sync(self, count: int, seconds: float = 40) -> None:
        def is_so() -> bool:
            nodes = self.status()
            return (
                sum(bool(node["in_sync"]) for node in nodes) == count
                and sum(node["role"] == "leader" for node in nodes) == 1
            )

        wait_for(is_so, seconds, f"{count} nodes in sync")

    def restore(self) -> None:
        """All of them run, and are in sync."""
        started = {node: len(node.roles()) for node in self.nodes if not node.is_running}
        for node in self.nodes:
            if node in started:
                node.start()
            else:
                # It may have been stopped.
                node.signal(signal.SIGCONT)
        # Until the lease of the process before has ended, the cluster does not miss it.
        wait_for(lambda: all(len(node.roles()) > count for node, count in started.items()), 60, "a start")
        self.wait_in_sync(len(self.nodes))

    def leader(self) -> NodeProcess:
        """Between two of them there is none for a while."""

        def found() -> NodeProcess | None:
            amqp = {node["amqp"] for node in self.status() if node["role"] == "leader"}
            return next((node for node in self.nodes if node.address in amqp), None)

        leader = wait_for(found, 40, "a leader")
        assert isinstance(leader, NodeProcess)
        return leader

    def uuid_of(self, node: NodeProcess) -> str:
        return next(str(each["uuid"]) for each in self.status() if each["amqp"] == node.address)

    def wish_for(self, node: NodeProcess) -> None:
        """As `warren cluster transfer` does, which takes a while to start."""
        self._looking.put(TRANSFER, transfer_value(self.uuid_of(node), self.uuid_of(self.leader())))

    def followers(self) -> list[NodeProcess]:
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
        self._looking.close()
        self.etcd.stop()


def _option_of(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def connect(ports: list[int], seconds: float = 30) -> pika.BlockingConnection:
    """To whichever answers first."""

    def attempt() -> pika.BlockingConnection | None:
        for port in ports:
            try:
                return pika.BlockingConnection(
                    pika.ConnectionParameters("127.0.0.1", port, socket_timeout=10, blocked_connection_timeout=20)
                )
            except pika.exceptions.AMQPError:
                continue
        return None

    connection = wait_for(attempt, seconds, "a connection")
    assert isinstance(connection, pika.BlockingConnection)
    return connection
