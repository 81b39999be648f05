"""The brokers of a benchmark: started afresh on loopback, with their data on the disk that the run is about."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme
from tests.rabbitmq_node import free_ports, installed_version, start_node

from warren import __version__
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.errors import WarrenError

BEAM: Final = "beam.smp"


@dataclass(frozen=True)
class Running:
    uri: str
    pids: list[int]
    # Over TLS, without asking for a certificate that somebody has signed; empty where nobody listens for it.
    secure_uri: str
    # From the start of the process to the first connection with a channel; 0 when somebody else started it.
    start_seconds: float


@dataclass(frozen=True)
class Contender:
    name: str
    version: str
    start: Callable[[Path], AbstractContextManager[Running]]


def warren(under: tuple[str, ...] = ()) -> Contender:
    """`under`: a command that runs its command line."""
    return Contender("Warren", __version__, lambda folder: _start_warren(folder, under))


def rabbitmq() -> Contender:
    return Contender("RabbitMQ", installed_version(), _start_rabbitmq)


def other(uri: str, pids: list[int]) -> Contender:
    """A broker that is running already."""
    target = parse_uri(uri)
    running = Running(uri, pids, "", 0.0)
    return Contender(f"{target.host}:{target.port}", "", lambda folder: contextlib.nullcontext(running))


@contextlib.contextmanager
def _start_warren(folder: Path, under: tuple[str, ...]) -> Iterator[Running]:
    with _secured(folder) as secure, tempfile.TemporaryDirectory(prefix="warren-", dir=folder) as data:
        command = [*under, sys.executable, "-m", "warren", "serve", "--data-dir", data, "--amqp-port", "0"]
        command += ["--http-port", "0", "--tls-port", str(secure.port), "--tls-cert", secure.certificate]
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, stdin=subprocess.DEVNULL)
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().decode().split()
            if not ready:
                raise WarrenError("warren serve did not start")
            uri = f"amqp://guest:guest@{ready[2].removeprefix('amqp=')}/%2F"
            Client(parse_uri(uri)).close()
            yield Running(uri, [process.pid], secure.uri, time.monotonic() - start)
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def _start_rabbitmq(folder: Path) -> Iterator[Running]:
    start = time.monotonic()
    # Without the management plugin, which is Debian's default and spares it the work of statistics.
    with _secured(folder) as secure, start_node(config=secure.rabbitmq_conf, parent=folder) as node:
        uri = f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F"
        node.await_startup(lambda: _accepts(uri))
        started = time.monotonic() - start
        yield Running(uri, _beams_under(node.process.pid), secure.uri, started)


@dataclass(frozen=True)
class _Secure:
    """A port of AMQP over TLS, and a file with the key and certificate to prove with."""

    port: int
    certificate: str

    @property
    def uri(self) -> str:
        return f"amqps://guest:guest@127.0.0.1:{self.port}/%2F?verify=verify_none"

    @property
    def rabbitmq_conf(self) -> str:
        files = "".join(f"ssl_options.{name}file = {self.certificate}\n" for name in ("cacert", "cert", "key"))
        return f"listeners.ssl.1 = 127.0.0.1:{self.port}\n{files}"


@contextlib.contextmanager
def _secured(folder: Path) -> Iterator[_Secure]:
    with tempfile.TemporaryDirectory(prefix="tls-", dir=folder) as name:
        certificate = str(Path(name, "broker.pem").resolve())
        trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
        yield _Secure(free_ports(1)[0], certificate)


def _accepts(uri: str) -> bool:
    target = parse_uri(uri)
    try:
        socket.create_connection((target.host, target.port), 1).close()
        Client(target).close()
    except (OSError, WarrenError):
        return False
    return True


def _beams_under(root: int) -> list[int]:
    """Erlang's virtual machine: the script that was started, or what it has become or started in turn."""
    if Path(f"/proc/{root}/comm").read_text().strip() == BEAM:
        return [root]
    children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    return [beam for child in children for beam in _beams_under(int(child))]
