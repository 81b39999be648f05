"""Messages that wait for their time when the broker is killed: given back and held off, or scheduled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.faults.kill9_broker import Nursery

PERSISTENT: Final = 2
# Long enough to be still waiting at the kill, and an hour where it must not come.
SOON_MS: Final = 1500
LATER_MS: Final = 3_600_000


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@contextlib.contextmanager
def living(nursery: Nursery, data_dir: Path) -> Iterator[BlockingChannel]:
    """A channel of a broker that is killed at the end of the block."""
    broker = nursery.start(data_dir)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.wait_ready()))
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        yield channel
    finally:
        broker.kill()
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def take(channel: BlockingChannel, queue: str, count: int, patience: float = 20) -> list[tuple[bytes, bool]]:
    found: list[tuple[bytes, bool]] = []
    deadline = time.monotonic() + patience
    while len(found) < count and time.monotonic() < deadline:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append((body, method.redelivered))
        else:
            time.sleep(0.01)
    return found


@pytest.mark.parametrize("type", ["classic", "quorum"])
def test_what_waits_for_its_next_try_survives(nursery: Nursery, tmp_path: Path, type: str) -> None:
    with living(nursery, tmp_path / "data") as channel:
        arguments = {"x-queue-type": type, "x-delayed-retry-min": LATER_MS}
        channel.queue_declare("work", durable=True, arguments=arguments)
        for number in range(5):
            channel.basic_publish("", "work", str(number).encode(), pika.BasicProperties(delivery_mode=PERSISTENT))
        for _ in range(3):
            method, _, _ = channel.basic_get("work")
            channel.basic_nack(method.delivery_tag)
        # All three wait: the next that is ready is the fourth.
        assert take(channel, "work", 1) == [(b"3", False)]
        # A confirm: what was settled before is on disk.
        channel.basic_publish("", "work", b"5", pika.BasicProperties(delivery_mode=PERSISTENT))
    with living(nursery, tmp_path / "data") as channel:
        found = take(channel, "work", 5)
        assert [body for body, _ in found] == [b"0", b"1", b"2", b"4", b"5"]
        assert all(was_given_back for _, was_given_back in found[:3])
        assert take(channel, "work", 1, 0.1) == []


def test_what_is_scheduled_survives_and_comes_in_its_time(nursery: Nursery, tmp_path: Path) -> None:
    with living(nursery, tmp_path / "data") as channel:
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
        channel.queue_declare("due", durable=True)
        channel.queue_bind("due", "later", "k")
        began = time.monotonic()
        for name, delay in ((b"soon", SOON_MS), (b"sooner", SOON_MS // 2), (b"in an hour", LATER_MS)):
            properties = pika.BasicProperties(delivery_mode=PERSISTENT, headers={"x-delay": delay})
            channel.basic_publish("later", "k", name, properties)
    with living(nursery, tmp_path / "data") as channel:
        assert [body for body, _ in take(channel, "due", 2)] == [b"sooner", b"soon"]
        assert time.monotonic() - began >= SOON_MS / 1000 - 0.05
        assert take(channel, "due", 1, 0.1) == []


def test_what_came_due_while_the_broker_was_down_comes_once_at_the_start(nursery: Nursery, tmp_path: Path) -> None:
    with living(nursery, tmp_path / "data") as channel:
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
        for name in ("due", "other"):
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "later")
        properties = pika.BasicProperties(delivery_mode=PERSISTENT, headers={"x-delay": 200})
        channel.basic_publish("later", "", b"m", properties)
    time.sleep(0.3)
    with living(nursery, tmp_path / "data") as channel:
        assert take(channel, "due", 1) == [(b"m", False)]
        channel.basic_publish("", "other", b"n", pika.BasicProperties(delivery_mode=PERSISTENT))
    # It left the schedule when it came to its queues: not again after another kill.
    with living(nursery, tmp_path / "data") as channel:
        assert [body for body, _ in take(channel, "other", 2)] == [b"m", b"n"]
        assert take(channel, "due", 1, 0.3) == []
