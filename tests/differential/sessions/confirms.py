"""Publisher confirms: when they come, for what, and after which return."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session


def _confirming(s: Session) -> Channel:
    ch = s.channel()
    ch.call("confirm.select")
    return ch


@session
def selected_twice(s: Session) -> None:
    _confirming(s).call("confirm.select")


@session
def selected_without_waiting(s: Session) -> None:
    ch = s.channel()
    ch.send("confirm.select", nowait=True)
    ch.publish("", s.name("absent"))
    ch.confirms(1)


@session
def selected_in_a_transaction(s: Session) -> None:
    ch = s.channel()
    ch.call("tx.select")
    ch.call("confirm.select")


@session
def transaction_selected_while_confirming(s: Session) -> None:
    _confirming(s).call("tx.select")


@session
def counting_starts_with_the_first_publish_after_select(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    ch.call("confirm.select")
    ch.publish("", q)
    ch.publish("", q)
    ch.confirms(2)


@session
def counting_is_per_channel(s: Session) -> None:
    c = s.connect()
    for number in (1, 2):
        ch = c.channel(number)
        ch.call("confirm.select")
        ch.publish("", s.name("absent"))
        ch.confirms(1)


@session
def counting_starts_anew_on_a_reopened_channel(s: Session) -> None:
    c = s.connect()
    for _ in range(2):
        ch = c.channel(1)
        ch.call("confirm.select")
        ch.publish("", s.name("absent"))
        ch.confirms(1)
        ch.close()


@session
def unroutable_is_confirmed(s: Session) -> None:
    ch = _confirming(s)
    ch.publish("amq.direct", s.name("nowhere"))
    ch.confirms(1)


@session
def unroutable_and_mandatory_is_returned_then_confirmed(s: Session) -> None:
    ch = _confirming(s)
    ch.publish("amq.direct", s.name("nowhere"), mandatory=True)
    ch.confirms(1)


def _confirmed(declare: Fields, delivery_mode: int, s: Session) -> None:
    ch = _confirming(s)
    q = ch.declare(s.name("q"), **declare)
    for number in range(3):
        ch.publish("", q, b"%d" % number, delivery_mode=delivery_mode)
    ch.confirms(3)
    ch.get_all(q)


for _title, _declare, _mode in (
    ("transient message in a transient queue", {}, 1),
    ("persistent message in a transient queue", {}, 2),
    ("transient message in a durable queue", {"durable": True}, 1),
    ("persistent message in a durable queue", {"durable": True}, 2),
    ("persistent message in a lazy queue", {"durable": True, "arguments": {"x-queue-mode": "lazy"}}, 2),
    ("message in a priority queue", {"durable": True, "arguments": {"x-max-priority": 3}}, 2),
    ("message in an exclusive queue", {"exclusive": True, "durable": True}, 2),
):
    add(f"confirms: {_title}", partial(_confirmed, _declare, _mode))


@session
def many_at_once(s: Session) -> None:
    ch = _confirming(s)
    q = ch.declare(s.name("q"), durable=True)
    for _ in range(200):
        ch.publish("", q, delivery_mode=2)
    ch.confirms(200)
    ch.declare(q, passive=True)


@session
def message_in_several_queues_is_confirmed_once(s: Session) -> None:
    ch = _confirming(s)
    x = ch.exchange(s.name("x"), "fanout")
    for name, durable in (("one", True), ("two", False), ("three", True)):
        ch.bind(ch.declare(s.name(name), durable=durable), x)
    ch.publish(x, "", delivery_mode=2)
    ch.confirms(1)
    ch.connection.round_trip()


@session
def message_that_expires_at_once(s: Session) -> None:
    ch = _confirming(s)
    q = ch.declare(s.name("q"), arguments={"x-message-ttl": 0})
    ch.publish("", q)
    ch.confirms(1)
    ch.declare(q, passive=True)


@session
def message_dropped_from_the_head(s: Session) -> None:
    ch = _confirming(s)
    q = ch.declare(s.name("q"), arguments={"x-max-length": 1})
    for number in range(3):
        ch.publish("", q, b"%d" % number)
    ch.confirms(3)
    ch.get_all(q)


@session
def message_refused_by_a_full_queue(s: Session) -> None:
    ch = _confirming(s)
    q = ch.declare(s.name("q"), arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for number in range(3):
        ch.publish("", q, b"%d" % number)
        ch.confirms(number + 1)
    ch.get_all(q)


@session
def message_refused_by_one_of_two_queues(s: Session) -> None:
    ch = _confirming(s)
    x = ch.exchange(s.name("x"), "fanout")
    full = ch.declare(s.name("full"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    q = ch.declare(s.name("q"))
    ch.bind(full, x)
    ch.bind(q, x)
    ch.publish(x, "")
    ch.confirms(1)
    ch.get_all(q, full)


@session
def message_taken_by_a_consumer_without_acks(s: Session) -> None:
    c = s.connect()
    consumer, ch = c.channel(1), c.channel(2)
    q = consumer.declare(s.name("q"), durable=True)
    consumer.consume(q, no_ack=True)
    ch.call("confirm.select")
    ch.publish("", q, delivery_mode=2)
    ch.confirms(1)
    consumer.deliveries(1)


@session
def message_acked_by_a_consumer(s: Session) -> None:
    c = s.connect()
    consumer, ch = c.channel(1), c.channel(2)
    q = consumer.declare(s.name("q"), durable=True)
    consumer.consume(q)
    ch.call("confirm.select")
    ch.publish("", q, delivery_mode=2)
    consumer.ack(consumer.deliveries(1)[0].tag)
    ch.confirms(1)


@session
def refused_publish_closes_the_channel_without_a_confirm(s: Session) -> None:
    ch = _confirming(s)
    ch.publish(s.name("absent"), "k")
    ch.connection.round_trip()


@session
def confirm_sent_by_the_client_acks_a_delivery(s: Session) -> None:
    """On a confirming channel basic.ack from the client still settles deliveries, by their own numbers."""
    ch = _confirming(s)
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    ch.confirms(1)
    ch.ack(ch.get(q, no_ack=False).tag)
    ch.ack(1)
    ch.connection.round_trip()
