"""RabbitMQ as the broker that sessions are compared with."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.differential.brokers import Address, Broker, HttpAdmin
from tests.rabbitmq_node import MANAGEMENT, installed_version, server_script, start_node

__all__ = ["NodeAdmin", "installed_version", "start"]

PLUGINS: Final = (
    MANAGEMENT,
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
)
# Sessions ask the management API, which shows only what was collected.
CONFIG: Final = "collect_statistics_interval = 500\n"


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


@contextlib.contextmanager
def start() -> Iterator[Broker]:
    with start_node(PLUGINS, CONFIG) as node:
        admin = NodeAdmin(f"http://127.0.0.1:{node.http_port}", node.environment)
        node.await_startup(admin.is_up)
        yield Broker("rabbitmq", Address("127.0.0.1", node.amqp_port), admin)
