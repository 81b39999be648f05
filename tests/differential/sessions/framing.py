"""Bytes that are not what they should be: frames, method arguments, tables, contents."""

from __future__ import annotations

import struct
from functools import partial

from tests.differential import wire
from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session

FRAME_MAX = 131072


@session
def frame_with_a_wrong_end(s: Session) -> None:
    ch = s.channel()
    ch.connection.frame(wire.METHOD, 1, wire.encode_method("channel.flow", active=True), end=0)
    ch.connection.wait_closed()


@session
def frame_larger_than_agreed(s: Session) -> None:
    c = s.connect()
    c.channel()
    c.send(struct.pack(">BHI", wire.METHOD, 1, FRAME_MAX + 1))
    c.wait_closed()


def _body_frame(size: int, s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.send("basic.publish", routing_key=q)
    ch.raw(wire.HEADER, wire.header(size))
    ch.raw(wire.BODY, b"x" * size)
    ch.settle(q)
    ch.get_all(q)


for _over in (0, 8, 9):
    add(f"framing: body frame {_over} bytes over the maximum payload", partial(_body_frame, FRAME_MAX - 8 + _over))


def _frame_type(kind: int, s: Session) -> None:
    ch = s.channel()
    ch.raw(kind, b"1234")
    ch.connection.wait_closed()


for _kind in (0, 4, 7, 9, 65, 255):
    add(f"framing: frame of type {_kind}", partial(_frame_type, _kind))


@session
def heartbeat_on_a_channel(s: Session) -> None:
    ch = s.channel()
    ch.raw(wire.HEARTBEAT, b"")
    ch.connection.wait_closed()


@session
def heartbeat_with_a_payload(s: Session) -> None:
    c = s.connect()
    ch = c.channel()
    c.frame(wire.HEARTBEAT, 0, b"ping")
    ch.declare(s.name("q"))


@session
def heartbeat_amid_a_content(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.send("basic.publish", routing_key=q)
    ch.raw(wire.HEADER, wire.header(2))
    ch.connection.frame(wire.HEARTBEAT, 0, b"")
    ch.raw(wire.BODY, b"ok")
    ch.settle(q)
    ch.get_all(q)


# ---- methods ----


def _method_payload(payload: bytes, s: Session) -> None:
    ch = s.channel()
    ch.raw(wire.METHOD, payload)
    ch.connection.wait_closed()


def _declare(rest: bytes) -> bytes:
    """queue.declare with whatever follows its id and ticket."""
    return struct.pack(">HHH", 50, 10, 0) + rest


_QUEUE = wire.short_string("q") + b"\x00"
_DEEP: Fields = {}
for _ in range(40):
    _DEEP = {"a": _DEEP}

for _title, _payload in {
    "method frame without a payload": b"",
    "method frame of three bytes": b"\x00\x32\x00",
    "method of an unknown class": struct.pack(">HH", 99, 10),
    "unknown method of class queue": struct.pack(">HH", 50, 99),
    "unknown method of class basic": struct.pack(">HH", 60, 99),
    "method without its arguments": struct.pack(">HH", 50, 10),
    "short string cut off": _declare(b"\x09abc"),
    "table missing": _declare(_QUEUE),
    "table length cut off": _declare(_QUEUE + b"\x00\x00"),
    "table longer than the frame": _declare(_QUEUE + struct.pack(">I", 100)),
    "bytes after the last argument": wire.encode_method("basic.qos") + b"more",
    "table field of type z": _declare(_QUEUE + struct.pack(">I", 4) + b"\x01az\x00"),
    "table field of type C": _declare(_QUEUE + struct.pack(">I", 4) + b"\x01aC\x00"),
    "table field without a value": _declare(_QUEUE + struct.pack(">I", 2) + b"\x01a"),
    "table field cut off": _declare(_QUEUE + struct.pack(">I", 5) + b"\x01aI\x00\x00"),
    "table long string cut off": _declare(_QUEUE + struct.pack(">I", 9) + b"\x01aS\x00\x00\x00\x09ab"),
    "nested table cut off": _declare(_QUEUE + struct.pack(">I", 7) + b"\x01aF\x00\x00\x00\x09"),
}.items():
    add(f"framing: {_title}", partial(_method_payload, _payload))


@session
def table_nested_forty_deep(s: Session) -> None:
    s.channel().declare(s.name("q"), arguments=_DEEP)


@session
def queue_name_that_is_not_utf8(s: Session) -> None:
    ch = s.channel()
    ch.call("queue.declare", queue=s.name("q").encode() + b"\xff\xfe")
    ch.connection.round_trip()


@session
def table_key_of_255_bytes(s: Session) -> None:
    s.channel().declare(s.name("q"), arguments={"k" * 255: 1})


@session
def queue_name_of_255_bytes(s: Session) -> None:
    name = s.name("")
    s.channel().declare(s.name("n" * (255 - len(name))))


@session
def unknown_class_on_channel_0(s: Session) -> None:
    c = s.connect()
    c.frame(wire.METHOD, 0, struct.pack(">HH", 99, 10))
    c.wait_closed()


@session
def unknown_method_of_class_connection(s: Session) -> None:
    c = s.connect()
    c.frame(wire.METHOD, 0, struct.pack(">HH", 10, 99))
    c.wait_closed()


# ---- contents ----


def _publishing(s: Session) -> Channel:
    """A channel on which basic.publish has been sent and its content is due."""
    ch = s.channel()
    ch.send("basic.publish", routing_key="nowhere")
    return ch


@session
def header_without_a_method(s: Session) -> None:
    ch = s.channel()
    ch.raw(wire.HEADER, wire.header(0))
    ch.connection.wait_closed()


@session
def body_without_a_method(s: Session) -> None:
    ch = s.channel()
    ch.raw(wire.BODY, b"hello")
    ch.connection.wait_closed()


@session
def body_without_a_header(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.BODY, b"hello")
    ch.connection.wait_closed()


@session
def method_instead_of_a_header(s: Session) -> None:
    ch = _publishing(s)
    ch.send("channel.flow", active=True)
    ch.connection.wait_closed()


@session
def method_instead_of_a_body(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.HEADER, wire.header(5))
    ch.send("channel.flow", active=True)
    ch.connection.wait_closed()


@session
def header_instead_of_a_body(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.HEADER, wire.header(5))
    ch.raw(wire.HEADER, wire.header(5))
    ch.connection.wait_closed()


@session
def header_of_another_class(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.HEADER, wire.header(5, class_id=50))
    ch.connection.wait_closed()


@session
def header_with_a_weight(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.send("basic.publish", routing_key=q)
    ch.raw(wire.HEADER, wire.header(5, weight=7))
    ch.raw(wire.BODY, b"hello")
    ch.settle(q)
    ch.get_all(q)


@session
def header_cut_off(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.HEADER, wire.header(5)[:9])
    ch.connection.wait_closed()


@session
def header_announcing_more_than_512_mib(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.HEADER, wire.header(536870913))
    ch.connection.round_trip()


@session
def body_longer_than_announced(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.HEADER, wire.header(3))
    ch.raw(wire.BODY, b"hello")
    ch.connection.round_trip()


@session
def body_after_an_empty_content(s: Session) -> None:
    ch = _publishing(s)
    ch.raw(wire.HEADER, wire.header(0))
    ch.raw(wire.BODY, b"")
    ch.connection.wait_closed()


@session
def empty_body_frames_amid_a_content(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.send("basic.publish", routing_key=q)
    ch.raw(wire.HEADER, wire.header(5))
    for part in (b"", b"he", b"", b"llo"):
        ch.raw(wire.BODY, part)
    ch.settle(q)
    ch.get_all(q)


@session
def body_in_single_bytes(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.send("basic.publish", routing_key=q)
    ch.raw(wire.HEADER, wire.header(5))
    for octet in b"hello":
        ch.raw(wire.BODY, bytes([octet]))
    ch.settle(q)
    ch.get_all(q)


@session
def body_of_many_frames_is_cut_to_the_receivers_size(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, bytes(range(256)) * 2000)
    ch.settle(q)
    small = s.connect(frame_max=8192).channel()
    small.get(q)


def _properties(properties: bytes, s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.send("basic.publish", routing_key=q)
    ch.raw(wire.HEADER, wire.header(2, properties))
    ch.raw(wire.BODY, b"ok")
    ch.settle(q)
    ch.get_all(q)


for _title, _payload in {
    "cut off": b"\x80\x00\x09abc",
    "whose flags are missing": b"",
    "whose headers are no table": b"\x20\x00\x00\x00\x00\x09garbage!!",
    "whose headers hold a bad type": b"\x20\x00\x00\x00\x00\x04\x01az\x00",
    "with bytes left over": b"\x80\x00\x02abmore",
    "with an unknown flag": b"\x00\x02",
    "continued in a second word of flags": b"\x80\x01\x00\x00\x02ab",
}.items():
    add(f"framing: properties {_title}", partial(_properties, _payload))
