"""Every byte that is held for a peer is counted: bodies without an end, answers that nobody reads, what waits for the
disk."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, FakeStore, World, frame, publish_frames
from warren.amqp import methods
from warren.amqp.properties import Properties
from warren.broker.session.credit import CREDIT_BYTES, INITIAL
from warren.broker.settings import MIB, Settings

KIB = 1024
LIMITS = Settings(unfinished_max=MIB, unread_max=256 * KIB, unread_timeout_ms=60_000)


@pytest.fixture
def small() -> World:
    return World(LIMITS)


# The body of one frame. Of a message of two, the first is sent.
HALF = 131_072 - 8


def halves(channel: int, exchange: str = "") -> tuple[bytes, bytes]:
    data = publish_frames(channel, bytes(2 * HALF), "q", exchange)
    return data[: -HALF - 8], data[-HALF - 8 :]


# -- bodies whose rest is still to come --------------------------------------------------------------------------------


def unfinished(world: World) -> tuple[int, int]:
    """On the node, and on its connections: one number, told twice."""
    return world.node.unfinished, sum(each.unfinished for each in world.node.connections.values())


def test_unfinished_bodies_are_counted_until_they_are_whole_or_given_up(small: World) -> None:
    client = small.connect()
    for number in (1, 2, 3):
        client.channel(number)
        client.feed(halves(number)[0])
    assert unfinished(small) == (3 * HALF, 3 * HALF)
    client.feed(halves(1)[1])
    assert unfinished(small) == (2 * HALF, 2 * HALF)
    client.lose()
    assert small.node.unfinished == 0


def test_the_connection_with_most_unfinished_bytes_is_closed_and_others_go_on(small: World) -> None:
    honest, greedy = small.channel(), small.connect()
    honest.declare("q")
    first, rest = halves(1)
    honest.client.feed(first)
    for number in range(1, 9):
        greedy.channel(number)
        assert greedy.connection.stage == "running"
        greedy.feed(halves(number)[0])
    assert greedy.expect_close() == (
        506,
        f"RESOURCE_ERROR - too many bytes of unfinished or uncommitted messages ({8 * HALF})",
    )
    honest.client.feed(rest)
    assert honest.bodies_in("q") == [bytes(2 * HALF)]
    assert unfinished(small) == (0, 0)


def test_a_transaction_counts_until_it_is_committed_or_given_up(small: World) -> None:
    channel = small.channel()
    channel.declare("q")
    channel.send(methods.TxSelect())
    for end in (methods.TxCommit(), methods.TxRollback()):
        for _ in range(3):
            channel.publish(bytes(1000), "q")
        assert small.node.unfinished == channel.client.connection.unfinished == 3 * (1000 + 512)
        channel.send(end)
        assert unfinished(small) == (0, 0)
    channel.publish(bytes(1000), "q")
    channel.client.lose()
    assert small.node.unfinished == 0


def test_a_transaction_that_grows_for_ever_is_ended(small: World) -> None:
    channel = small.channel()
    channel.declare("q")
    channel.send(methods.TxSelect())
    channel.client.feed(publish_frames(1, b"", "q") * 2100)
    code, text = channel.client.expect_close()
    assert (code, text.split("(")[0]) == (506, "RESOURCE_ERROR - too many bytes of unfinished or uncommitted messages ")
    assert small.queue("q").backing.length == 0
    assert unfinished(small) == (0, 0)


def test_who_may_not_write_is_refused_before_the_body_is_collected(small: World) -> None:
    small.add_user("reader", write="")
    client = small.connect("reader")
    channel = client.channel(1)
    client.feed(halves(1, "amq.fanout")[0])
    assert channel.expect_close() == (
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.fanout' in vhost '/' refused for user 'reader'",
    )
    assert small.node.unfinished == 0


# -- answers that nobody reads -----------------------------------------------------------------------------------------


def test_who_does_not_read_what_it_gets_is_not_read_either(small: World) -> None:
    channel = small.channel()
    channel.declare("q")
    channel.publish(bytes(100 * KIB), "q")
    channel.client.connection.pause_writing()
    again = frame(methods.BasicGet(queue="q"), 1) + frame(methods.BasicNack(0, True, True), 1)
    channel.client.feed(again * 300)
    connection = channel.client.connection
    assert not channel.client.wire.is_reading()
    assert connection.state == "flow"
    assert small.queue("q").counters.got == 3
    assert len(channel.client.wire.written) + connection.pending_output < LIMITS.unread_max + 110 * KIB
    # It reads them after all: the rest is handled, as much at a time.
    for _ in range(200):
        connection.resume_writing()
        small.flush()
    assert channel.client.wire.is_reading()
    assert small.queue("q").counters.got == 300


def test_all_who_do_not_read_have_one_limit_together() -> None:
    world = World(Settings(unread_max=8 * MIB, unread_total_max=4 * MIB))
    again = frame(methods.BasicGet(queue="q"), 1) + frame(methods.BasicNack(0, True, True), 1)
    channel = world.channel()
    channel.declare("q")
    for _ in range(10):
        channel.publish(bytes(100 * KIB), "q")
    silent = [world.channel() for _ in range(8)]
    for each in silent:
        each.client.connection.pause_writing()
        each.client.feed(again * 100)
        assert not each.client.wire.is_reading()
    # Whoever came before, each may have a little.
    assert 4 * MIB < world.node.unread < 4 * MIB + 8 * (MIB + 110 * KIB)
    # Who asks for little is served.
    channel.client.feed(frame(methods.BasicGet(queue="q"), 1))
    assert channel.client.wire.is_reading()
    silent[0].client.lose()
    for _ in range(100):
        for each in silent[1:]:
            each.client.connection.resume_writing()
        world.flush()
    assert all(each.client.wire.is_reading() for each in silent[1:])
    assert world.node.unread == 0


def test_returns_that_are_not_read_hold_the_publisher(small: World) -> None:
    channel = small.channel()
    channel.client.connection.pause_writing()
    channel.client.feed(publish_frames(1, bytes(50 * KIB), "nowhere", mandatory=True) * 100)
    assert not channel.client.wire.is_reading()
    assert small.node.counters.returned == 6


def test_replies_are_not_kept_for_who_does_not_read_them(small: World) -> None:
    asker, server = small.channel(), small.channel()
    asker.consume("amq.rabbitmq.reply-to", no_ack=True)
    address = next(iter(small.node.reply_channels))
    asker.client.connection.pause_writing()
    for _ in range(10):
        server.publish(bytes(100 * KIB), address, mandatory=True)
    assert small.node.counters.returned == 7
    assert server.client.wire.is_reading()
    asker.client.connection.resume_writing()
    server.publish("small", address, mandatory=True)
    assert small.node.counters.returned == 7


def test_who_leaves_answers_unread_for_too_long_is_closed(small: World) -> None:
    channel = small.channel()
    channel.client.connection.pause_writing()
    channel.client.feed(publish_frames(1, bytes(50 * KIB), "nowhere", mandatory=True) * 100)
    small.advance(59_999)
    assert channel.client.connection.stage == "running"
    small.advance(1)
    small.flush()
    assert channel.client.wire.is_closed()


def test_who_reads_in_time_is_not_closed(small: World) -> None:
    channel = small.channel()
    channel.client.connection.pause_writing()
    channel.client.feed(publish_frames(1, bytes(50 * KIB), "nowhere", mandatory=True) * 6)
    assert not channel.client.wire.is_reading()
    channel.client.connection.resume_writing()
    small.advance(120_000)
    small.flush()
    assert channel.client.wire.is_reading()
    assert not channel.client.wire.is_closed()


def test_a_consumer_that_reads_slowly_is_waited_for(small: World) -> None:
    """Deliveries stop when there is no room, so there is nothing to punish."""
    channel = small.channel()
    channel.declare("q")
    channel.consume("q")
    channel.client.connection.pause_writing()
    for _ in range(20):
        small.channel().publish(bytes(100 * KIB), "q")
    small.advance(600_000)
    assert channel.client.connection.stage == "running"
    assert channel.client.wire.is_reading()


# -- what waits for the disk -------------------------------------------------------------------------------------------


@pytest.fixture
def publisher(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("q", durable=True)
    world.store.holds = True
    world.store.behind = True
    return channel


def publish_persistent(channel: ChannelClient, size: int, count: int) -> None:
    channel.client.feed(publish_frames(1, bytes(size), "q", properties=Properties(delivery_mode=2)) * count)


def test_a_large_message_costs_as_much_credit_as_it_has_bytes(world: World, publisher: ChannelClient) -> None:
    publish_persistent(publisher, MIB, 20)
    assert not publisher.client.wire.is_reading()
    assert publisher.client.connection.state == "flow"
    cost = 1 + MIB // CREDIT_BYTES
    assert world.queue("q").backing.length == -(-INITIAL // cost) == 7


def test_a_store_that_is_swamped_takes_one_message_of_a_channel(
    world: World, publisher: ChannelClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeStore, "is_swamped", lambda self: True)
    publish_persistent(publisher, 10, 20)
    assert world.queue("q").backing.length == 1
    assert not publisher.client.wire.is_reading()
