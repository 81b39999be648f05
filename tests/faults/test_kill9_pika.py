"""The kill test with a foreign client: pika publishes, confirms, consumes and acks; brokers are command-line ones."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.faults.checker import check
from tests.faults.history import History, body_for
from tests.faults.kill9_broker import spawn

ROUNDS = 4
# Confirms before a round's kill.
ENOUGH = 10
LARGEST = 200_000
QUEUE = "q"
OPTIONS = ("--store-segment-bytes", "262144", "--disk-free-limit", "0")
GONE = (pika.exceptions.AMQPError, OSError)


def connect(port: int) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))


def publish(port: int, history: History, name: str, first: int) -> None:
    """One at a time: pika waits for each confirm."""
    try:
        channel = connect(port).channel()
        channel.confirm_delivery()
        for number in range(1, 1_000_000):
            identity = f"p-{first + number}"
            history.publish(name, number, identity, (QUEUE,))
            properties = pika.BasicProperties(delivery_mode=2, message_id=identity)
            channel.basic_publish("", QUEUE, body_for(identity, LARGEST), properties, mandatory=True)
            history.confirm(name, number, False)
    except GONE:
        return


def consume(port: int, history: History, name: str, until_empty: bool = False) -> None:
    try:
        connection = connect(port)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        settled = 0
        for method, properties, body in channel.consume(QUEUE, inactivity_timeout=0.2):
            if method is None:
                if until_empty:
                    break
                continue
            identity = properties.message_id
            history.deliver(name, QUEUE, identity, method.redelivered, body == body_for(identity, LARGEST))
            history.settle("ack", name, QUEUE, identity)
            channel.basic_ack(method.delivery_tag)
            settled += 1
            if settled % 10 == 0:
                channel.basic_qos(prefetch_count=20)
                history.fence(name, settled)
        connection.close()
    except GONE:
        return


def wait_for_confirms(history: History, name: str, count: int) -> None:
    deadline = time.monotonic() + 30
    while sum(op.kind == "confirm" and op.channel == name for op in list(history.ops)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_pika_loses_nothing_when_the_broker_is_killed(tmp_path: Path) -> None:
    rng, history = random.Random(7), History(7)
    for round_number in range(ROUNDS):
        broker = spawn(tmp_path / "data", *OPTIONS)
        port = broker.wait_ready()
        if round_number == 0:
            with connect(port) as connection:
                connection.channel().queue_declare(QUEUE, durable=True)
        first = round_number * 1_000_000
        clients = [
            threading.Thread(target=publish, args=(port, history, f"p{round_number}", first)),
            threading.Thread(target=consume, args=(port, history, f"c{round_number}")),
        ]
        for client in clients:
            client.start()
        wait_for_confirms(history, f"p{round_number}", ENOUGH)
        time.sleep(rng.uniform(0.0, 0.4))
        broker.kill()
        for client in clients:
            client.join(30)
    broker = spawn(tmp_path / "data", *OPTIONS)
    history.draining()
    consume(broker.wait_ready(), history, "drain", until_empty=True)
    broker.kill()
    verdict = check(history)
    assert verdict.is_good(), verdict.violations()
    assert verdict.confirmed >= ENOUGH * ROUNDS
