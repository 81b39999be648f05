"""The same small world in any broker with RabbitMQ's management API: something of every kind that a GET can show."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import pika

from tests.rabbitmq_node import MANAGEMENT, start_node

VHOST: Final = "scene"
PATIENCE: Final = 20.0


TAGS: Final = ("", "management", "policymaker", "monitoring", "administrator")


class Api:
    def __init__(self, port: int, login: str = "guest:guest") -> None:
        self.port = port
        encoded = b64encode(login.encode()).decode()
        self._headers = {"Authorization": "Basic " + encoded, "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        status, text = self.answer(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {text}")
        return json.loads(text) if text else None

    def answer(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), self._headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def is_up(self) -> bool:
        try:
            self.ask("GET", "/api/overview")
        except (OSError, RuntimeError, http.client.HTTPException):
            return False
        return True


def declare(api: Api) -> None:
    api.ask("PUT", f"/api/vhosts/{VHOST}", {"description": "a scene", "tags": "one,two"})
    api.ask("PUT", "/api/users/actor", {"password": "secret", "tags": "management"})
    api.ask("PUT", f"/api/permissions/{VHOST}/actor", {"configure": ".*", "write": ".*", "read": ".*"})
    api.ask("PUT", f"/api/topic-permissions/{VHOST}/actor", {"exchange": "amq.topic", "write": ".*", "read": ".*"})
    api.ask("PUT", f"/api/exchanges/{VHOST}/stage", {"type": "topic", "durable": True})
    api.ask("PUT", f"/api/queues/{VHOST}/props", {"durable": True, "arguments": {"x-max-length": 100}})
    api.ask("PUT", f"/api/queues/{VHOST}/seats", {"durable": True})
    api.ask("POST", f"/api/bindings/{VHOST}/e/stage/q/props", {"routing_key": "a.#", "arguments": {}})
    api.ask("POST", f"/api/bindings/{VHOST}/e/stage/e/amq.fanout", {"routing_key": "b", "arguments": {}})
    rule = {"pattern": "^props", "definition": {"max-length": 50}, "priority": 1, "apply-to": "queues"}
    api.ask("PUT", f"/api/policies/{VHOST}/short", rule)
    api.ask("PUT", f"/api/operator-policies/{VHOST}/shorter", {**rule, "definition": {"max-length": 40}})
    api.ask("PUT", f"/api/vhost-limits/{VHOST}/max-queues", {"value": 100})
    api.ask("PUT", "/api/user-limits/actor/max-channels", {"value": 100})
    api.ask("PUT", "/api/global-parameters/motto", {"value": {"a": 1}})


@contextlib.contextmanager
def played(api: Api, amqp_port: int) -> Iterator[dict[str, str]]:
    """Traffic of every kind; hands out the names that brokers choose themselves, percent-encoded."""
    declare(api)
    login = pika.PlainCredentials("guest", "guest")
    where = pika.ConnectionParameters("127.0.0.1", amqp_port, VHOST, login, client_properties={"connection_name": "x"})
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(4):
            channel.basic_publish("stage", "a.b", str(number).encode(), pika.BasicProperties(delivery_mode=2))
        channel.basic_get("props", auto_ack=True)
        channel.basic_get("props")
        channel.basic_get("seats")
        channel.basic_consume("seats", lambda *_: None)
        channel.basic_publish("", "seats", b"seen")
        with contextlib.suppress(pika.exceptions.UnroutableError):
            channel.basic_publish("stage", "nowhere", b"", mandatory=True)
        connection.process_data_events(0.2)
        yield _names(api)
        connection.process_data_events(0)


def _names(api: Api) -> dict[str, str]:
    """Once the statistics have come to know of it all."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        channels = api.ask("GET", "/api/channels")
        queue = api.ask("GET", f"/api/queues/{VHOST}/props")
        if channels and "message_stats" in channels[0] and "get" in queue.get("message_stats", {}):
            overview = api.ask("GET", "/api/overview")
            return {
                "{node}": quote(overview["node"], safe=""),
                "{connection}": quote(channels[0]["connection_details"]["name"], safe=""),
                "{channel}": quote(channels[0]["name"], safe=""),
            }
        time.sleep(0.1)
    raise RuntimeError("the statistics did not come")


