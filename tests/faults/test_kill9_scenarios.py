"""Kills at moments that chance seldom finds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kill9_broker import Nursery
from tests.faults.kill9_client import Client, publish_frames
from warren.amqp import methods
from warren.client.session import Received, frame_of

SMALL = ("--store-segment-bytes", "4096", "--disk-free-limit", "0")


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


def publish(client: Client, queue: str, count: int, size: int = 500) -> None:
    for number in range(count):
        client.send(publish_frames("", queue, f"p-{number}", bytes(size)))
    confirmed = 0
    while confirmed < count:
        answer = client.wait_for(methods.BasicAck).method
        assert isinstance(answer, methods.BasicAck)
        confirmed = answer.delivery_tag - client.published if answer.multiple else confirmed + 1
    client.published += count


def get(client: Client, queue: str) -> Received:
    client.send(frame_of(methods.BasicGet(queue=queue)))
    return client.wait_for(methods.BasicGetOk)


def ack(client: Client, event: Received) -> None:
    assert isinstance(event.method, methods.BasicGetOk)
    client.send(frame_of(methods.BasicAck(event.method.delivery_tag, False)))


def segments(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "messages").glob("*.log"))


def wait_until_gone(client: Client, data_dir: Path, name: str) -> None:
    """File work is done between turns: keep turns coming, for as long as a slow disk may need."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if name not in segments(data_dir):
            return
        client.qos(0)
    raise AssertionError(f"not deleted: {segments(data_dir)}")


def test_what_was_delivered_is_flagged_although_the_segment_that_noted_it_is_gone(
    nursery: Nursery, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    broker = nursery.start(data_dir, *SMALL)
    with Client(broker.wait_ready()) as client:
        client.confirm_select()
        client.declare("held")
        client.declare("busy")
        # Enough to fill a segment of their own, which is therefore never compacted.
        publish(client, "held", 10)
        get(client, "held")
        publish(client, "busy", 20)
        for _ in range(20):
            ack(client, get(client, "busy"))
        # More segments than any compaction leaves alone.
        for _ in range(40):
            publish(client, "busy", 1)
            ack(client, get(client, "busy"))
        client.qos(0)
        wait_until_gone(client, data_dir, "000000000003.log")
        broker.kill()
    again = nursery.start(data_dir, *SMALL)
    with Client(again.wait_ready()) as client:
        event = get(client, "held")
        assert isinstance(event.method, methods.BasicGetOk)
        assert event.method.redelivered
        again.kill()


def count_of(event: Received) -> object:
    count = (event.properties.headers or {}).get("x-delivery-count")
    return 0 if count is None else count.value


def test_a_limit_of_deliveries_is_obeyed_however_often_the_broker_is_killed(nursery: Nursery, tmp_path: Path) -> None:
    limit = 4
    poison = {
        "x-queue-type": "quorum",
        "x-delivery-limit": limit,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    for returned in range(limit + 1):
        broker = nursery.start(tmp_path / "data", *SMALL)
        with Client(broker.wait_ready()) as client:
            client.confirm_select()
            client.declare("dead")
            client.declare("poison", poison)
            if returned == 0:
                publish(client, "poison", 1)
            event = get(client, "poison")
            assert count_of(event) == returned
            assert isinstance(event.method, methods.BasicGetOk)
            assert event.method.redelivered == (returned > 0)
            client.send(frame_of(methods.BasicNack(event.method.delivery_tag, False, True)))
            if returned < limit:
                # It is with a client again when the broker is killed, which is nobody's fault and not counted.
                assert count_of(get(client, "poison")) == returned + 1
            else:
                assert (client.declare("poison", poison), client.declare("dead")) == (0, 1)
            broker.kill()
    broker = nursery.start(tmp_path / "data", *SMALL)
    with Client(broker.wait_ready()) as client:
        assert (client.declare("poison", poison), client.declare("dead")) == (0, 1)
        broker.kill()


def test_space_is_reclaimed_while_publishing_never_pauses(nursery: Nursery, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    broker = nursery.start(data_dir, "--store-segment-bytes", "65536", "--disk-free-limit", "0")
    most = 0
    with Client(broker.wait_ready()) as publisher, Client(broker.port) as consumer:
        publisher.confirm_select()
        publisher.declare("q")
        consumer.qos(500)
        consumer.consume("q")
        batch = b"".join(publish_frames("", "q", "p-1", bytes(1000)) for _ in range(100))
        for _ in range(150):
            publisher.send(batch)
            publisher.receive(0)
            consumer.receive(0.05)
            acks = [event.method for event in consumer.events if isinstance(event.method, methods.BasicDeliver)]
            consumer.events.clear()
            if acks:
                consumer.send(frame_of(methods.BasicAck(acks[-1].delivery_tag, True)))
            most = max(most, len(segments(data_dir)))
        broker.kill()
    # 15 MB went through segments of 64 KB.
    assert most < 60
