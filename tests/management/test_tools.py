"""Tools that were made for RabbitMQ, unchanged: rabbitmqadmin of its management plug-in, and pyrabbit2."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from warren import Broker

RABBITMQADMIN: Final = shutil.which("rabbitmqadmin") or ""
has_rabbitmqadmin = pytest.mark.skipif(not RABBITMQADMIN, reason="rabbitmqadmin is not installed")
has_pyrabbit = pytest.mark.skipif(importlib.util.find_spec("pyrabbit2") is None, reason="pyrabbit2 is not installed")


class Admin:
    def __init__(self, broker: Broker) -> None:
        host, _, port = broker.http_url.removeprefix("http://").rpartition(":")
        self._command = [sys.executable, RABBITMQADMIN, "-H", host, "-P", port, "-u", "guest", "-p", "guest"]

    def run(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.run("-f", "raw_json", *arguments))
        return rows


@pytest.fixture
def admin(broker: Broker) -> Admin:
    return Admin(broker)


@has_rabbitmqadmin
def test_rabbitmqadmin_declares_publishes_gets_and_deletes(admin: Admin) -> None:
    admin.run("declare", "exchange", "name=orders", "type=topic")
    admin.run("declare", "queue", "name=invoices", "durable=true", 'arguments={"x-max-length": 10}')
    admin.run("declare", "binding", "source=orders", "destination=invoices", "routing_key=paid.#")
    sent = admin.run("publish", "exchange=orders", "routing_key=paid.eu", "payload=hello")
    assert sent.strip() == "Message published"
    unrouted = admin.run("publish", "exchange=orders", "routing_key=lost", "payload=hello")
    assert "NOT routed" in unrouted
    got = admin.rows("get", "queue=invoices", "ackmode=ack_requeue_false")
    assert [(row["payload"], row["routing_key"]) for row in got] == [("hello", "paid.eu")]
    admin.run("publish", "exchange=orders", "routing_key=paid", "payload=again")
    admin.run("purge", "queue", "name=invoices")
    assert [row["messages"] for row in admin.rows("list", "queues", "name", "messages")] == [0]
    admin.run("delete", "queue", "name=invoices")
    admin.run("delete", "exchange", "name=orders")
    assert admin.rows("list", "queues") == []


@has_rabbitmqadmin
def test_rabbitmqadmin_manages_users_policies_and_limits(admin: Admin) -> None:
    admin.run("declare", "vhost", "name=shop")
    admin.run("declare", "user", "name=clerk", "password=secret", "tags=management")
    admin.run("declare", "permission", "vhost=shop", "user=clerk", "configure=.*", "write=.*", "read=.*")
    admin.run("declare", "policy", "name=short", "pattern=.*", 'definition={"max-length": 5}')
    admin.run("declare", "operator_policy", "name=shorter", "pattern=.*", 'definition={"max-length": 4}')
    admin.run("declare", "vhost_limit", "vhost=shop", "name=max-queues", "value=3")
    assert {"clerk", "guest"} <= {row["name"] for row in admin.rows("list", "users")}
    assert [row["name"] for row in admin.rows("list", "policies")] == ["short"]
    assert [row["value"] for row in admin.rows("list", "vhost_limits")] == [{"max-queues": 3}]
    for what in ("policy", "operator_policy"):
        admin.run("delete", what, f"name={'short' if what == 'policy' else 'shorter'}")
    admin.run("delete", "vhost_limit", "vhost=shop", "name=max-queues")
    admin.run("delete", "permission", "vhost=shop", "user=clerk")
    admin.run("delete", "user", "name=clerk")
    admin.run("delete", "vhost", "name=shop")
    assert [row["name"] for row in admin.rows("list", "vhosts")] == ["/"]


@has_rabbitmqadmin
@pytest.mark.parametrize(
    "what",
    [
        "users", "vhosts", "connections", "exchanges", "bindings", "permissions", "channels", "parameters", "consumers",
        "queues", "policies", "operator_policies", "nodes", "vhost_limits",
    ],
)  # fmt: skip
def test_rabbitmqadmin_lists_everything(admin: Admin, what: str, connection: object) -> None:
    assert "+--" in admin.run("list", what) or "No items" in admin.run("list", what)


@has_rabbitmqadmin
def test_rabbitmqadmin_shows_the_overview(admin: Admin) -> None:
    assert "rabbitmq_version" in admin.run("-f", "long", "show", "overview")


@has_rabbitmqadmin
def test_rabbitmqadmin_exports_and_imports_definitions(admin: Admin, tmp_path: Path) -> None:
    admin.run("declare", "queue", "name=kept", "durable=true")
    admin.run("export", str(tmp_path / "all.json"))
    admin.run("delete", "queue", "name=kept")
    admin.run("import", str(tmp_path / "all.json"))
    assert "kept" in [row["name"] for row in admin.rows("list", "queues")]
    admin.run("delete", "queue", "name=kept")


@has_rabbitmqadmin
def test_rabbitmqadmin_closes_a_connection(broker: Broker, admin: Admin) -> None:
    import pika

    client = pika.BlockingConnection(pika.URLParameters(broker.url))
    name = admin.rows("list", "connections", "name")[0]["name"]
    admin.run("close", "connection", f"name={name}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        client.process_data_events(5)
    assert closed.value.reply_code == 320


@has_pyrabbit
def test_pyrabbit_does_its_work(broker: Broker) -> None:
    from pyrabbit2 import Client

    client = Client(broker.http_url.removeprefix("http://"), "guest", "guest")
    assert client.is_alive()
    assert client.get_overview()["object_totals"]["queues"] == 0
    assert client.get_vhost_names() == ["/"]
    client.create_vhost("rabbits")
    client.set_vhost_permissions("rabbits", "guest", ".*", ".*", ".*")
    assert client.create_exchange("rabbits", "field", "direct")
    assert client.create_queue("rabbits", "hole")
    assert client.create_binding("rabbits", "field", "hole", "carrot")
    assert client.publish("rabbits", "field", "carrot", "orange")
    assert client.get_queue_depth("rabbits", "hole") == 1
    assert [message["payload"] for message in client.get_messages("rabbits", "hole")] == ["orange"]
    assert len(client.get_queue_bindings("rabbits", "hole")) == 2
    assert client.get_exchange("rabbits", "field")["type"] == "direct"
    client.create_user("peter", "secret", "management")
    assert "peter" in [user["name"] for user in client.get_users()]
    client.delete_user("peter")
    client.purge_queue("rabbits", "hole")
    client.delete_queue("rabbits", "hole")
    client.delete_exchange("rabbits", "field")
    client.delete_vhost("rabbits")
    assert client.get_vhost_names() == ["/"]
