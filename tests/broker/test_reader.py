"""The reader: bytes come as the network likes, frames go where they belong, nonsense ends one connection only."""

from __future__ import annotations

import struct

import pytest

from tests.broker.harness import ChannelClient, Client, World, frame, publish_frames, raw_frame
from warren.amqp import methods
from warren.amqp.constants import CHANNEL_OPEN, FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, HEARTBEAT_FRAME
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.session.channel import Channel
from warren.broker.session.connection import TURN_BYTES
from warren.broker.session.interceptors import Interceptor
from warren.broker.settings import Settings


def header_frame(size: int, channel: int = 1, class_id: int = 60) -> bytes:
    return raw_frame(FRAME_HEADER, channel, struct.pack(">HHqH", class_id, 0, size, 0))


PUBLISH = frame(methods.BasicPublish(routing_key="q"), 1)


def story(client: Client) -> bytes:
    """Two channels at work, as one client might write it."""
    properties = Properties(delivery_mode=2, message_id="m", priority=3)
    return b"".join(
        [
            frame(methods.ChannelOpen(), 1),
            frame(methods.ChannelOpen(), 2),
            frame(methods.QueueDeclare(queue="q"), 1),
            frame(methods.ConfirmSelect(), 1),
            publish_frames(1, "first", "q"),
            HEARTBEAT_FRAME,
            publish_frames(1, "x" * 40, "q", properties=properties, frame_max=24),
            publish_frames(1, "", "q", mandatory=True),
            frame(methods.BasicConsume(queue="q", consumer_tag="c"), 2),
            frame(methods.BasicAck(2, True), 2),
            frame(methods.BasicCancel("c"), 2),
            frame(methods.ChannelClose(200, "bye"), 1),
        ]
    )


def spoken(client: Client) -> list[tuple[int, str, bytes]]:
    """All answers, without how acks were put together: that depends on what came in one read."""
    return [
        (number, repr(received.method), received.body)
        for number in (1, 2)
        for received in client.take(number)
        if not isinstance(received.method, methods.BasicAck)
    ]


def test_frames_split_at_every_byte_give_the_same_answers() -> None:
    whole = World()
    client = whole.connect()
    data = story(client)
    client.feed(data)
    expected = spoken(client)
    assert [body for _, _, body in expected if body] == [b"first", b"x" * 40]
    for cut in range(1, len(data)):
        client = World().connect()
        client.feed(data[:cut])
        client.feed(data[cut:])
        assert spoken(client) == expected, f"cut at {cut}"


def test_frames_byte_by_byte_give_the_same_answers() -> None:
    client = World().connect()
    data = story(client)
    client.feed(data)
    expected = spoken(client)
    client = World().connect()
    for byte in data:
        client.feed(bytes([byte]))
    assert spoken(client) == expected


def test_contents_of_several_channels_may_interleave(world: World) -> None:
    client = world.connect()
    one, two = client.channel(1), client.channel(2)
    one.declare("q")
    pieces = [
        frame(methods.BasicPublish(routing_key="q"), 1),
        frame(methods.BasicPublish(routing_key="q"), 2),
        header_frame(2, 2),
        header_frame(2, 1),
        raw_frame(FRAME_BODY, 1, b"a"),
        raw_frame(FRAME_BODY, 2, b"c"),
        raw_frame(FRAME_BODY, 2, b"d"),
        raw_frame(FRAME_BODY, 1, b"b"),
    ]
    client.feed(b"".join(pieces))
    assert two.bodies_in("q") == [b"cd", b"ab"]


