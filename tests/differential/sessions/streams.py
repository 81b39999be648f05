"""Streams: where reading begins, what an ack is worth, what a message looks like, what is refused."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session
from tests.differential.wire import Typed

STREAM: Fields = {"x-queue-type": "stream"}


def _stream(s: Session, **arguments: object) -> tuple[Channel, str]:
    ch = s.channel()
    return ch, ch.declare(s.name("q"), durable=True, arguments=STREAM | arguments)


def _publish(ch: Channel, queue: str, count: int, first: int = 1) -> None:
    """One confirm each, so that each is a chunk of its own."""
    if first == 1:
        ch.call("confirm.select")
    for number in range(first, first + count):
        ch.publish("", queue, b"%d" % number, delivery_mode=2)
        ch.confirms(number)


def _reader(ch: Channel, prefetch: int = 10, number: int = 2) -> Channel:
    reader = ch.connection.channel(number)
    reader.call("basic.qos", prefetch_count=prefetch)
    return reader


# ---- where reading begins ----


def _from(offset: object, expected: int, s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 3)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": offset})
    reader.deliveries(expected)
    _publish(ch, q, 1, 4)
    reader.deliveries(1)


for _title, _offset, _expected in (
    ("the first", "first", 3),
    ("the last", "last", 1),
    ("the next", "next", 0),
    ("offset 0", 0, 3),
    ("offset 2 in a byte", Typed("b", 2), 1),
    ("offset 2 in a long", Typed("l", 2), 1),
    ("the offset to come", 3, 0),
    ("a time long ago", Typed("T", 1000), 3),
    ("an hour ago", "1h", 3),
    ("a year ago", "1Y", 3),
):
    add(f"streams: read from {_title}", partial(_from, _offset, _expected))


@session
def read_without_an_offset(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 2)
    reader = _reader(ch)
    reader.consume(q)
    _publish(ch, q, 1, 3)
    reader.deliveries(1)


@session
def read_from_an_offset_far_ahead(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 2)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": 4})
    _publish(ch, q, 4, 3)
    reader.deliveries(2)


# ---- acks are credit ----


@session
def prefetch_of_one(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 3)
    reader = _reader(ch, 1)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    for _ in range(3):
        reader.ack(reader.deliveries(1)[0].tag)


@session
def ack_of_several(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 6)
    reader = _reader(ch, 3)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.ack(reader.deliveries(3)[-1].tag, multiple=True)
    reader.deliveries(3)


@session
def ack_of_an_unknown_tag(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 1)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.deliveries(1)
    reader.ack(7)


@session
def reject_brings_nothing_back(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 3)
    reader = _reader(ch, 1)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.reject(reader.deliveries(1)[0].tag, requeue=True)
    reader.reject(reader.deliveries(1)[0].tag, requeue=False)
    reader.deliveries(1)


@session
def nack_of_several_brings_nothing_back(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 4)
    reader = _reader(ch, 2)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.nack(reader.deliveries(2)[-1].tag, multiple=True)
    reader.deliveries(2)


@session
def another_reader_after_a_cancel(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 2)
    reader = _reader(ch)
    reader.consume(q, "one", arguments={"x-stream-offset": "first"})
    reader.deliveries(2)
    reader.call("basic.cancel", consumer_tag="one")
    reader.consume(q, "two", arguments={"x-stream-offset": 1})
    reader.deliveries(1)


@session
def exclusive_reader_and_another(s: Session) -> None:
    ch, q = _stream(s)
    _reader(ch).consume(q, "one", exclusive=True)
    _reader(s.channel()).consume(q, "two")


# ---- what a message looks like ----


def _look(properties: Fields, s: Session) -> None:
    ch, q = _stream(s)
    ch.call("confirm.select")
    ch.publish("", q, b"hello", **properties)
    ch.confirms(1)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.deliveries(1)


_MESSAGES: dict[str, Fields] = {
    "bare": {},
    "transient": {"delivery_mode": 1},
    "with a type": {"content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2},
    "with headers": {"headers": {"a": 1, "z": "last"}, "delivery_mode": 2},
    "with an offset of its own": {"headers": {"x-stream-offset": "mine"}, "delivery_mode": 2},
    "with texts": {"correlation_id": "c", "reply_to": "r", "message_id": "m", "app_id": "a", "delivery_mode": 2},
}
for _title, _properties in _MESSAGES.items():
    add(f"streams: a message {_title}", partial(_look, _properties))


@session
def a_message_through_an_exchange(s: Session) -> None:
    ch, q = _stream(s)
    x = ch.exchange(s.name("x"), "topic")
    ch.bind(q, x, "#")
    ch.call("confirm.select")
    ch.publish(x, "a.key", b"hello", delivery_mode=2)
    ch.confirms(1)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.deliveries(1)


@session
def a_large_message(s: Session) -> None:
    ch, q = _stream(s)
    ch.call("confirm.select")
    ch.publish("", q, b"0123456789" * 30_000, delivery_mode=2)
    ch.confirms(1)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.deliveries(1)


@session
def a_message_in_a_transaction(s: Session) -> None:
    ch, q = _stream(s)
    ch.call("tx.select")
    ch.publish("", q, b"one", delivery_mode=2)
    ch.call("tx.commit")
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.deliveries(1)


@session
def a_queue_and_a_stream_get_the_same(s: Session) -> None:
    ch, q = _stream(s)
    plain = ch.declare(s.name("plain"), durable=True)
    x = ch.exchange(s.name("x"), "fanout")
    ch.bind(q, x)
    ch.bind(plain, x)
    ch.call("confirm.select")
    ch.publish(x, "k", b"hello", delivery_mode=2)
    ch.confirms(1)
    ch.connection.until_depth(plain, 1)
    ch.get(plain)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.deliveries(1)


# ---- declaring and deleting ----


def _declare(arguments: Fields, s: Session) -> None:
    _stream(s, **arguments)


for _argument, _values in {
    "x-max-length-bytes": [0, -1, "1000"],
    "x-stream-max-segment-size-bytes": [0, -1, "1000", 3_000_000_001],
    "x-initial-cluster-size": [1, -1, "1"],
    "x-queue-leader-locator": ["client-local", "balanced", "least-leaders", "nowhere", 1],
}.items():
    for _value in _values:
        add(f"streams: declared with {_argument} {_value!r}", partial(_declare, {_argument: _value}))


@session
def declared_twice(s: Session) -> None:
    ch, q = _stream(s)
    ch.declare(q, durable=True, arguments=STREAM)


@session
def declared_again_with_other_arguments(s: Session) -> None:
    ch, q = _stream(s, **{"x-max-age": "1h"})
    ch.declare(q, durable=True, arguments=STREAM | {"x-max-age": "2h"})


@session
def declared_again_as_a_queue(s: Session) -> None:
    ch, q = _stream(s)
    ch.declare(q, durable=True)


@session
def deleted_if_empty_with_messages(s: Session) -> None:
    ch, q = _stream(s)
    _publish(ch, q, 1)
    ch.call("queue.delete", queue=q, if_empty=True)


@session
def deleted_while_read(s: Session) -> None:
    ch, q = _stream(s)
    reader = _reader(ch)
    reader.consume(q)
    ch.call("queue.delete", queue=q)
    reader.expect("basic.cancel")


@session
def reader_with_a_priority(s: Session) -> None:
    ch, q = _stream(s)
    _reader(ch).consume(q, arguments={"x-priority": 1})


@session
def both_kinds_of_qos(s: Session) -> None:
    ch, q = _stream(s)
    ch.call("basic.qos", prefetch_count=5)
    ch.call("basic.qos", prefetch_count=5, global_=True)
    ch.consume(q)


# ---- super streams ----


@session
def a_super_stream(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "direct", durable=True, arguments={"x-super-stream": True})
    for number in range(2):
        q = ch.declare(s.name(f"x-{number}"), durable=True, arguments=STREAM)
        ch.bind(q, x, str(number), **{"x-stream-partition-order": number})
    ch.call("confirm.select")
    ch.publish(x, "1", b"hello", delivery_mode=2)
    ch.confirms(1)
    reader = _reader(ch)
    reader.consume(q, arguments={"x-stream-offset": "first"})
    reader.deliveries(1)
