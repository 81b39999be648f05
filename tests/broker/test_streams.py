"""Streams: what is published stays, everybody reads where they like, and an ack is worth one more delivery."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, Seen, World, frame, publish_frames
from tests.broker.test_extensions import Listening
from warren.amqp import methods
from warren.amqp.fields import Field, Table, table_of
from warren.amqp.properties import Properties
from warren.broker.operate import administer
from warren.broker.stream.stream import LIVE_TURN_BYTES, READER_BYTES, TURN_BYTES, Stream

LATER = 60_000


def declare(channel: ChannelClient, name: str = "s", **arguments: object) -> None:
    more = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare(name, durable=True, x_queue_type="stream", more=more)


def fill(channel: ChannelClient, count: int, name: str = "s", first: int = 0) -> None:
    for number in range(first, first + count):
        channel.publish(f"m{number}", name)


def consume(channel: ChannelClient, **arguments: Field) -> None:
    table: Table = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call(methods.BasicConsume(queue="s", consumer_tag="c", arguments=table), methods.BasicConsumeOk)


def read(world: World, offset: Field, **arguments: Field) -> list[Seen]:
    """What a new reader with room for everything gets."""
    reader = world.channel()
    reader.qos(1000)
    consume(reader, x_stream_offset=offset, **arguments)
    seen = reader.deliveries()
    reader.client.lose()
    return seen


def offsets(seen: list[Seen]) -> list[object]:
    return [one.received.header("x-stream-offset") for one in seen]


def stream(world: World, name: str = "s") -> Stream:
    found = world.queue(name)
    assert isinstance(found, Stream)
    return found


# ---- where reading begins ----


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (Field("S", "first"), [0, 1, 2, 3, 4]),
        (Field("S", "last"), [4]),
        (Field("S", "next"), []),
        (Field("I", 3), [3, 4]),
        (Field("l", 3), [3, 4]),
        (Field("b", 3), [3, 4]),
        (Field("B", 3), [3, 4]),
        (Field("s", 3), [3, 4]),
        (Field("i", 3), [3, 4]),
        (Field("I", -3), [0, 1, 2, 3, 4]),
        (Field("I", 99), []),
        (Field("T", 0), [0, 1, 2, 3, 4]),
        (Field("T", 1 << 60), []),
        (Field("S", "1h"), [0, 1, 2, 3, 4]),
        (Field("S", "7D"), [0, 1, 2, 3, 4]),
    ],
)
def test_reading_begins_where_it_was_asked_for(
    world: World, channel: ChannelClient, offset: Field, expected: list[int]
) -> None:
    declare(channel)
    fill(channel, 5)
    seen = read(world, offset)
    assert offsets(seen) == expected
    assert [one.body for one in seen] == [b"m%d" % number for number in expected]


def test_reading_begins_at_a_time(world: World, channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 2)
    world.advance(LATER)
    fill(channel, 2, first=2)
    at = (world.node.now - LATER // 2) // 1000
    assert offsets(read(world, Field("T", int(at)))) == [2, 3]
    assert offsets(read(world, Field("S", "30s"))) == [2, 3]
    assert offsets(read(world, Field("S", "2m"))) == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", [Field("S", "middle"), Field("S", ""), Field("t", True), Field("V", None)])
def test_an_offset_that_is_none_is_refused(channel: ChannelClient, offset: Field) -> None:
    declare(channel)
    channel.qos(1)
    table: Table = {"x-stream-offset": offset}
    code, text = channel.refused(methods.BasicConsume(queue="s", arguments=table))
    assert code == 406
    assert text == (
        "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 's' in vhost '/': "
        "use first, last, next, an offset, a timestamp or an interval such as 1h"
    )


def test_a_reader_ahead_of_the_end_waits_for_its_offset(world: World, channel: ChannelClient) -> None:
    declare(channel)
    reader = world.channel()
    reader.qos(10)
    consume(reader, x_stream_offset=Field("I", 2))
    fill(channel, 4)
    assert offsets(reader.deliveries()) == [2, 3]


# ---- acks are credit ----


def test_an_ack_makes_room_for_one_more(channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 5)
    channel.qos(2)
    consume(channel, x_stream_offset=Field("S", "first"))
    first = channel.deliveries()
    assert offsets(first) == [0, 1]
    channel.ack(first[0].tag)
    assert offsets(channel.deliveries()) == [2]
    channel.ack(0, multiple=True)
    assert offsets(channel.deliveries()) == [3, 4]


@pytest.mark.parametrize("requeue", [True, False])
def test_a_reject_makes_room_and_brings_nothing_back(channel: ChannelClient, requeue: bool) -> None:
    declare(channel)
    fill(channel, 3)
    channel.qos(1)
    consume(channel, x_stream_offset=Field("S", "first"))
    channel.reject(channel.deliveries()[0].tag, requeue)
    again = channel.deliveries()
    assert offsets(again) == [1]
    assert not again[0].redelivered
    channel.nack(again[0].tag, requeue=requeue)
    assert offsets(channel.deliveries()) == [2]


def test_a_recover_makes_room_and_brings_nothing_back(channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 5)
    channel.qos(2)
    consume(channel, x_stream_offset=Field("S", "first"))
    channel.take()
    channel.send(methods.BasicRecover(requeue=True))
    assert [one.header("x-stream-offset") for one in channel.take() if one.body] == [2, 3]


def test_a_stream_has_use_for_more_as_long_as_a_reader_has_room(world: World, channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 5)
    assert not stream(world).is_keeping_up()
    channel.qos(2)
    consume(channel, x_stream_offset=Field("S", "first"))
    first, _ = channel.deliveries()
    assert not stream(world).is_keeping_up()
    full = world.channel()
    full.qos(100)
    consume(full, x_stream_offset=Field("S", "first"))
    assert stream(world).is_keeping_up()
    full.client.lose()
    assert not stream(world).is_keeping_up()
    channel.ack(first.tag, multiple=True)
    assert not stream(world).is_keeping_up()
    for _ in range(2):
        channel.ack(0, multiple=True)
    assert stream(world).is_keeping_up()


def test_a_stream_that_failed_has_its_messages_and_no_readers(world: World, channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 3)
    channel.qos(10)
    consume(channel, x_stream_offset=Field("S", "first"))
    assert len(channel.deliveries()) == 3
    stream(world).restart()
    assert (stream(world).unacked, stream(world).consumers.count) == (0, 0)
    fill(channel, 1, first=3)
    assert channel.deliveries() == []
    assert offsets(read(world, Field("S", "first"))) == [0, 1, 2, 3]


def test_a_second_reader_gets_everything_as_well(world: World, channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 4)
    one, two = world.channel(), world.channel()
    for reader in (one, two):
        reader.qos(10)
        consume(reader, x_stream_offset=Field("S", "first"))
    assert one.delivered() == two.delivered() == [b"m0", b"m1", b"m2", b"m3"]
    fill(channel, 1, first=4)
    assert one.delivered() == two.delivered() == [b"m4"]


def test_acks_in_a_transaction_count_when_it_is_committed(channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 2)
    channel.begin()
    channel.qos(1)
    consume(channel, x_stream_offset=Field("S", "first"))
    channel.ack(channel.deliveries()[0].tag)
    assert channel.delivered() == []
    channel.send(methods.TxCommit())
    names = [received.method.name for received in channel.take()]
    assert sorted(names) == ["basic.deliver", "tx.commit-ok"]


def test_a_cancelled_reader_gets_no_more(channel: ChannelClient) -> None:
    declare(channel)
    channel.qos(10)
    consume(channel)
    channel.cancel("c")
    channel.publish("late", "s")
    assert channel.delivered() == []
    assert channel.declare("s", passive=True).consumer_count == 0


def test_a_long_stream_is_handed_out_a_share_in_each_turn(world: World, channel: ChannelClient) -> None:
    declare(channel)
    for number in range(1000):
        channel.publish(bytes([number % 256]) * 4000, "s")
    reader = world.channel()
    reader.qos(1000)
    wire = reader.client.wire
    writes = wire.writes
    consume(reader, x_stream_offset=Field("S", "first"))
    assert offsets(reader.deliveries()) == list(range(1000))
    # In larger ones as soon as the end is near.
    assert wire.writes - writes >= 700 * 4000 // 65536 // 2


@pytest.mark.parametrize("count", [TURN_BYTES // READER_BYTES + 1, TURN_BYTES // READER_BYTES * 3])
def test_everybody_who_replays_gets_a_share_however_many_they_are(
    world: World, channel: ChannelClient, count: int
) -> None:
    declare(channel)
    for _ in range(600):
        channel.publish(bytes(4000), "s")
    readers = [world.channel() for _ in range(count)]
    for reader in readers:
        reader.qos(1000)
    for reader in readers:
        start_reading(reader, "first")
    for _ in range(6):
        world.node.flush()
    shares = [received(reader) for reader in readers]
    assert min(shares) > 0
    assert max(shares) < 600
    for _ in range(6):
        world.node.flush()
    # Nobody is served again before everybody was.
    again = [received(reader) for reader in readers]
    assert max(again) < 1.5 * min(again)
    world.flush()


def test_those_who_keep_up_share_a_turn(world: World, channel: ChannelClient) -> None:
    declare(channel)
    readers = [world.channel() for _ in range(12)]
    for reader in readers:
        reader.qos(1000)
        consume(reader, x_stream_offset=Field("S", "next"))
    for _ in range(2):
        channel.client.connection.feed(publish_frames(1, bytes(150_000), "s"))
    world.node.flush()
    shares = [received(reader) for reader in readers]
    assert 0 < sum(shares) * 150_000 < 2 * LIVE_TURN_BYTES
    assert 0 in shares
    world.flush()
    assert [share + received(reader) for share, reader in zip(shares, readers, strict=True)] == [2] * 12


def test_a_reader_that_has_had_its_share_to_the_byte_goes_on(world: World, channel: ChannelClient) -> None:
    declare(channel)
    channel.publish(bytes(100), "s")
    record = stream(world).log.cursor(0).next()
    assert record is not None
    # All of one size, of which a share is a multiple.
    body = bytes(4096 - (record.size() - 100))
    for _ in range(400):
        channel.publish(body, "s")
    reader = world.channel()
    reader.qos(1000)
    start_reading(reader, "first")
    last = world.channel()
    last.qos(1000)
    consume(last, x_stream_offset=Field("I", 1))
    assert offsets(last.deliveries()) == list(range(1, 401))


def test_what_is_read_of_a_stream_is_counted(world: World, channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 5)
    reader = world.channel()
    reader.qos(3)
    consume(reader, x_stream_offset=Field("S", "first"))
    counters = stream(world).counters
    assert (counters.published, counters.delivered, counters.acked, stream(world).unacked) == (5, 3, 0, 3)
    reader.ack(2, multiple=True)
    assert (counters.delivered, counters.acked, stream(world).unacked) == (5, 2, 3)
    reader.reject(3)
    assert (counters.acked, stream(world).unacked) == (2, 2)
    reader.nack(5, multiple=True)
    assert (counters.delivered, counters.acked, stream(world).unacked) == (5, 2, 0)


def test_a_stream_saves_up_nothing_and_pays_back_what_it_took_too_much(world: World, channel: ChannelClient) -> None:
    declare(channel)
    found = stream(world)
    for rest, expected in ((-100, (LIVE_TURN_BYTES - 100, TURN_BYTES - 100)), (50, (LIVE_TURN_BYTES, TURN_BYTES))):
        found._live_rest = found._replay_rest = rest
        world.node.flush()
        found.drain()
        assert (found._live_rest, found._replay_rest) == expected
        # Once in a turn.
        found._live_rest = 7
        found.drain()
        assert found._live_rest == 7


@pytest.mark.parametrize(("flag", "archives"), [(None, False), (False, False), (True, True)])
def test_a_stream_goes_to_an_archive_if_it_is_declared_so(
    world: World, channel: ChannelClient, flag: bool | None, archives: bool
) -> None:
    world.store.can_archive = True
    more: dict[str, object] = {} if flag is None else {"x-archive": flag}
    channel.declare("s", durable=True, x_queue_type="stream", more=more)
    assert stream(world).log.archives is archives


def turns_under_pressure(world: World, publisher: ChannelClient, turns: int) -> None:
    """In each of them somebody publishes more than a turn takes, and nothing else is waited for."""
    for _ in range(turns):
        publisher.client.connection.feed(publish_frames(1, bytes(70_000), "q"))
        world.node.flush()


def start_reading(reader: ChannelClient, offset: str) -> None:
    """Without the end of the turn."""
    table: Table = {"x-stream-offset": Field("S", offset)}
    method = methods.BasicConsume(queue="s", consumer_tag="c", no_wait=True, arguments=table)
    reader.client.connection.feed(frame(method, reader.number))


def received(reader: ChannelClient) -> int:
    reader.client.receive()
    return len(reader.deliveries())


def test_publishing_comes_before_replaying(world: World, channel: ChannelClient) -> None:
    declare(channel)
    for _ in range(400):
        channel.publish(bytes(8000), "s")
    readers = [world.channel() for _ in range(10)]
    for reader in readers:
        reader.qos(1000)
    publisher = world.channel()
    publisher.declare("q")
    for reader in readers:
        start_reading(reader, "first")
    turns_under_pressure(world, publisher, 100)
    replayed = sum(received(reader) for reader in readers)
    # They go on, with a quarter at most of what is published meanwhile.
    assert 100 * 16_384 // 2 < replayed * 8000 < 100 * 16_384 * 2
    world.host.woken = True
    world.flush()
    assert replayed + sum(received(reader) for reader in readers) == 4000


def test_publishing_does_not_hold_up_those_who_keep_up_with_it(world: World, channel: ChannelClient) -> None:
    declare(channel)
    for _ in range(400):
        channel.publish(bytes(8000), "s")
    reader = world.channel()
    reader.qos(1000)
    consume(reader, x_stream_offset=Field("S", "next"))
    publisher = world.channel()
    for _ in range(20):
        for _ in range(3):
            publisher.client.connection.feed(publish_frames(1, bytes(50_000), "s"))
        world.node.flush()
        assert received(reader) == 3


# ---- what is delivered ----


def test_a_message_keeps_its_properties_and_gets_its_offset(channel: ChannelClient) -> None:
    declare(channel)
    properties = Properties("text/plain", headers=table_of({"a": 1}), delivery_mode=1, message_id="m")
    channel.publish("body", "s", properties=properties)
    channel.qos(1)
    consume(channel, x_stream_offset=Field("S", "first"))
    (seen,) = channel.deliveries()
    assert seen.received.properties == Properties(
        "text/plain", headers=table_of({"a": 1}) | {"x-stream-offset": Field("l", 0)}, delivery_mode=1, message_id="m"
    )
    assert (seen.exchange, seen.routing_key, seen.redelivered) == ("", "s", False)


def test_a_reader_on_another_channel_and_with_smaller_frames_gets_it_whole(world: World) -> None:
    publisher = world.channel()
    declare(publisher)
    body = bytes(range(256)) * 300
    publisher.publish(body, "s")
    reader = world.connect(frame_max=4096).channel(7)
    reader.qos(1)
    consume(reader, x_stream_offset=Field("S", "first"))
    (seen,) = reader.deliveries()
    assert seen.body == body
    assert max(seen.received.frames) <= 4096 - 8


def test_the_same_message_in_a_queue_carries_no_offset(channel: ChannelClient) -> None:
    declare(channel)
    channel.declare("q")
    channel.declare_exchange("x", "fanout")
    channel.bind("s", "x")
    channel.bind("q", "x")
    channel.publish("body", "key", "x")
    assert channel.got("q").received.properties == Properties()
    channel.qos(1)
    consume(channel, x_stream_offset=Field("S", "first"))
    assert [(one.exchange, one.routing_key) for one in channel.deliveries()] == [("x", "key")]


# ---- filters ----


def publish_filtered(channel: ChannelClient, *values: object) -> None:
    for number, value in enumerate(values):
        headers = {} if value is None else table_of({"x-stream-filter-value": value})
        channel.publish(str(number), "s", properties=Properties(headers=headers))


@pytest.mark.parametrize(
    ("wanted", "unfiltered", "expected"),
    [
        (Field("S", "red"), None, [0, 3]),
        (Field("A", [Field("S", "red"), Field("S", "blue")]), None, [0, 1, 3]),
        (Field("S", "red"), True, [0, 2, 3, 4]),
        (Field("S", "red"), False, [0, 3]),
        (Field("S", "green"), None, []),
        (Field("I", 5), None, [0, 1, 2, 3, 4]),
    ],
)
def test_a_filter_lets_through_what_was_asked_for(
    world: World, channel: ChannelClient, wanted: Field, unfiltered: bool | None, expected: list[int]
) -> None:
    declare(channel)
    # A value that is no string is none.
    publish_filtered(channel, "red", "blue", None, "red", 7)
    more = {} if unfiltered is None else {"x_stream_match_unfiltered": Field("t", unfiltered)}
    assert offsets(read(world, Field("S", "first"), x_stream_filter=wanted, **more)) == expected


def test_what_a_filter_holds_back_costs_no_credit(channel: ChannelClient) -> None:
    declare(channel)
    publish_filtered(channel, "blue", "blue", "red", "blue", "red")
    channel.qos(2)
    consume(channel, x_stream_offset=Field("S", "first"), x_stream_filter=Field("S", "red"))
    assert offsets(channel.deliveries()) == [2, 4]


# ---- retention ----


def test_the_oldest_segments_go_when_all_are_too_long(world: World, channel: ChannelClient) -> None:
    declare(channel, x_max_length_bytes=5000, x_stream_max_segment_size_bytes=1000)
    for _ in range(100):
        channel.publish(bytes(200), "s")
    log = stream(world).log
    assert 2 <= log.segment_count() <= 6
    assert 10 <= log.length <= 30
    seen = read(world, Field("S", "first"))
    assert offsets(seen) == list(range(int(log.first_offset), 100))
    assert log.length == len(seen) == 100 - log.first_offset
    assert log.body_bytes == 200 * log.length


def test_the_oldest_segments_go_when_they_are_too_old(world: World, channel: ChannelClient) -> None:
    declare(channel, x_max_age="30s", x_stream_max_segment_size_bytes=500)
    for _ in range(10):
        channel.publish(bytes(200), "s")
    world.advance(LATER)
    for _ in range(10):
        channel.publish(bytes(200), "s")
    assert 7 <= stream(world).log.first_offset <= 10


def test_a_policy_cuts_a_stream_that_is_there(world: World, channel: ChannelClient) -> None:
    declare(channel, x_stream_max_segment_size_bytes=500)
    for _ in range(20):
        channel.publish(bytes(200), "s")
    assert stream(world).log.length == 20
    world.set_policy("s", {"max-length-bytes": 1000}, apply_to="streams")
    assert stream(world).policy == "p"
    assert 0 < stream(world).log.length < 6
    assert stream(world).log.max_bytes == 1000
    world.clear_policy()
    assert stream(world).log.max_bytes == -1


def test_a_policy_wins_over_arguments(world: World, channel: ChannelClient) -> None:
    declare(channel, x_max_age="1h", x_max_length_bytes=10, x_stream_max_segment_size_bytes=100)
    world.set_policy(
        "s", {"max-age": "1D", "max-length-bytes": 1000, "stream-max-segment-size-bytes": 300}, apply_to="streams"
    )
    log = stream(world).log
    assert (log.max_age, log.max_bytes, log.segment_bytes) == (86_400_000, 1000, 300)


def test_a_policy_with_settings_that_streams_do_not_know_passes_them_over(world: World, channel: ChannelClient) -> None:
    declare(channel)
    world.set_policy("s", {"message-ttl": 1, "max-length-bytes": 1})
    assert stream(world).policy is None
    channel.publish("stays", "s")
    world.advance(LATER)
    assert len(read(world, Field("S", "first"))) == 1


def test_a_reader_that_retention_overtakes_goes_on_with_the_oldest(world: World, channel: ChannelClient) -> None:
    declare(channel, x_max_length_bytes=1000, x_stream_max_segment_size_bytes=300)
    channel.publish(bytes(200), "s")
    reader = world.channel()
    reader.qos(1)
    consume(reader, x_stream_offset=Field("S", "first"))
    for _ in range(50):
        channel.publish(bytes(200), "s")
    seen = reader.deliveries()
    reader.ack(seen[0].tag)
    assert offsets(reader.deliveries()) == [stream(world).log.first_offset]


# ---- confirms and failures ----


def test_a_confirm_waits_for_the_disk_also_for_a_transient_message(world: World, channel: ChannelClient) -> None:
    declare(channel)
    channel.confirm()
    world.store.holds = True
    world.store.position += 1
    channel.publish("transient", "s", properties=Properties(delivery_mode=1))
    assert channel.confirms() == []
    world.sync()
    assert channel.confirms() == [("ack", 1, False)]


def test_a_duplicate_is_answered_and_not_kept(world: World, channel: ChannelClient) -> None:
    declare(channel, x_message_deduplication=True)
    channel.confirm()
    for _ in range(2):
        headers = table_of({"x-deduplication-header": "id"})
        channel.publish("once", "s", properties=Properties(headers=headers))
    assert [answer[0] for answer in channel.confirms()] == ["ack", "ack"]
    assert stream(world).log.length == 1


def test_deleting_a_stream_cancels_its_readers(world: World, channel: ChannelClient) -> None:
    declare(channel)
    fill(channel, 3)
    reader = world.channel()
    reader.qos(1)
    consume(reader, x_stream_offset=Field("S", "first"))
    reader.take()
    assert channel.call(methods.QueueDelete(queue="s"), methods.QueueDeleteOk).message_count == 3
    assert reader.names() == ["basic.cancel"]
    declare(channel)
    channel.publish("anew", "s")
    assert offsets(read(world, Field("S", "first"))) == [0]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_what_a_stream_cannot_be_is_refused(channel: ChannelClient, flags: dict[str, bool], what: str) -> None:
    method = methods.QueueDeclare(queue="s", arguments=table_of({"x-queue-type": "stream"}))
    for name, value in flags.items():
        setattr(method, name, value)
    expected = f"PRECONDITION_FAILED - invalid property '{what}' for queue 's' in vhost '/'"
    assert channel.refused(method) == (406, expected)


@pytest.mark.parametrize(
    ("argument", "value", "problem"),
    [
        ("x-max-age", "1x", ": invalid_max_age"),
        ("x-max-age", "", ": invalid_max_age"),
        ("x-max-age", 5, ": {unacceptable_type,signedint}"),
        ("x-max-length-bytes", -1, ": {value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", "1", ': "expected integer, got longstr"'),
        ("x-queue-leader-locator", "nowhere", ": invalid_queue_locator_arg"),
        ("x-max-length", 1, " of queue type rabbit_stream_queue"),
        ("x-message-ttl", 1, " of queue type rabbit_stream_queue"),
        ("x-dead-letter-exchange", "", " of queue type rabbit_stream_queue"),
        ("x-max-priority", 1, " of queue type rabbit_stream_queue"),
        ("x-single-active-consumer", True, " of queue type rabbit_stream_queue"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    channel: ChannelClient, argument: str, value: object, problem: str
) -> None:
    table = table_of({"x-queue-type": "stream", argument: value})
    code, text = channel.refused(methods.QueueDeclare(queue="s", durable=True, arguments=table))
    assert code == 406
    assert text == f"PRECONDITION_FAILED - invalid arg '{argument}' for queue 's' in vhost '/'{problem}"


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        ("x-stream-max-segment-size-bytes", 3_000_000_001, "Exceeded max value for x-stream-max-segment-size-bytes"),
        ("x-stream-filter-size-bytes", 15, "Invalid value for  x-stream-filter-size-bytes"),
    ],
)
def test_sizes_have_their_bounds(channel: ChannelClient, argument: str, value: int, text: str) -> None:
    table = table_of({"x-queue-type": "stream", argument: value})
    method = methods.QueueDeclare(queue="s", durable=True, arguments=table)
    assert channel.refused(method) == (406, f"PRECONDITION_FAILED - {text}")


def test_reading_takes_a_prefetch(channel: ChannelClient) -> None:
    declare(channel)
    code, text = channel.refused(methods.BasicConsume(queue="s"))
    assert code == 406
    assert text == "PRECONDITION_FAILED - consumer prefetch count is not set for stream queue 's' in vhost '/'"


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (
            methods.BasicConsume(queue="s", no_ack=True),
            "automatic acknowledgement not supported by stream queue 's' in vhost '/'",
        ),
        (methods.BasicGet(queue="s"), "basic.get not supported by stream queues queue 's' in vhost '/'"),
        (methods.QueuePurge(queue="s"), "queue.purge not supported by stream queues queue 's' in vhost '/'"),
    ],
)
def test_what_streams_do_not_do_ends_the_connection(channel: ChannelClient, method: methods.Method, text: str) -> None:
    declare(channel)
    channel.qos(1)
    channel.send(method)
    assert channel.client.expect_close() == (540, f"NOT_IMPLEMENTED - {text}")


def test_a_limit_for_the_whole_channel_is_not_for_streams(channel: ChannelClient) -> None:
    declare(channel)
    channel.qos(5)
    channel.qos(5, whole_channel=True)
    channel.send(methods.BasicConsume(queue="s"))
    assert channel.client.expect_close() == (
        540,
        "NOT_IMPLEMENTED - queue 's' in vhost '/' does not support global qos",
    )


def test_a_reader_has_no_priority(channel: ChannelClient) -> None:
    declare(channel)
    channel.qos(1)
    code, text = channel.refused(methods.BasicConsume(queue="s", arguments=table_of({"x-priority": 1})))
    assert (code, text.endswith("of queue type rabbit_stream_queue")) == (406, True)


# ---- watched ----


def test_a_decorator_hears_of_a_streams_life(world: World) -> None:
    decorator = Listening()
    world.node.install_queue_decorator(decorator)
    channel = world.channel()
    declare(channel)
    channel.call(methods.QueueDelete(queue="s"), methods.QueueDeleteOk)
    assert decorator.heard == ["startup s", "shutdown s"]


def test_the_firehose_shows_what_readers_get(world: World, channel: ChannelClient) -> None:
    declare(channel)
    channel.declare("firehose")
    channel.bind("firehose", "amq.rabbitmq.trace", "#")
    administer.set_tracing(world.node, "/", True)
    channel.publish("hello", "s")
    reader = world.channel()
    reader.qos(1)
    consume(reader, x_stream_offset=Field("S", "first"))
    administer.set_tracing(world.node, "/", False)
    heard = [channel.got("firehose") for _ in range(2)]
    assert [(one.routing_key, one.body) for one in heard] == [("publish.", b"hello"), ("deliver.s", b"hello")]


def test_a_journey_ends_at_an_offset_and_waits_for_the_disk(world: World, channel: ChannelClient) -> None:
    declare(channel)
    channel.publish("first", "s")
    channel.confirm()
    world.store.holds = True
    world.store.position += 1
    channel.publish("traced", "s", properties=Properties(headers=table_of({"x-warren-trace": True})))
    (journey,) = world.node.journeys.kept
    assert [each.text for each in journey.stages if each.name == "queue"] == ["stream 's' took it at offset 1"]
    assert journey.outcome == "waits for the disk"
    world.sync()
    assert channel.confirms() == [("ack", 1, False)]