def test_a_body_in_crumbs_is_the_same_message_and_costs_no_more(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    body = bytes(range(256)) * 40
    crumbs = b"".join(raw_frame(FRAME_BODY, 1, bytes([byte])) for byte in body)
    channel.client.feed(PUBLISH + header_frame(len(body)) + crumbs)
    entry = world.queue("q").backing.peek()
    assert entry is not None
    assert len(entry.message.content) < len(body) + 100
    assert channel.got("q").body == body


def test_empty_body_frames_are_passed_over(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.client.feed(PUBLISH + header_frame(2) + raw_frame(FRAME_BODY, 1, b"") + raw_frame(FRAME_BODY, 1, b"ab"))
    assert channel.got("q").body == b"ab"


def test_an_empty_body_has_no_body_frame(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("", "q")
    seen = channel.got("q")
    assert (seen.body, seen.received.frames) == (b"", [])


def test_bodies_go_out_in_frames_the_receiver_can_take(world: World) -> None:
    sender = world.channel()
    sender.declare("q")
    body = b"x" * 100_000
    small = world.connect(frame_max=4096).channel(7)
    small.consume("q")
    sender.publish(body, "q")
    (delivery,) = small.deliveries()
    assert delivery.body == body
    assert max(delivery.received.frames) <= 4096 - 8
    small.client.lose()
    again = world.connect(frame_max=4096).channel(3).got("q")
    assert (again.body, max(again.received.frames)) == (body, 4088)


def test_a_frame_may_be_larger_than_agreed_by_the_frame_header_only(world: World) -> None:
    channel = world.connect(frame_max=4096).channel()
    channel.declare("q")
    channel.client.feed(PUBLISH + header_frame(4096) + raw_frame(FRAME_BODY, 1, b"x" * 4096))
    assert channel.got("q").body == b"x" * 4096
    channel.client.feed(PUBLISH + header_frame(4097) + raw_frame(FRAME_BODY, 1, b"x" * 4097))
    assert channel.client.expect_close()[0] == 501


def test_an_oversized_frame_is_refused_before_it_has_arrived(world: World) -> None:
    client = world.connect()
    client.feed(struct.pack(">BHI", FRAME_METHOD, 1, 200_000) + b"x")
    assert client.expect_close()[0] == 501


MALFORMED = {
    "a wrong end octet": (raw_frame(FRAME_HEARTBEAT, 0, b"", 0xCD), 501),
    "an unknown frame type": (raw_frame(9, 1, b"abc"), 501),
    "a method frame without a method": (raw_frame(FRAME_METHOD, 1, b"ab"), 501),
    "a heartbeat on a channel": (raw_frame(FRAME_HEARTBEAT, 1, b""), 505),
    "an unknown method": (raw_frame(FRAME_METHOD, 1, struct.pack(">HH", 60, 99)), 503),
    "arguments cut short": (raw_frame(FRAME_METHOD, 1, struct.pack(">HH", 50, 10) + b"\x00"), 501),
    "a header without a publish": (header_frame(1), 505),
    "a body without a publish": (raw_frame(FRAME_BODY, 1, b"x"), 505),
    "a body without a header": (PUBLISH + raw_frame(FRAME_BODY, 1, b"x"), 505),
    "a method instead of a header": (PUBLISH + frame(methods.BasicGet(queue="q"), 1), 505),
    "an ack instead of a header": (PUBLISH + frame(methods.BasicAck(1), 1), 505),
    "a publish instead of a header": (PUBLISH + PUBLISH, 505),
    "a second header": (PUBLISH + header_frame(1) + header_frame(1), 505),
    "a header of another class": (PUBLISH + header_frame(1, class_id=50), 505),
    "more body than announced": (PUBLISH + header_frame(1) + raw_frame(FRAME_BODY, 1, b"xy"), 501),
    "a body of half a gigabyte and more": (PUBLISH + header_frame(536_870_913), 501),
    "a negative body size": (PUBLISH + header_frame(-1), 501),
    "a method on a channel that is not open": (frame(methods.BasicGet(queue="q"), 5), 504),
    "a publish on a channel that is not open": (publish_frames(5, "m", "q"), 504),
    "a channel opened twice": (frame(methods.ChannelOpen(), 1), 504),
    "headers of a message that do not decode": (
        PUBLISH + raw_frame(FRAME_HEADER, 1, struct.pack(">HHqHIB", 60, 0, 0, 0x2000, 9, 1)),
        502,
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_nonsense_closes_the_connection_with_the_right_code_and_harms_nobody_else(world: World, what: str) -> None:
    bystander = world.channel()
    bystander.declare("q")
    client = world.connect()
    client.channel()
    data, code = MALFORMED[what]
    client.feed(data)
    assert client.expect_close()[0] == code
    bystander.publish("still here", "q")
    assert bystander.got("q").body == b"still here"
    client.send(methods.ConnectionCloseOk())
    if code != 501:
        assert client.wire.is_closed()
    world.advance(30_000)
    assert client.wire.is_closed()


@pytest.mark.parametrize("what", MALFORMED)
def test_nonsense_byte_by_byte_gives_the_same_code(world: World, what: str) -> None:
    client = world.connect()
    client.channel()
    data, code = MALFORMED[what]
    for byte in data:
        client.feed(bytes([byte]))
    assert client.expect_close()[0] == code


def test_what_is_undecodable_is_named_by_class_and_method(world: World) -> None:
    client = world.connect()
    client.send(methods.ChannelOpen(), 1)
    client.send(methods.ChannelOpen(), 1)
    close = client.expect(methods.ConnectionClose)
    assert close.class_id << 16 | close.method_id == CHANNEL_OPEN


def test_after_a_hard_error_the_frames_that_follow_are_still_told_apart(world: World) -> None:
    """A client that pipelines has more on the way; its close-ok must be found behind it, wherever the reads end."""
    client = world.connect()
    client.channel()
    rest = publish_frames(1, "late", "q") + frame(methods.ConnectionCloseOk())
    client.feed(frame(methods.ChannelOpen(), 1) + rest[:11])
    assert client.expect_close()[0] == 504
    client.feed(rest[11:])
    assert client.wire.is_closed()


class Broken(Interceptor):
    def applies_to(self) -> list[str]:
        return ["basic.get"]

    def intercept(self, channel: Channel, method: methods.Method) -> methods.Method:
        raise RuntimeError("a secret")


def test_an_error_in_the_core_closes_one_connection_with_541_and_is_logged_once(world: World) -> None:
    world.node.install_interceptor(Broken())
    channel, other = world.channel(), world.channel()
    channel.send(methods.BasicGet(queue="q"))
    assert channel.client.expect_close() == (541, "INTERNAL_ERROR - unexpected error")
    assert world.host.logged().count("RuntimeError: a secret") == 1
    assert "secret" not in bytes(channel.client.wire.written).decode("latin1")
    other.declare("q")


def test_a_reader_that_has_had_its_share_waits_for_the_next_turn(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    client = channel.client
    world.host.woken = False
    client.connection.feed(publish_frames(1, b"x" * int(TURN_BYTES), "q"))
    assert not client.wire.is_reading()
    assert world.host.woken
    world.flush()
    assert client.wire.is_reading()
    assert world.queue("q").backing.length == 1


def test_a_message_over_the_limit_is_read_to_its_end_and_not_kept() -> None:
    world = World(Settings(max_message_size=100))
    client = world.connect()
    channel = client.channel()
    channel.declare("q")
    client.feed(PUBLISH + header_frame(1000))
    for _ in range(9):
        client.feed(raw_frame(FRAME_BODY, 1, b"x" * 100))
    assert channel.take() == []
    content = client.connection.channels[1].content
    assert content is not None
    assert content.body_frames == 0
    assert len(content.whole.getvalue()) < 100
    client.feed(raw_frame(FRAME_BODY, 1, b"x" * 100))
    assert channel.expect_close()[0] == 406


def test_properties_pass_through_untouched(channel: ChannelClient) -> None:
    channel.declare("q")
    # A second flag word that announces nothing, and a timestamp: bytes that a re-encoder would tidy up.
    encoded = encode_properties(Properties(content_type="text/plain", timestamp=7, app_id="a"))
    channel.client.feed(PUBLISH + content_frames(1, encoded, b"m", 4096))
    seen = channel.got("q")
    assert (seen.received.properties, seen.body) == (
        Properties(content_type="text/plain", timestamp=7, app_id="a"),
        b"m",
    )


@pytest.mark.parametrize("class_id", [0x7FFF, 0x8000, 0xFFFF])
def test_a_method_of_any_class_is_answered_with_its_numbers(world: World, class_id: int) -> None:
    client = world.connect()
    client.channel(1)
    client.feed(raw_frame(FRAME_METHOD, 1, struct.pack(">HH", class_id, 7)))
    close = client.expect(methods.ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (503, class_id, 7)


@pytest.mark.parametrize("size", [12, 13, 14])
def test_a_content_header_is_no_shorter_than_its_fields(world: World, size: int) -> None:
    """Class, weight, body size and flags: 14 bytes, of which none may be missing."""
    channel = world.channel()
    channel.declare("q")
    publish = frame(methods.BasicPublish(routing_key="q"), 1)
    channel.client.feed(publish + raw_frame(2, 1, (b"\x00\x3c" + bytes(12))[:size]))
    if size == 14:
        assert channel.bodies_in("q") == [b""]
    else:
        assert channel.client.expect_close()[0] == 501
