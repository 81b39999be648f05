"""The brokers that sessions run against: RabbitMQ as a node of our own, Warren in this process, or any address.

Users, vhosts and policies are made through the management API, which both brokers speak.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STARTUP_PATIENCE: Final = 60.0
RABBITMQ_PLUGINS: Final = (
    "rabbitmq_management",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
)


@dataclass(frozen=True)
class Address:
    host: str
    port: int


class Admin:
    """What an operator does to a broker, over the management API."""

    def __init__(self, url: str, user: str = "guest", password: str = "guest") -> None:
        self._url = url.rstrip("/")
        self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def add_user(
        self,
        name: str,
        password: str,
        tags: str = "",
        vhost: str = "/",
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
    ) -> None:
        self._request("PUT", ("users", name), {"password": password, "tags": tags})
        if vhost:
            self.set_permissions(name, vhost, configure, write, read)

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        rights = {"configure": configure, "write": write, "read": read}
        self._request("PUT", ("permissions", vhost, user), rights)

    def set_topic_permission(self, user: str, exchange: str, write: str, read: str, vhost: str = "/") -> None:
        rights = {"exchange": exchange, "write": write, "read": read}
        self._request("PUT", ("topic-permissions", vhost, user), rights)

    def set_password(self, user: str, password: str) -> None:
        self._request("PUT", ("users", user), {"password": password, "tags": ""})

    def set_user_limit(self, user: str, limit: str, value: int) -> None:
        self._request("PUT", ("user-limits", user, limit), {"value": value})

    def delete_user(self, name: str) -> None:
        self._delete("users", name)

    def add_vhost(self, name: str) -> None:
        self._request("PUT", ("vhosts", name), {})
        self.set_permissions("guest", name, ".*", ".*", ".*")

    def set_vhost_limit(self, vhost: str, limit: str, value: int) -> None:
        self._request("PUT", ("vhost-limits", vhost, limit), {"value": value})

    def delete_vhost(self, name: str) -> None:
        self._delete("vhosts", name)

    def set_policy(
        self, name: str, pattern: str, definition: dict[str, object], apply_to: str = "all", vhost: str = "/"
    ) -> None:
        policy = {"pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": 0}
        self._request("PUT", ("policies", vhost, name), policy)

    def delete_policy(self, name: str, vhost: str = "/") -> None:
        self._delete("policies", vhost, name)

    def close_connections_of(self, user: str, reason: str) -> None:
        """Ends a user's connections as an administrator does. The API shows a new connection only after a while."""
        deadline = time.monotonic() + STARTUP_PATIENCE
        while time.monotonic() < deadline:
            names = [entry["name"] for entry in self._connections() if entry.get("user") == user]
            for name in names:
                self._request("DELETE", ("connections", name), headers={"X-Reason": reason})
            if names:
                return
            time.sleep(0.1)
        raise TimeoutError(f"the management API shows no connection of {user}")

    def is_up(self) -> bool:
        try:
            self._request("GET", ("overview",))
        except OSError:
            return False
        return True

    def _delete(self, *path: str) -> None:
        try:
            self._request("DELETE", path)
        except urllib.error.HTTPError as error:
            # Scripts may have deleted it themselves.
            if error.code != 404:
                raise

    def _connections(self) -> list[dict[str, str]]:
        answer = self._request("GET", ("connections",))
        assert isinstance(answer, list)
        return answer

    def _request(
        self, verb: str, path: tuple[str, ...], body: object = None, headers: dict[str, str] | None = None
    ) -> object:
        url = "/".join([self._url, "api", *(urllib.parse.quote(part, safe="") for part in path)])
        data = None if body is None else json.dumps(body).encode()
        given = {"Authorization": self._authorization, "Content-Type": "application/json"} | (headers or {})
        request = urllib.request.Request(url, data, given, method=verb)
        with urllib.request.urlopen(request, timeout=STARTUP_PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None


@dataclass(frozen=True)
class Broker:
    """A running broker and the way to administer it."""

    name: str
    address: Address
    admin: Admin


# ---- RabbitMQ ---------------------------------------------------------------------------------------------------


def rabbitmq_server() -> str | None:
    """The server script itself: Debian's wrapper in the path changes user and with it the environment."""
    debian = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    return debian if os.path.exists(debian) else shutil.which("rabbitmq-server")


@contextlib.contextmanager
def rabbitmq() -> Iterator[Broker]:
    """A RabbitMQ node on free loopback ports, with files, name and port mapper of its own; gone at the end."""
    script = rabbitmq_server()
    if script is None:
        raise FileNotFoundError("rabbitmq-server is not installed")
    amqp, http, mapper, distribution = _free_ports(4)
    with tempfile.TemporaryDirectory(prefix="differential-") as folder:
        environment = _rabbitmq_files(Path(folder), amqp, http) | {
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_DIST_PORT": str(distribution),
        }
        with open(Path(folder, "output"), "wb") as output:
            node = subprocess.Popen([script], env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            admin = Admin(f"http://127.0.0.1:{http}")
            _await_startup(node, admin, Path(folder, "output"))
            yield Broker("rabbitmq", Address("127.0.0.1", amqp), admin)
        finally:
            node.terminate()
            node.wait()
            # The port mapper outlives the node that started it.
            subprocess.run(["epmd", "-port", str(mapper), "-kill"], env=environment, capture_output=True, check=False)


def _rabbitmq_files(folder: Path, amqp: int, http: int) -> dict[str, str]:
    config = (
        f"listeners.tcp.1 = 127.0.0.1:{amqp}\n"
        f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http}\n"
        "collect_statistics_interval = 500\n"
    )
    Path(folder, "rabbitmq.conf").write_text(config)
    Path(folder, "enabled_plugins").write_text(f"[{','.join(RABBITMQ_PLUGINS)}].\n")
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


def _await_startup(node: subprocess.Popen[bytes], admin: Admin, output: Path) -> None:
    deadline = time.monotonic() + STARTUP_PATIENCE
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
