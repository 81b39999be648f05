"""`warren migrate` between two brokers of ours; tests/faults/test_migration.py takes a real RabbitMQ, and kills."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cli.serving import run_warren
from warren import Broker

PATIENCE = 60.0


@pytest.fixture
def old() -> Iterator[Broker]:
    with Broker(http=True) as broker:
        yield broker


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Broker]:
    with Broker(http=True, data_dir=str(tmp_path)) as broker:
        yield broker


def login(url: str) -> str:
    return url.replace("http://", "http://guest:guest@")


def migrate(old: Broker, new: Broker, *more: str, vhost: str = "") -> Any:
    source = f"amqp://guest:guest@127.0.0.1:{old.port}{vhost}"
    api, url = login(old.http_url), login(new.http_url)
    return run_warren("migrate", source, "--api", api, "--url", url, "--json", *more)


def summary_of(done: Any) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def channel_of(connection: pika.BlockingConnection) -> BlockingChannel:
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def test_messages_come_with_all_that_they_had(old: Broker, new: Broker, caplog: pytest.LogCaptureFixture) -> None:
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"kind": "tea", "cups": 2, "CC": ["elsewhere"]},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="answers",
        expiration="600000",
        message_id="m",
        timestamp=1_700_000_000,
        type="order",
        user_id="guest",
        app_id="shop",
        cluster_id="x",
    )
    with pika.BlockingConnection(pika.URLParameters(old.url)) as connection:
        channel = channel_of(connection)
        channel.queue_declare("orders", durable=True, arguments={"x-max-priority": 5})
        channel.queue_declare("elsewhere", durable=True)
        channel.queue_bind("orders", "amq.topic", "order.#")
        channel.basic_publish("amq.topic", "order.placed", b"one tea", properties)
        channel.basic_publish("", "orders", b"")
        channel.queue_delete("elsewhere")
        channel.queue_declare("elsewhere", durable=True)
    done = migrate(old, new)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["moved"] == 2
    # On either side there is nothing for an operator to wonder about.
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []
    with pika.BlockingConnection(pika.URLParameters(new.url)) as connection:
        channel = channel_of(connection)
        method, found, body = channel.basic_get("orders")
        assert (method.exchange, method.routing_key, body) == ("amq.topic", "order.placed", b"one tea")
        assert found == properties
        method, found, body = channel.basic_get("orders")
        assert (method.exchange, method.routing_key, body, found.headers) == ("", "orders", b"", None)
        assert channel.queue_declare("elsewhere", passive=True).method.message_count == 0


def test_a_virtual_host_in_the_address_limits_it_to_that_one(old: Broker, new: Broker) -> None:
    old.add_vhost("shop")
    old.set_permission("guest", "shop")
    for vhost in ("/", "shop"):
        with pika.BlockingConnection(pika.URLParameters(old.url_of("guest", "guest", vhost))) as connection:
            channel = channel_of(connection)
            channel.queue_declare("orders", durable=True)
            channel.basic_publish("", "orders", vhost.encode())
    assert json.loads(migrate(old, new, vhost="/shop").stdout)["moved"] == 1
    assert new.call(lambda node: {name: list(vhost.queues) for name, vhost in node.vhosts.items()}) == {
        "/": [],
        "shop": ["orders"],
    }
    # Those of all, and what was moved is not moved again.
    assert json.loads(migrate(old, new).stdout)["moved"] == 1


def test_a_stream_is_copied_and_a_second_run_brings_only_what_is_new(old: Broker, new: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(old.url)) as connection:
        channel = channel_of(connection)
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind("log", "amq.topic", "log.#")
        for n in range(40):
            properties = pika.BasicProperties(headers={"n": n}, delivery_mode=2)
            channel.basic_publish("amq.topic", f"log.{n}", str(n).encode(), properties)
        assert summary_of(migrate(old, new))["moved"] == 40
        # Publishers move, one after the other.
        with pika.BlockingConnection(pika.URLParameters(new.url)) as moved:
            channel_of(moved).basic_publish("", "log", b"moved already")
        channel.basic_publish("", "log", b"new")
        again = summary_of(migrate(old, new))
        assert (again["moved"], again["verified"]) == (1, True)
        assert channel.queue_declare("log", passive=True).method.message_count == 41
    with pika.BlockingConnection(pika.URLParameters(new.url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        found = []
        for method, properties, body in channel.consume("log", arguments={"x-stream-offset": "first"}):
            found.append((method.exchange, method.routing_key, properties.headers, body))
            if len(found) == 42:
                break
    assert found[:40] == [("amq.topic", f"log.{n}", {"n": n, "x-stream-offset": n}, str(n).encode()) for n in range(40)]
    assert [body for *_, body in found[40:]] == [b"moved already", b"new"]


def test_what_a_full_queue_refuses_stays_where_it_was(old: Broker, new: Broker) -> None:
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
    for broker, count in ((old, 5), (new, 3)):
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = channel_of(connection)
            channel.queue_declare("orders", durable=True, arguments=arguments)
            for _ in range(count):
                channel.basic_publish("", "orders", b"m")
    for _ in range(2):
        done = migrate(old, new)
        assert done.returncode == 1
        assert "queue 'orders' of Warren refused messages" in done.stderr
        # What it held comes back when the broker hears that its connection has ended.
        deadline = time.monotonic() + PATIENCE
        while old.call(lambda node: node.vhosts["/"].queues["orders"].backing.length) != 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
