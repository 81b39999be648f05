"""The session: whatever way the bytes are cut, the same methods, contents, deliveries and confirms come out."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from tests.broker.still_world import ListeningWire, new_node
from warren.amqp.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from warren.amqp.deliveries import Deliveries
from warren.amqp.frames import content_frames
from warren.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsumeOk,
    BasicDeliver,
    BasicReturn,
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    Method,
    QueueDeclareOk,
)
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.replies import ack, nack
from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.client.session import Credentials, Received, Refused, Session, frame_of
from warren.errors import WarrenError

FRAME_MAX = 40


def delivery(tag: int, body: bytes = b"hello", channel: int = 1) -> bytes:
    properties = encode_properties(Properties(message_id=f"m{tag}"))
    return frame_of(BasicDeliver("c", tag, False, "ex", "key"), channel) + content_frames(
        channel, properties, body, FRAME_MAX
    )


def frames_of(data: bytes) -> Iterator[bytes]:
    while data:
        end = 8 + int.from_bytes(data[3:7], "big")
        yield data[:end]
        data = data[end:]


def taken(session: Session) -> list[Received]:
    found: list[Received] = []
    while (received := session.take()) is not None:
        found.append(received)
    return found


def places(rows: Deliveries) -> list[bytes]:
    frames = bytes(rows.frames())
    return [frames[start:end] for start, end in struct.iter_unpack("<ii", rows.body.edges.getvalue())]


TRAFFIC = (
    frame_of(QueueDeclareOk("q", 1, 2))
    + delivery(1)
    + HEARTBEAT_FRAME
    + delivery(2, b"")
    + frame_of(BasicReturn(312, "NO_ROUTE", "ex", "key"))
    + content_frames(1, b"\x00\x00", b"x" * 100, FRAME_MAX)
    + frame_of(ConnectionBlocked("memory"), 0)
    + delivery(3, b"y" * 90)
)


def test_bytes_cut_anywhere_give_the_same() -> None:
    for cut in range(len(TRAFFIC)):
        session = Session()
        session.feed(TRAFFIC[:cut])
        found = taken(session)
        session.feed(TRAFFIC[cut:])
        found += taken(session)
        names = ["queue.declare-ok", "basic.deliver", "basic.deliver", "basic.return"]
        assert [each.method.name for each in found] == [*names, "connection.blocked", "basic.deliver"]
        assert [each.channel for each in found] == [1, 1, 1, 1, 0, 1]
        assert [each.body for each in found] == [b"", b"hello", b"", b"x" * 100, b"", b"y" * 90]
        assert [each.properties.message_id for each in found] == [None, "m1", "m2", None, None, "m3"]
        assert session.heartbeats == 1


def test_bytes_that_come_one_by_one_give_the_same() -> None:
    session = Session()
    found: list[Received] = []
    for at in range(len(TRAFFIC)):
        session.feed(TRAFFIC[at : at + 1])
        found += taken(session)
    assert [each.body for each in found] == [b"", b"hello", b"", b"x" * 100, b"", b"y" * 90]
    assert session.take_unread() == b""


def test_contents_of_two_channels_may_be_mixed() -> None:
    session = Session()
    for one, other in zip(frames_of(delivery(1, b"a" * 60, 1)), frames_of(delivery(2, b"b" * 60, 2)), strict=True):
        session.feed(one + other)
    assert [(each.channel, each.body) for each in taken(session)] == [(1, b"a" * 60), (2, b"b" * 60)]


def test_a_close_within_a_content_is_told() -> None:
    session = Session()
    session.feed(next(frames_of(delivery(1))) + frame_of(ChannelClose(404, "NOT_FOUND - no queue")))
    with pytest.raises(Refused, match="404 NOT_FOUND - no queue"):
        session.take()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (PROTOCOL_HEADER, "does not speak AMQP 0-9-1"),
        (HEARTBEAT_FRAME[:-1] + b"\x00", "a frame without an end"),
        (content_frames(1, b"\x00\x00", b"", 0), "unexpected frame of type 2"),
        (frame_of(BasicDeliver()) + b"\x03\x00\x01\x00\x00\x00\x00\xce", "unexpected frame of type 3"),
        (delivery(1, b"1234")[:-12] + b"\x03\x00\x01\x00\x00\x00\x05" + b"12345\xce", "another size than announced"),
        (frame_of(BasicDeliver()) + frame_of(BasicAck(1)), "unexpected basic.ack"),
    ],
)
def test_what_no_broker_may_send_is_refused(data: bytes, reason: str) -> None:
    session = Session()
    session.feed(data)
    with pytest.raises(WarrenError, match=reason):
        session.take()


def test_deliveries_in_bulk_are_those_one_by_one_however_they_are_cut() -> None:
    bodies = [b"%d" % tag * (tag % 40) for tag in range(1, 200)]
    data = b"".join(delivery(tag, body) for tag, body in enumerate(bodies, 1))
    for seed in range(30):
        chance = random.Random(seed)
        session, rows, rest = Session(), Deliveries(""), data
        while rest:
            cut = chance.choice((1, 9, 50, 400, 5000))
            session.feed(rest[:cut])
            rest = rest[cut:]
            most = chance.randrange(1, 20)
            before = rows.count
            assert session.take_deliveries(rows, most) is None
            assert rows.count - before <= most
        assert session.take_deliveries(rows, 1000) is None
        assert places(rows) == bodies
        assert rows.last_tag == len(bodies)


def test_heartbeats_and_other_channels_between_any_two_frames_do_no_harm_to_bulk() -> None:
    frames = list(frames_of(delivery(1, b"x" * 90) + delivery(2)))
    for place in range(len(frames) + 1):
        for cut in range(3):
            session, rows = Session(), Deliveries("")
            between = HEARTBEAT_FRAME + frame_of(ConnectionBlocked("disk"), 0)
            data = b"".join([*frames[:place], between, *frames[place:]])
            half = len(data) * cut // 2
            found: list[Method] = []
            for piece in (data[:half], data[half:]):
                session.feed(piece)
                while (received := session.take_deliveries(rows, 100)) is not None:
                    found.append(received.method)
            assert [method.name for method in found] == ["connection.blocked"]
            assert places(rows) == [b"x" * 90, b"hello"]


def test_an_answer_between_deliveries_ends_bulk_and_can_be_gone_on_after() -> None:
    session, rows = Session(), Deliveries("")
    session.feed(delivery(1) + frame_of(BasicConsumeOk("c")) + delivery(2) + frame_of(BasicCancel("c")))
    for count, kind in ((1, BasicConsumeOk), (2, BasicCancel)):
        received = session.take_deliveries(rows, 100)
        assert received is not None
        assert isinstance(received.method, kind)
        assert rows.count == count
    assert session.take_deliveries(rows, 100) is None


def others_of(session: Session, settled: list[tuple[int, bool]]) -> Iterator[str]:
    while (received := session.take_confirms(lambda tag, multiple: settled.append((tag, multiple)))) is not None:
        yield received.method.name


def test_confirms_cut_anywhere_are_each_told_once() -> None:
    returned = frame_of(BasicReturn(312, "NO_ROUTE", "ex", "key")) + content_frames(1, b"\0\0", b"x" * 50, FRAME_MAX)
    data = ack(1, 1, False) + ack(1, 4, True) + HEARTBEAT_FRAME + returned + ack(1, 5, False) + nack(1, 6, False)
    for cut in range(len(data)):
        session = Session()
        settled: list[tuple[int, bool]] = []
        others: list[str] = []
        for piece in (data[:cut], data[cut:]):
            session.feed(piece)
            others += others_of(session, settled)
        assert settled == [(1, False), (4, True), (5, False)]
        assert others == ["basic.return", "basic.nack"]


def test_what_was_not_taken_is_handed_on_as_it_came() -> None:
    session = Session()
    data = frame_of(BasicConsumeOk("c")) + delivery(1)
    for cut in range(len(data)):
        session = Session()
        session.feed(data[:cut])
        session.feed(data[cut:])
        assert session.take() is not None
        assert session.take_unread() == delivery(1)


def shaken(credentials: Credentials) -> Session:
    """The handshake with a real broker's core."""
    node = new_node()
    node.add_vhost("/")
    administer.put_user(node, User("ann"))
    administer.set_permission(node, "ann", "/", "", "", "")
    wire = ListeningWire()
    connection = node.connect(wire, "127.0.0.1", 1, "127.0.0.1", 2)
    session = Session(credentials)
    connection.feed(session.greet())
    while not session.is_open:
        node.flush()
        written, wire.written = wire.written, b""
        session.feed(written)
        received = session.take()
        assert received is not None
        connection.feed(session.answer(received))
    return session


def test_the_handshake_takes_the_smaller_frame_and_keeps_what_the_broker_says() -> None:
    session = shaken(Credentials("ann", "", frame_max=8192))
    assert session.frame_max == 8192
    assert "warren_version" in session.server_properties
    assert shaken(Credentials("ann", "")).frame_max == 131072


def test_a_refusal_in_the_handshake_has_the_brokers_code_and_text() -> None:
    with pytest.raises(Refused) as refused:
        shaken(Credentials("ann", "", vhost="nowhere"))
    assert (refused.value.code, refused.value.text) == (530, "NOT_ALLOWED - vhost nowhere not found")


def test_a_close_is_told_with_its_code_and_other_methods_by_name() -> None:
    session = Session(Credentials("ann", ""))
    session.feed(frame_of(ConnectionClose(320, "CONNECTION_FORCED - bye"), 0) + frame_of(BasicAck(1)))
    for reason in ("320 CONNECTION_FORCED - bye", "unexpected basic.ack"):
        received = session.take()
        assert received is not None
        with pytest.raises(WarrenError, match=reason):
            session.answer(received)