PATHS: Final = (
    "/api/overview",
    "/api/cluster-name",
    "/api/nodes",
    "/api/nodes/{node}",
    "/api/nodes/{node}/memory",
    "/api/extensions",
    "/api/definitions",
    f"/api/definitions/{VHOST}",
    "/api/connections",
    f"/api/vhosts/{VHOST}/connections",
    "/api/connections/{connection}",
    "/api/connections/username/guest",
    "/api/connections/{connection}/channels",
    "/api/channels",
    f"/api/vhosts/{VHOST}/channels",
    "/api/channels/{channel}",
    "/api/consumers",
    f"/api/consumers/{VHOST}",
    f"/api/exchanges/{VHOST}",
    f"/api/exchanges/{VHOST}/stage",
    f"/api/exchanges/{VHOST}/stage/bindings/source",
    f"/api/exchanges/{VHOST}/amq.fanout/bindings/destination",
    f"/api/queues/{VHOST}",
    f"/api/queues/{VHOST}/props",
    f"/api/queues/{VHOST}/seats",
    f"/api/queues/{VHOST}?page=1",
    f"/api/queues/{VHOST}/props?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    f"/api/queues/{VHOST}/props/bindings",
    f"/api/bindings/{VHOST}",
    f"/api/bindings/{VHOST}/e/stage/q/props",
    f"/api/bindings/{VHOST}/e/stage/q/props/a.%23",
    f"/api/bindings/{VHOST}/e/stage/e/amq.fanout",
    "/api/vhosts",
    f"/api/vhosts/{VHOST}",
    f"/api/vhosts/{VHOST}/permissions",
    f"/api/vhosts/{VHOST}/topic-permissions",
    "/api/users",
    "/api/users/without-permissions",
    "/api/users/actor",
    "/api/users/actor/permissions",
    "/api/users/actor/topic-permissions",
    "/api/user-limits",
    "/api/user-limits/actor",
    "/api/whoami",
    "/api/permissions",
    f"/api/permissions/{VHOST}/actor",
    "/api/topic-permissions",
    f"/api/topic-permissions/{VHOST}/actor",
    "/api/parameters",
    "/api/parameters/vhost-limits",
    f"/api/parameters/operator_policy/{VHOST}",
    f"/api/parameters/operator_policy/{VHOST}/shorter",
    "/api/global-parameters",
    "/api/global-parameters/motto",
    f"/api/policies/{VHOST}",
    f"/api/policies/{VHOST}/short",
    f"/api/operator-policies/{VHOST}",
    f"/api/operator-policies/{VHOST}/shorter",
    f"/api/aliveness-test/{VHOST}",
    "/api/health/checks/alarms",
    "/api/health/checks/local-alarms",
    "/api/health/checks/certificate-expiration/1/days",
    "/api/health/checks/protocol-listener/amqp091",
    "/api/health/checks/virtual-hosts",
    "/api/health/checks/node-is-mirror-sync-critical",
    "/api/health/checks/node-is-quorum-critical",
    "/api/vhost-limits",
    f"/api/vhost-limits/{VHOST}",
    "/api/auth",
    "/api/auth/attempts/{node}",
    "/api/feature-flags",
)


def keys_of_all(api: Api, names: dict[str, str]) -> dict[str, list[str]]:
    """By path: every key that the answer holds anywhere, as `a.b`, `a[].b`."""
    found: dict[str, list[str]] = {}
    for path, target in targets(names).items():
        keys = keys_in(api.ask("GET", target))
        # A node's name is a key where states are told by node.
        found[path] = sorted(key.replace(unquote(names["{node}"]), "{node}") for key in keys)
    return found


def targets(names: dict[str, str]) -> dict[str, str]:
    """By path: the same with the names that this broker chose."""
    found: dict[str, str] = {}
    for path in PATHS:
        target = path
        for placeholder, name in names.items():
            target = target.replace(placeholder, name)
        found[path] = target
    return found


def statuses_of_all(api: Api, names: dict[str, str]) -> dict[str, dict[str, int]]:
    """By tag and path: what a user with that tag, who may use the scene's vhost only, is answered."""
    found: dict[str, dict[str, int]] = {}
    for tag in TAGS:
        user = f"tagged-{tag}"
        api.ask("PUT", f"/api/users/{user}", {"password": "secret", "tags": tag})
        api.ask("PUT", f"/api/permissions/{VHOST}/{user}", {"configure": ".*", "write": ".*", "read": ".*"})
        own = Api(api.port, f"{user}:secret")
        found[tag] = {path: own.answer("GET", target)[0] for path, target in targets(names).items()}
    return found


def keys_in(value: Any, prefix: str = "") -> set[str]:
    keys: set[str] = set()
    if isinstance(value, dict):
        for key, inner in value.items():
            keys |= {f"{prefix}{key}"} | keys_in(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        for inner in value:
            keys |= keys_in(inner, f"{prefix.removesuffix('.')}[].")
    return keys


def main() -> None:
    """`python -m tests.management.scene FILE`: write what the installed RabbitMQ answers."""
    with rabbitmq() as (api, port), played(api, port) as names:
        keys = keys_of_all(api, names)
        recorded = {"keys": keys, "statuses": statuses_of_all(api, names)}
        Path(sys.argv[1]).write_text(json.dumps(recorded, indent=0) + "\n")


@contextlib.contextmanager
def rabbitmq() -> Iterator[tuple[Api, int]]:
    with start_node((MANAGEMENT,), "collect_statistics_interval = 500\n") as node:
        api = Api(node.http_port)
        node.await_startup(api.is_up)
        yield api, node.amqp_port


if __name__ == "__main__":
    main()
