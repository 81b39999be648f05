"""RabbitMQ as a node of our own: free loopback ports, a name and a port mapper of its own, files that go with it.

For whoever compares Warren with it: the differential tests, and the benchmark.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATIENCE: Final = 60.0
MANAGEMENT: Final = "rabbitmq_management"


@dataclass(frozen=True)
class RabbitNode:
    amqp_port: int
    http_port: int
    # For rabbitmqctl and the like.
    environment: dict[str, str]
    # The process that was started, and what it printed so far.
    process: subprocess.Popen[bytes]
    output: Path

    def await_startup(self, is_up: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_up():
            if self.process.poll() is not None or time.monotonic() > deadline:
                printed = self.output.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"rabbitmq-server did not start:\n{printed}")
            time.sleep(0.1)


def server_script() -> str | None:
    """The server script itself: Debian's wrapper in the path changes user and with it the environment."""
    debian = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    return debian if os.path.exists(debian) else shutil.which("rabbitmq-server")


def installed_version() -> str:
    """Of the server that is installed, from the place it is installed in; empty when there is none."""
    script = server_script()
    if script is None:
        return ""
    found = re.search(r"rabbitmq_server-([\d.]+)", str(Path(script).resolve()))
    return found.group(1) if found else "unknown"


@contextlib.contextmanager
def start_node(plugins: Sequence[str] = (), config: str = "", parent: Path | None = None) -> Iterator[RabbitNode]:
    """Not yet up when it is handed out: see await_startup. Gone after the block, with its files in `parent`."""
    script = server_script()
    if script is None:
        raise FileNotFoundError("rabbitmq-server is not installed")
    amqp, http, mapper, distribution = free_ports(4)
    with tempfile.TemporaryDirectory(prefix="rabbitmq-", dir=parent) as name:
        folder = Path(name)
        if MANAGEMENT in plugins:
            config = f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http}\n{config}"
        environment = _write_files(folder, plugins, f"listeners.tcp.1 = 127.0.0.1:{amqp}\n{config}") | {
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_NODENAME": f"warren-{amqp}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
        }
        output = folder / "output"
        with open(output, "wb") as file:
            process = subprocess.Popen([script], env=environment, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        try:
            yield RabbitNode(amqp, http, environment, process, output)
        finally:
            process.terminate()
            process.wait()
            # The port mapper outlives the node that started it.
            subprocess.run(["epmd", "-port", str(mapper), "-kill"], env=environment, capture_output=True, check=False)


def _write_files(folder: Path, plugins: Sequence[str], config: str) -> dict[str, str]:
    Path(folder, "rabbitmq.conf").write_text(config)
    Path(folder, "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "no-such-file"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
