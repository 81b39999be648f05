"""A reader by sequence number, as a client does it: browse, settle up to where it is done, go on after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from warren import Broker

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(params=["memory", "disk"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=str(tmp_path / "data") if request.param == "disk" else "") as broker:
        yield broker


def open_channel(broker: Broker) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
    channel.confirm_delivery()
    return channel


def read(channel: BlockingChannel, count: int, **arguments: object) -> list[tuple[int, bytes]]:
    channel.basic_qos(prefetch_count=100)
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    found: list[tuple[int, bytes]] = []
    deliveries = channel.consume("q", exclusive=True, arguments=table, inactivity_timeout=5 if count else 0.2)
    for method, properties, body in deliveries:
        if method is None:
            break
        found.append((properties.headers["x-sequence"], body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_a_reader_by_sequence_reads_again_and_settles_what_it_is_done_with(broker: Broker) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    for number in range(20_000 // 10):
        channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
    first = read(channel, 1000, x_browse=True)
    assert first == read(channel, 1000, x_browse=True)
    assert [body for _, body in first] == [b"%d" % number for number in range(1000)]
    rest = read(channel, 1000, x_settle_to=first[-1][0])
    assert [body for _, body in rest] == [b"%d" % number for number in range(1000, 2000)]
    assert channel.queue_declare("q", passive=True).method.message_count == 1000
    assert read(channel, 0, x_settle_to=rest[-1][0]) == []
    assert channel.queue_declare("q", passive=True).method.message_count == 0
    channel.connection.close()


def test_settling_and_sequences_survive_a_restart(tmp_path: Path) -> None:
    last = 0
    for life in range(3):
        with Broker(data_dir=str(tmp_path)) as broker:
            channel = open_channel(broker)
            channel.queue_declare("q", durable=True)
            for number in range(10):
                channel.basic_publish("", "q", b"%d.%d" % (life, number), PERSISTENT)
            before = 3 if life else 0
            found = read(channel, before + 10, x_browse=True)
            assert [body for _, body in found[-10:]] == [b"%d.%d" % (life, number) for number in range(10)]
            assert found[before][0] > last
            last = found[-1][0]
            # Three are left for the next life.
            read(channel, 0, x_settle_to=found[-4][0])
            channel.connection.close()
