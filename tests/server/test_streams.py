"""Streams as clients see them, in memory and on disk: read, read again, restart, read on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from warren import Broker

STREAM: dict[str, object] = {"x-queue-type": "stream"}
SMALL: dict[str, object] = {**STREAM, "x-stream-max-segment-size-bytes": 4000}


@pytest.fixture(params=["memory", "disk"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    data_dir = str(tmp_path / "data") if request.param == "disk" else ""
    with Broker(data_dir=data_dir, http=True) as broker:
        yield broker


def open_channel(broker: Broker) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
    channel.confirm_delivery()
    return channel


def read(channel: BlockingChannel, offset: object, count: int, queue: str = "s") -> list[tuple[int, bytes]]:
    """So many messages from there on; what comes within a second counts."""
    channel.basic_qos(prefetch_count=20)
    found: list[tuple[int, bytes]] = []
    for method, properties, body in channel.consume(queue, arguments={"x-stream-offset": offset}, inactivity_timeout=1):
        if method is None:
            break
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def numbered(first: int, end: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(first, end)]


def fill(channel: BlockingChannel, first: int, end: int, queue: str = "s") -> None:
    for number in range(first, end):
        channel.basic_publish("", queue, b"%d" % number)


def test_pika_reads_a_stream_from_anywhere_as_often_as_it_likes(broker: Broker) -> None:
    channel = open_channel(broker)
    channel.queue_declare("s", durable=True, arguments=SMALL)
    fill(channel, 0, 200)
    assert read(channel, "first", 200) == numbered(0, 200)
    assert read(channel, 150, 50) == numbered(150, 200)
    assert read(channel, "last", 1) == numbered(199, 200)
    assert read(channel, "1h", 200) == numbered(0, 200)
    assert channel.queue_declare("s", passive=True).method.message_count == 200
    channel.connection.close()


def test_a_reader_at_the_end_is_told_of_what_comes(broker: Broker) -> None:
    reader, publisher = open_channel(broker), open_channel(broker)
    reader.queue_declare("s", durable=True, arguments=STREAM)
    reader.basic_qos(prefetch_count=10)
    deliveries = reader.consume("s", arguments={"x-stream-offset": "next"}, inactivity_timeout=5)
    later = threading.Timer(0.2, lambda: publisher.basic_publish("", "s", b"hello"))
    later.start()
    method, properties, body = next(deliveries)
    assert method is not None
    assert (properties.headers["x-stream-offset"], body) == (0, b"hello")
    # It may still wait for its confirm.
    later.join()
    reader.connection.close()
    publisher.connection.close()


def test_aio_pika_reads_a_stream(broker: Broker) -> None:
    async def work() -> list[bytes]:
        connection = await aio_pika.connect(broker.url)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=5)
            queue = await channel.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
            for number in range(20):
                await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), "s")
            found: list[bytes] = []
            async with queue.iterator(arguments={"x-stream-offset": 5}, timeout=10) as messages:
                async for message in messages:
                    assert message.headers["x-stream-offset"] == 5 + len(found)
                    found.append(message.body)
                    await message.ack()
                    if len(found) == 15:
                        break
            return found

    assert asyncio.run(work()) == [b"%d" % number for number in range(5, 20)]


def test_a_message_larger_than_a_block_and_many_small_ones_come_whole(broker: Broker) -> None:
    channel = open_channel(broker)
    channel.queue_declare("s", durable=True, arguments=STREAM)
    bodies = [bytes([number]) * size for number, size in enumerate((10, 700_000, 0, 131_064, 300_000, 5))]
    for body in bodies:
        channel.basic_publish("", "s", body)
    assert [body for _, body in read(channel, "first", len(bodies))] == bodies
    channel.connection.close()


def test_a_stream_survives_a_restart_and_counts_on(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)) as broker:
        channel = open_channel(broker)
        channel.queue_declare("s", durable=True, arguments=SMALL)
        # Transient ones too: a stream keeps everything.
        fill(channel, 0, 100)
        channel.connection.close()
    for life in range(1, 4):
        with Broker(data_dir=str(tmp_path)) as broker:
            channel = open_channel(broker)
            assert channel.queue_declare("s", passive=True).method.message_count == 100 + (life - 1) * 10
            fill(channel, 90 + life * 10, 100 + life * 10)
            assert read(channel, "first", 100 + life * 10) == numbered(0, 100 + life * 10)
            assert read(channel, "last", 1) == numbered(99 + life * 10, 100 + life * 10)
            channel.connection.close()


def test_retention_removes_files_and_a_deleted_stream_leaves_none(tmp_path: Path) -> None:
    messages = tmp_path / "messages"
    with Broker(data_dir=str(tmp_path)) as broker:
        channel = open_channel(broker)
        channel.queue_declare("s", durable=True, arguments={**SMALL, "x-max-length-bytes": 12_000})
        for _ in range(300):
            channel.basic_publish("", "s", bytes(200))
        found = read(channel, "first", 1)
        assert found[0][0] > 200
        channel.connection.close()
    assert sum(path.stat().st_size for path in messages.glob("*.stream")) < 24_000
    with Broker(data_dir=str(tmp_path)) as broker:
        channel = open_channel(broker)
        assert read(channel, 0, 1)[0][0] == found[0][0]
        channel.queue_delete("s")
        channel.connection.close()
    assert list(messages.glob("*.stream*")) == []


def test_ten_readers_replay_while_others_publish(broker: Broker) -> None:
    channel = open_channel(broker)
    channel.queue_declare("s", durable=True, arguments=STREAM)
    for _ in range(200):
        channel.basic_publish("", "s", bytes(2000))
    results: list[list[tuple[int, bytes]]] = []

    def replay() -> None:
        reader = open_channel(broker)
        results.append(read(reader, "first", 300))
        reader.connection.close()

    threads = [threading.Thread(target=replay) for _ in range(10)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        channel.basic_publish("", "s", bytes(2000))
    for thread in threads:
        thread.join()
    assert [[offset for offset, _ in found] for found in results] == [list(range(300))] * 10
    channel.connection.close()
