"""RabbitMQ as a node of our own, on free loopback ports and with files that go with it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.differential.brokers import Address, Broker, HttpAdmin

PATIENCE: Final = 60.0
PLUGINS: Final = (
    "rabbitmq_management",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
)


class NodeAdmin(HttpAdmin):
    """What the management API cannot do, rabbitmqctl can."""

    def __init__(self, url: str, environment: dict[str, str]) -> None:
        super().__init__(url)
        self._environment = environment

    def set_alarm(self, name: str, on: bool) -> None:
        verb = "set_alarm({{resource_limit, %s, node()}, []})" if on else "clear_alarm({resource_limit, %s, node()})"
        self._control("eval", f"rabbit_alarm:{verb % name}.")

    def shut_down(self) -> None:
        self._control("stop_app")

    def _control(self, *command: str) -> None:
        script = server_script()
        assert script is not None
        control = Path(script).with_name("rabbitmqctl")
        subprocess.run([control, *command], env=self._environment, capture_output=True, check=True)


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
def start() -> Iterator[Broker]:
    """A RabbitMQ node on free loopback ports, with files, name and port mapper of its own; gone at the end."""
    script = server_script()
    if script is None:
        raise FileNotFoundError("rabbitmq-server is not installed")
    amqp, http, mapper, distribution = _free_ports(4)
    with tempfile.TemporaryDirectory(prefix="differential-") as folder:
        environment = _write_files(Path(folder), amqp, http) | {
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_DIST_PORT": str(distribution),
        }
        with open(Path(folder, "output"), "wb") as output:
            node = subprocess.Popen([script], env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            admin = NodeAdmin(f"http://127.0.0.1:{http}", environment)
            _await_startup(node, admin, Path(folder, "output"))
            yield Broker("rabbitmq", Address("127.0.0.1", amqp), admin)
        finally:
            node.terminate()
            node.wait()
            # The port mapper outlives the node that started it.
            subprocess.run(["epmd", "-port", str(mapper), "-kill"], env=environment, capture_output=True, check=False)


def _write_files(folder: Path, amqp: int, http: int) -> dict[str, str]:
    config = (
        f"listeners.tcp.1 = 127.0.0.1:{amqp}\n"
        f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http}\n"
        "collect_statistics_interval = 500\n"
    )
    Path(folder, "rabbitmq.conf").write_text(config)
    Path(folder, "enabled_plugins").write_text(f"[{','.join(PLUGINS)}].\n")
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"differential-{os.getpid()}@localhost",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "no-such-file"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }


def _await_startup(node: subprocess.Popen[bytes], admin: HttpAdmin, output: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not admin.is_up():
        if node.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"rabbitmq-server did not start:\n{output.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
