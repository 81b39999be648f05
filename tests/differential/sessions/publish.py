"""basic.publish: the checks in their order, what happens to properties, returns, extra routing keys."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session
from tests.differential.wire import Typed

EVERY_PROPERTY: Fields = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"a": 1, "b": "two"},
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "c-1",
    "reply_to": "somewhere",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": 1234567890,
    "type": "greeting",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}


def _received(ch: Channel, queue: str) -> None:
    """What the queue holds after everything sent was handled, or the refusal."""
    ch.settle(queue)
    if not ch.connection.is_gone and ch.number not in ch.connection.closed_channels:
        ch.get_all(queue)


@session
def every_property_comes_out_as_it_went_in(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, **EVERY_PROPERTY)
    _received(ch, q)


@session
def headers_of_every_type_come_out_as_they_went_in(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    headers = {
        "S": "text", "I": -5, "l": 2**40, "t": True, "d": 1.5, "V": None, "x": b"\x00\xff", "F": {"in": {"ner": 1}},
        "A": [1, "two", [3]], "b": Typed("b", -1), "B": Typed("B", 255), "s": Typed("s", -2), "u": Typed("u", 65535),
        "i": Typed("i", 2**32 - 1), "L": Typed("L", -5), "T": Typed("T", 1234567890), "D": Typed("D", (2, 314)),
        "f": Typed("f", 0.5), "empty": "", "": "no name", "S-bytes": Typed("S", b"\xff\xfe"),
    }  # fmt: skip
    ch.publish("", q, headers=headers)
    _received(ch, q)


@session
def empty_body_and_no_properties(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, b"")
    _received(ch, q)


@session
def empty_headers_stay(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, headers={})
    _received(ch, q)


def _delivery_mode(mode: int, s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), durable=True)
    ch.publish("", q, delivery_mode=mode)
    _received(ch, q)


for _mode in (0, 1, 2, 3, 255):
    add(f"publish: delivery mode {_mode}", partial(_delivery_mode, _mode))


@session
def to_an_absent_exchange(s: Session) -> None:
    ch = s.channel()
    ch.publish(s.name("absent"), "k")
    ch.connection.round_trip()


@session
def to_an_absent_exchange_and_on(s: Session) -> None:
    ch = s.channel()
    for _ in range(3):
        ch.publish(s.name("absent"), "k")
    ch.connection.round_trip()


@session
def to_an_internal_exchange(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), internal=True)
    ch.publish(x, "k")
    ch.connection.round_trip()


@session
def to_the_trace_exchange(s: Session) -> None:
    ch = s.channel()
    ch.publish("amq.rabbitmq.trace", "k")
    ch.connection.round_trip()


@session
def immediate(s: Session) -> None:
    ch = s.channel()
    ch.publish("", s.name("q"), immediate=True)
    ch.connection.round_trip()


@session
def immediate_to_an_absent_exchange(s: Session) -> None:
    ch = s.channel()
    ch.publish(s.name("absent"), "k", immediate=True)
    ch.connection.round_trip()


@session
def to_the_default_exchange_without_such_a_queue(s: Session) -> None:
    ch = s.channel()
    ch.publish("", s.name("absent"))
    ch.publish("", s.name("absent"), mandatory=True)
    ch.expect("basic.return")


@session
def larger_than_sixteen_mebibytes(s: Session) -> None:
    """The default maximum of RabbitMQ 3.10 and of Warren is 128 MiB, that of RabbitMQ 4 16 MiB: a body between them."""
    ch = s.channel()
    ch.send("basic.publish", routing_key=s.name("absent"), exchange="amq.direct")
    ch.content(bytes(16 * 1024 * 1024 + 1))
    ch.connection.round_trip()


@session
def exchange_name_keeps_its_line_breaks(s: Session) -> None:
    ch = s.channel()
    ch.exchange(s.name("x"), "fanout")
    ch.publish(s.name("x\r\n"), "k")
    ch.connection.round_trip()


# ---- expiration ----


def _expiration(text: str, s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, expiration=text)
    _received(ch, q)


for _text in (
    "60000", "315360000000", "315360000001", "-1", "", "abc", "10s", "1.5", " 10", "10 ", "+60000", "060000", "1e3",
    "0x10", "10\n", "٣", "999999999999999999",
):  # fmt: skip
    add(f"publish: expiration {_text!r}", partial(_expiration, _text))


@session
def expiration_is_checked_after_the_exchange(s: Session) -> None:
    ch = s.channel()
    ch.publish(s.name("absent"), "k", expiration="abc")
    ch.connection.round_trip()


@session
def expiration_is_checked_even_when_nothing_is_routed(s: Session) -> None:
    ch = s.channel()
    ch.publish("amq.direct", s.name("k"), expiration="abc", mandatory=True)
    ch.connection.round_trip()


@session
def expiration_and_user_id_both_wrong(s: Session) -> None:
    ch = s.channel()
    ch.publish("amq.direct", s.name("k"), expiration="abc", user_id="somebody")
    ch.connection.round_trip()


# ---- user_id ----


@session
def user_id_of_the_user(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, user_id="guest")
    _received(ch, q)


@session
def user_id_of_somebody_else(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, user_id="somebody")
    _received(ch, q)


@session
def user_id_that_is_empty(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, user_id="")
    _received(ch, q)


@session
def user_id_of_somebody_else_by_an_impersonator(s: Session) -> None:
    ch = s.channel(s.user(tags="impersonator"))
    q = ch.declare(s.name("q"))
    ch.publish("", q, user_id="somebody")
    _received(ch, q)


# ---- CC and BCC ----


def _extra_keys(headers: Fields, s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"))
    queues = [ch.declare(s.name(name)) for name in ("main", "cc", "bcc")]
    for queue, key in zip(queues, ("main", "cc", "bcc"), strict=True):
        ch.bind(queue, x, key)
    ch.publish(x, "main", headers=headers)
    for queue in queues:
        _received(ch, queue)


_EXTRA_KEYS: dict[str, Fields] = {
    "CC": {"CC": ["cc"]},
    "BCC": {"BCC": ["bcc"]},
    "both": {"CC": ["cc"], "BCC": ["bcc"], "other": 1},
    "CC of several with strangers": {"CC": ["cc", 5, "bcc", True]},
    "CC that repeats the routing key": {"CC": ["main", "main"]},
    "CC that is empty": {"CC": []},
    "BCC alone that is empty": {"BCC": []},
    "CC that is text": {"CC": "cc"},
    "BCC that is text": {"BCC": "bcc"},
    "CC that is a table": {"CC": {"cc": 1}},
    "CC that is void": {"CC": None},
    "CC that is a number": {"CC": 1},
    "cc in lower case": {"cc": ["cc"], "bcc": ["bcc"]},
}
for _title, _headers in _EXTRA_KEYS.items():
    add(f"publish: extra keys, {_title}", partial(_extra_keys, _headers))


@session
def extra_keys_name_queues_of_the_default_exchange(s: Session) -> None:
    ch = s.channel()
    one, two = ch.declare(s.name("one")), ch.declare(s.name("two"))
    ch.publish("", one, headers={"CC": [two, s.name("absent")]})
    _received(ch, one)
    _received(ch, two)


@session
def extra_keys_save_a_mandatory_message(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", s.name("absent"), mandatory=True, headers={"BCC": [q]})
    _received(ch, q)


@session
def returned_message_tells_the_first_key_and_no_bcc(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"))
    ch.publish(x, "first", mandatory=True, headers={"CC": ["second"], "BCC": ["third"], "kept": 1})
    ch.expect("basic.return")


# ---- mandatory ----


@session
def mandatory_and_routed(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, mandatory=True)
    _received(ch, q)


@session
def mandatory_and_unroutable_comes_back_whole(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"))
    ch.publish(x, "key", bytes(300_000), mandatory=True, **(EVERY_PROPERTY | {"expiration": "5"}))
    ch.expect("basic.return")


@session
def mandatory_and_unroutable_with_an_empty_body(s: Session) -> None:
    ch = s.channel()
    ch.publish("amq.fanout", s.name("key"), b"", mandatory=True)
    ch.connection.round_trip()


@session
def mandatory_to_a_fanout_without_queues(s: Session) -> None:
    ch = s.channel()
    ch.publish(ch.exchange(s.name("x"), "fanout"), "key", mandatory=True)
    ch.expect("basic.return")


@session
def mandatory_in_a_row_come_back_in_order(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"))
    for number in range(5):
        ch.publish(x, "key", b"%d" % number, mandatory=True)
    for _ in range(5):
        ch.expect("basic.return")


@session
def pipelined_publishes_stay_in_order(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    for number in range(50):
        ch.publish("", q, b"%d" % number)
    _received(ch, q)
