"""Readers of a stream on disk, as clients: what they get in runs, and what they leave open when they go."""

from __future__ import annotations

import struct

import pytest

from tests.broker.harness import START, ChannelClient, PlainHasher, Seen, World, frame
from tests.store.simulated_disk import SimulatedDisk
from tests.store.test_stream_runs import rows_in, wire_of
from warren.amqp import methods
from warren.amqp.fields import Field, Table
from warren.amqp.stream_run import RUN_EXCHANGE, RUN_HEAD_SIZE, RUNS_ARGUMENT, StreamRun
from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.operate.first_start import make_defaults
from warren.broker.stream.stream import READER_BYTES, Stream
from warren.broker.stream.stream_consumer import RUN_BYTES
from warren.store.log import LogStore
from warren.store.recovery import recover
from warren.store.stream_rows import StreamRows

COUNT = 60


class DiskWorld(World):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.log: LogStore = recover(self.disk)
        self.node = Node(self.host, self.settings, None, self.log, START)
        make_defaults(self.node, PlainHasher())
        self.vhost = self.node.vhosts["/"]

    def sync(self, position: int | None = None) -> None:
        while self.log.has_work():
            job = self.log.begin_sync()
            if job is not None:
                job.run(self.disk)
                self.log.sync_done(job)
            while (chore := self.log.next_chore()) is not None:
                chore.run(self.disk)
                self.log.chore_done(chore)
            self.host.woken = True
            self.flush()

    def stream(self) -> Stream:
        found = self.queue("s")
        assert isinstance(found, Stream)
        return found


@pytest.fixture
def world() -> DiskWorld:
    return DiskWorld()


def fill(world: DiskWorld, count: int, size: int) -> None:
    channel = world.channel()
    channel.declare("s", durable=True, x_queue_type="stream", more={"x-stream-max-segment-size-bytes": 20_000})
    for number in range(count):
        channel.publish(f"{number}:" + "x" * size, "s")
        world.sync()


def consume(world: DiskWorld, prefetch: int, in_runs: bool = True, offset: int = 0) -> ChannelClient:
    reader = world.channel()
    reader.qos(prefetch)
    table: Table = {"x-stream-offset": Field("l", offset)}
    if in_runs:
        table[RUNS_ARGUMENT] = Field("t", value=True)
    reader.send(methods.BasicConsume(queue="s", consumer_tag="c", no_wait=True, arguments=table))
    return reader


def is_run(seen: Seen) -> bool:
    return seen.exchange.encode() == RUN_EXCHANGE


def places_in(deliveries: list[Seen]) -> list[int]:
    """The offsets of all messages, whether they came alone or in runs."""
    found: list[int] = []
    for seen in deliveries:
        if not is_run(seen):
            offset = seen.received.header("x-stream-offset")
            assert isinstance(offset, int)
            found.append(offset)
            continue
        version, seed, position = struct.unpack(">HIQ", seen.body[:RUN_HEAD_SIZE])
        assert version == 1
        rows, wire = StreamRows(), wire_of(StreamRun(seen.body[RUN_HEAD_SIZE:], seed, position, 0), seen.tag)
        assert rows.take(wire, 0, 1 << 20) == len(wire)
        assert not rows.is_damaged
        found += [place for place, _ in rows_in(rows)]
    return found


def test_a_run_counts_as_many_messages_as_are_in_it(world: DiskWorld) -> None:
    fill(world, COUNT, 100)
    reader = consume(world, 25)
    stream, found = world.stream(), 0
    while found < COUNT:
        deliveries = reader.deliveries()
        assert any(map(is_run, deliveries))
        places = places_in(deliveries)
        assert places == list(range(found, min(found + 25, COUNT)))
        found += len(places)
        assert (stream.counters.delivered, stream.unacked) == (found, len(places))
        reader.ack(deliveries[-1].tag, multiple=True)
        assert stream.counters.acked == found
    assert stream.unacked == 0


def test_who_takes_runs_has_no_more_than_its_share_of_a_turn(world: DiskWorld) -> None:
    fill(world, 400, 8000)
    reader = world.channel()
    reader.qos(1000)
    table: Table = {"x-stream-offset": Field("l", 0), RUNS_ARGUMENT: Field("t", value=True)}
    consumed = methods.BasicConsume(queue="s", consumer_tag="c", no_wait=True, arguments=table)
    reader.client.connection.feed(frame(consumed, reader.number))
    world.node.flush()
    reader.client.receive()
    first = places_in(reader.deliveries())
    assert READER_BYTES < len(first) * 8000 < READER_BYTES + RUN_BYTES
    world.flush()
    assert first + places_in(reader.deliveries()) == list(range(400))


def test_who_does_not_ask_for_runs_gets_none(world: DiskWorld) -> None:
    fill(world, COUNT, 100)
    deliveries = consume(world, 1000, in_runs=False).deliveries()
    assert not any(map(is_run, deliveries))
    assert places_in(deliveries) == list(range(COUNT))


def test_who_watches_sees_every_message(world: DiskWorld) -> None:
    fill(world, COUNT, 100)
    channel = world.channel()
    channel.declare("firehose")
    channel.bind("firehose", "amq.rabbitmq.trace", "deliver.#")
    administer.set_tracing(world.node, "/", True)
    deliveries = consume(world, 1000).deliveries()
    administer.set_tracing(world.node, "/", False)
    assert places_in(deliveries) == list(range(COUNT))
    assert world.queue("firehose").backing.length == COUNT


@pytest.mark.parametrize("way", ["cancel", "lose", "delete"])
def test_a_reader_that_goes_leaves_no_file_open(world: DiskWorld, way: str) -> None:
    # More than is in memory as well.
    fill(world, 200, 5000)
    handles = len(world.disk.handles)
    readers = [consume(world, 2, offset=offset) for offset in (0, 20, 40)]
    assert len(world.disk.handles) == handles + 3
    for reader in readers:
        reader.take()
        if way == "cancel":
            reader.cancel("c")
        elif way == "lose":
            reader.client.lose()
    if way == "delete":
        world.channel().call(methods.QueueDelete(queue="s"), methods.QueueDeleteOk)
        world.sync()
        # Nor is anything left of it but the log of queues.
        assert [name for name in world.disk.names() if not name.endswith((".log", ".index"))] == []
        handles = 1
    assert len(world.disk.handles) == handles
