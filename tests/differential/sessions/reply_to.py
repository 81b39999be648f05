"""Direct reply-to: amq.rabbitmq.reply-to as a queue that is none."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session

REPLY_TO = "amq.rabbitmq.reply-to"


def _asking(s: Session) -> Channel:
    ch = s.channel()
    ch.consume(REPLY_TO, "replies", no_ack=True)
    return ch


@session
def question_and_answer(s: Session) -> None:
    client, server = _asking(s), s.channel()
    q = server.declare(s.name("q"))
    client.publish("", q, b"question", reply_to=REPLY_TO, correlation_id="1")
    client.settle(q)
    question = server.get(q)
    assert question.properties is not None
    address = str(question.properties["reply_to"])
    server.publish("", address, b"answer", correlation_id="1", mandatory=True)
    client.deliveries(1)
    server.declare(address, passive=True)
    server.declare(address)
    server.publish("", address, b"another answer")
    client.deliveries(1)


@session
def answer_is_confirmed(s: Session) -> None:
    client, server = _asking(s), s.channel()
    q = server.declare(s.name("q"))
    client.publish("", q, reply_to=REPLY_TO)
    client.settle(q)
    question = server.get(q)
    assert question.properties is not None
    server.call("confirm.select")
    server.publish("", str(question.properties["reply_to"]), b"answer")
    server.confirms(1)
    client.deliveries(1)


@session
def answer_to_a_client_that_left(s: Session) -> None:
    client, server = _asking(s), s.channel()
    q = server.declare(s.name("q"))
    client.publish("", q, reply_to=REPLY_TO)
    client.settle(q)
    question = server.get(q)
    assert question.properties is not None
    client.close()
    address = str(question.properties["reply_to"])
    server.publish("", address, b"too late")
    server.connection.round_trip()
    server.declare(address, passive=True)


@session
def question_without_a_consumer(s: Session) -> None:
    ch = s.channel()
    ch.publish("", s.name("q"), reply_to=REPLY_TO)
    ch.connection.round_trip()


@session
def question_from_another_channel(s: Session) -> None:
    client = _asking(s)
    other = client.connection.channel(2)
    other.publish("", s.name("q"), reply_to=REPLY_TO)
    other.connection.round_trip()


@session
def consumer_that_acks(s: Session) -> None:
    s.channel().consume(REPLY_TO, "replies", no_ack=False)


@session
def consumer_twice(s: Session) -> None:
    _asking(s).consume(REPLY_TO, "again", no_ack=True)


@session
def consumer_twice_with_the_same_tag(s: Session) -> None:
    _asking(s).consume(REPLY_TO, "replies", no_ack=True)


@session
def consumer_without_a_tag(s: Session) -> None:
    s.channel().consume(REPLY_TO, "", no_ack=True)


@session
def consumer_cancelled_and_back(s: Session) -> None:
    ch = _asking(s)
    ch.call("basic.cancel", consumer_tag="replies")
    ch.consume(REPLY_TO, "replies", no_ack=True)


@session
def declared_passively(s: Session) -> None:
    s.channel().declare(REPLY_TO, passive=True)


@session
def declared(s: Session) -> None:
    s.channel().declare(REPLY_TO)


@session
def declared_while_consumed(s: Session) -> None:
    ch = _asking(s)
    ch.declare(REPLY_TO)
    ch.declare(REPLY_TO, passive=True)


def _treated_as_a_queue(method: str, fields: Fields, s: Session) -> None:
    ch = _asking(s)
    ch.call(method, queue=REPLY_TO, **fields)


for _method, _fields in {
    "queue.bind": {"exchange": "amq.direct"},
    "queue.unbind": {"exchange": "amq.direct"},
    "queue.purge": {},
    "queue.delete": {},
    "basic.get": {},
}.items():
    add(f"reply to: {_method}", partial(_treated_as_a_queue, _method, _fields))


@session
def address_that_is_missing(s: Session) -> None:
    ch = s.channel()
    ch.declare(REPLY_TO + ".missing", passive=True)


@session
def published_to_a_missing_address(s: Session) -> None:
    ch = s.channel()
    ch.publish("", REPLY_TO + ".missing", mandatory=True)
    ch.connection.round_trip()


@session
def published_to_the_bare_name(s: Session) -> None:
    ch = _asking(s)
    ch.publish("", REPLY_TO, mandatory=True)
    ch.connection.round_trip()


@session
def answer_by_cc(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume("amq.rabbitmq.reply-to", no_ack=True)
    ch.publish("", q, reply_to="amq.rabbitmq.reply-to")
    asked = ch.get(q)
    assert asked.properties is not None
    ch.publish("", q, b"answer", headers={"CC": [asked.properties["reply_to"]]})
    ch.expect("basic.deliver")
    ch.settle(q)
    s.channel().get_all(q)
