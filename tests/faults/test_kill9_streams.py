"""Brokers killed under a stream and under a reader by sequence: offsets and sequences keep what they stood for."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.faults.kill9_broker import spawn

ROUNDS = 4
OPTIONS = ("--store-segment-bytes", "65536", "--disk-free-limit", "0")
STREAM: dict[str, object] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 20_000}
GONE = (pika.exceptions.AMQPError, OSError)
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def connect(port: int) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))


def publish(port: int, exchange: str, name: str, confirmed: list[bytes]) -> None:
    try:
        channel = connect(port).channel()
        channel.confirm_delivery()
        for number in range(1_000_000):
            body = f"{name}.{number}:".encode() + b"x" * random.choice((5, 100, 3000))
            channel.basic_publish(exchange, "", body, PERSISTENT)
            confirmed.append(body)
    except GONE:
        return


def read_stream(port: int, shown: list[tuple[int, bytes]], count: int = 0) -> None:
    """Until the broker goes, or so many have come."""
    try:
        connection = connect(port)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=50)
        for method, properties, body in channel.consume("s", arguments={"x-stream-offset": "first"}):
            assert method is not None
            shown.append((properties.headers["x-stream-offset"], body))
            channel.basic_ack(method.delivery_tag)
            if len(shown) == count:
                break
        connection.close()
    except GONE:
        return


def read_queue(port: int, batches: list[list[tuple[int, bytes]]], is_last: bool = False) -> None:
    """As a pipeline does: read a batch, keep it, and only then let the broker forget it."""
    try:
        connection = connect(port)
        channel = connection.channel()
        while True:
            settled = {"x-settle-to": batches[-1][-1][0]} if batches else {"x-browse": True}
            channel.basic_qos(prefetch_count=50)
            batch: list[tuple[int, bytes]] = []
            for method, properties, body in channel.consume(
                "q", exclusive=True, arguments=settled, inactivity_timeout=0.5 if is_last else 0.02
            ):
                if method is None:
                    break
                batch.append((properties.headers["x-sequence"], body))
                channel.basic_ack(method.delivery_tag)
                if len(batch) == 40:
                    break
            channel.cancel()
            if batch:
                batches.append(batch)
            elif is_last:
                connection.close()
                return
    except GONE:
        return


def until_grown(seen: Sequence[object], size: int) -> None:
    """A machine may be busy: a round in which nothing happened shows nothing."""
    deadline = time.monotonic() + 20
    while len(seen) <= size and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_streams_and_readers_by_sequence_survive_kills(tmp_path: Path) -> None:
    rng = random.Random(7)
    confirmed: list[bytes] = []
    shown: list[list[tuple[int, bytes]]] = []
    batches: list[list[tuple[int, bytes]]] = []
    for number in range(ROUNDS):
        broker = spawn(tmp_path / "data", *OPTIONS)
        port = broker.wait_ready()
        if number == 0:
            with connect(port) as connection:
                channel = connection.channel()
                channel.queue_declare("s", durable=True, arguments=STREAM)
                channel.queue_declare("q", durable=True)
                for name in ("s", "q"):
                    channel.queue_bind(name, "amq.fanout")
        shown.append([])
        already = len(batches)
        clients = [
            threading.Thread(target=publish, args=(port, "amq.fanout", f"p{number}", confirmed)),
            threading.Thread(target=read_stream, args=(port, shown[-1])),
            threading.Thread(target=read_queue, args=(port, batches)),
        ]
        for client in clients:
            client.start()
        until_grown(shown[-1], 0)
        until_grown(batches, already)
        time.sleep(rng.uniform(0.0, 0.5))
        broker.kill()
        for client in clients:
            client.join()
    broker = spawn(tmp_path / "data", *OPTIONS)
    port = broker.wait_ready()
    with connect(port) as connection:
        count = connection.channel().queue_declare("s", passive=True).method.message_count
    final: list[tuple[int, bytes]] = []
    read_stream(port, final, count)
    read_queue(port, batches, is_last=True)
    broker.kill()
    assert [offset for offset, _ in final] == list(range(count))
    assert set(confirmed) <= {body for _, body in final}
    assert len({body for _, body in final}) == count
    at = dict(final)
    assert [(offset, body) for life in shown for offset, body in life if at.get(offset) != body] == []
    assert min(len(life) for life in shown) > 0
    check_batches(batches, confirmed)


def check_batches(batches: list[list[tuple[int, bytes]]], confirmed: list[bytes]) -> None:
    """Each message came in one batch, under a sequence that only grows."""
    sequences = [sequence for batch in batches for sequence, _ in batch]
    bodies = [body for batch in batches for _, body in batch]
    assert sequences == sorted(set(sequences))
    assert len(set(bodies)) == len(bodies)
    assert set(confirmed) <= set(bodies)
    assert len(batches) > ROUNDS
