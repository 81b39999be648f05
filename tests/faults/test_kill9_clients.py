"""Clients that die: in the middle of a message, and with messages in their hands."""

from __future__ import annotations

import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kill9_broker import Broker, Nursery
from tests.faults.kill9_client import Client, identity_of, publish_frames
from warren.amqp import methods

DEATHS = 150


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Nursery() as nursery:
        broker = nursery.start(tmp_path / "data", "--disk-free-limit", "0")
        broker.wait_ready()
        yield broker
        broker.kill()


def die(client: Client) -> None:
    """With a reset, as a killed machine's peer would see it, not with an orderly end."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def open_files(broker: Broker) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def wait_for_files(broker: Broker, most: int) -> None:
    deadline = time.monotonic() + 20
    while open_files(broker) > most:
        assert time.monotonic() < deadline, f"{open_files(broker)} files are open, {most} were at first"
        time.sleep(0.01)


def test_a_publisher_that_dies_in_a_message_leaves_nothing_of_it(broker: Broker) -> None:
    rng = random.Random(11)
    with Client(broker.port) as observer:
        observer.declare("q")
        observer.declare("r")
        observer.declare_exchange("fan", "fanout")
        observer.bind("q", "fan")
        observer.bind("r", "fan")
        files = open_files(broker)
        for number in range(DEATHS):
            client = Client(broker.port)
            message = publish_frames("fan", "", f"p-{number}", rng.randbytes(rng.choice([10, 1000, 300_000])))
            client.send(message[: rng.randrange(1, len(message))])
            if rng.random() < 0.5:
                die(client)
            client.close()
        wait_for_files(broker, files)
        assert observer.declare("q", passive=True) == observer.declare("r", passive=True) == 0
        assert "Traceback" not in broker.text()


def test_what_a_dead_consumer_held_comes_again_in_order_and_flagged(broker: Broker) -> None:
    with Client(broker.port) as observer:
        observer.declare("q")
        observer.confirm_select()
        files = open_files(broker)
        for number in range(50):
            observer.send(publish_frames("", "q", f"p-{number}", b"x"))
            observer.wait_for(methods.BasicAck)
        for _ in range(DEATHS // 10):
            client = Client(broker.port)
            client.qos(30)
            client.consume("q")
            client.wait_for(methods.BasicDeliver)
            die(client)
        wait_for_files(broker, files)
        observer.consume("q")
        events = [observer.wait_for(methods.BasicDeliver) for _ in range(50)]
    assert [identity_of(event) for event in events] == [f"p-{number}" for number in range(50)]
    deliveries = [event.method for event in events if isinstance(event.method, methods.BasicDeliver)]
    assert all(deliver.redelivered for deliver in deliveries[:30])
    assert not any(deliver.redelivered for deliver in deliveries[30:])
