"""Quorum queues and streams, as far as a client of AMQP 0-9-1 sees them."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session

QUORUM: Fields = {"x-queue-type": "quorum"}
STREAM: Fields = {"x-queue-type": "stream"}


def _declared(s: Session, kind: Fields, **arguments: object) -> tuple[Channel, str]:
    ch = s.channel()
    return ch, ch.declare(s.name("q"), durable=True, arguments=kind | arguments)


def _publish(ch: Channel, queue: str, count: int) -> None:
    """With confirms: a queue that replicates has a message when it says so."""
    ch.call("confirm.select")
    for number in range(count):
        ch.publish("", queue, b"%d" % (number + 1), delivery_mode=2)
    ch.confirms(count)


# ---- quorum ----


@session
def quorum_queue_takes_and_gives(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    _publish(ch, q, 3)
    ch.connection.until_depth(q, 3)
    for _ in range(3):
        ch.ack(ch.get(q, no_ack=False).tag)


@session
def quorum_queue_redelivers_with_a_count(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    _publish(ch, q, 1)
    consumer = ch.connection.channel(2)
    consumer.call("basic.qos", prefetch_count=1)
    consumer.consume(q)
    for _ in range(2):
        consumer.reject(consumer.deliveries(1)[0].tag, requeue=True)
    consumer.ack(consumer.deliveries(1)[0].tag)


@session
def quorum_queue_with_a_delivery_limit_dead_letters(s: Session) -> None:
    guest = s.channel()
    dead = guest.declare(s.name("dead"))
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-delivery-limit": 1}
    ch, q = _declared(s, QUORUM, **letters)
    _publish(ch, q, 1)
    consumer = ch.connection.channel(2)
    consumer.call("basic.qos", prefetch_count=1)
    consumer.consume(q)
    for _ in range(2):
        consumer.reject(consumer.deliveries(1)[0].tag, requeue=True)
    guest.connection.until_depth(dead, 1)
    guest.get_all(dead)


@session
def quorum_queue_and_global_qos(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    ch.call("basic.qos", prefetch_count=1, global_=True)
    ch.consume(q)


@session
def quorum_queue_deleted_if_unused(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    ch.call("queue.delete", queue=q, if_unused=True)


@session
def quorum_queue_deleted_if_empty(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    ch.call("queue.delete", queue=q, if_empty=True)


@session
def quorum_queue_purged(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    _publish(ch, q, 2)
    ch.connection.until_depth(q, 2)
    ch.call("queue.purge", queue=q)


@session
def quorum_queue_that_is_full(s: Session) -> None:
    ch, q = _declared(s, QUORUM, **{"x-max-length": 1})
    _publish(ch, q, 3)
    ch.connection.until_depth(q, 1)
    ch.get(q)


@session
def quorum_queue_and_an_exclusive_consumer(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    ch.consume(q, "one", exclusive=True)
    s.channel().consume(q, "two")


@session
def quorum_queue_with_a_single_active_consumer_and_get(s: Session) -> None:
    ch, q = _declared(s, QUORUM, **{"x-single-active-consumer": True})
    ch.get(q)


@session
def quorum_queue_redeclared_as_classic(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    ch.declare(q, durable=True)


@session
def quorum_queue_in_a_transaction(s: Session) -> None:
    ch, q = _declared(s, QUORUM)
    ch.call("tx.select")
    ch.publish("", q)
    ch.call("tx.commit")
    ch.connection.until_depth(q, 1)


# ---- streams ----


@session
def stream_is_read_from_the_first(s: Session) -> None:
    ch, q = _declared(s, STREAM)
    _publish(ch, q, 3)
    consumer = ch.connection.channel(2)
    consumer.call("basic.qos", prefetch_count=10)
    consumer.consume(q, arguments={"x-stream-offset": "first"})
    for event in consumer.deliveries(3):
        consumer.ack(event.tag)


@session
def stream_is_read_from_an_offset(s: Session) -> None:
    ch, q = _declared(s, STREAM)
    _publish(ch, q, 3)
    consumer = ch.connection.channel(2)
    consumer.call("basic.qos", prefetch_count=10)
    consumer.consume(q, arguments={"x-stream-offset": 1})
    consumer.deliveries(2)


@session
def stream_is_read_twice(s: Session) -> None:
    ch, q = _declared(s, STREAM)
    _publish(ch, q, 2)
    for number in (2, 3):
        consumer = ch.connection.channel(number)
        consumer.call("basic.qos", prefetch_count=10)
        consumer.consume(q, f"c{number}", arguments={"x-stream-offset": "first"})
        consumer.deliveries(2)


def _stream_consumer(qos: int, fields: Fields, s: Session) -> None:
    ch, q = _declared(s, STREAM)
    if qos:
        ch.call("basic.qos", prefetch_count=qos)
    ch.consume(q, **fields)


for _title, _qos, _fields in (
    ("without prefetch", 0, {}),
    ("without acks", 10, {"no_ack": True}),
    ("at an unknown offset", 10, {"arguments": {"x-stream-offset": "middle"}}),
    ("at an offset of a wrong type", 10, {"arguments": {"x-stream-offset": True}}),
    ("at the last", 10, {"arguments": {"x-stream-offset": "last"}}),
    ("at the next", 10, {"arguments": {"x-stream-offset": "next"}}),
    ("an hour back", 10, {"arguments": {"x-stream-offset": "1h"}}),
    ("exclusively", 10, {"exclusive": True}),
):
    add(f"queue types: stream consumed {_title}", partial(_stream_consumer, _qos, _fields))


@session
def stream_and_get(s: Session) -> None:
    ch, q = _declared(s, STREAM)
    ch.get(q)


@session
def stream_and_purge(s: Session) -> None:
    ch, q = _declared(s, STREAM)
    ch.call("queue.purge", queue=q)


@session
def stream_and_global_qos(s: Session) -> None:
    ch, q = _declared(s, STREAM)
    ch.call("basic.qos", prefetch_count=1, global_=True)
    ch.consume(q)


@session
def stream_deleted_if_unused(s: Session) -> None:
    ch, q = _declared(s, STREAM)
    ch.call("queue.delete", queue=q, if_unused=True)
