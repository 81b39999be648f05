"""How exchanges of every type route: topic patterns, headers, hashes, and the plug-in types."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session
from tests.differential.wire import Typed

# ---- topic ----

_KEYS = ("", ".", "a", "b", "a.", ".a", "a.b", "a..b", "a.b.c", "b.a", "a.b.c.d", "a.a.b", "a.c.b", "#", "*", "a.#")


def _topic(pattern: str, s: Session) -> None:
    """One binding, many keys: the queue ends up with the keys that match."""
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), "topic"), ch.declare(s.name("q"))
    ch.bind(q, x, pattern)
    for key in _KEYS:
        ch.publish(x, key, key.encode())
    ch.settle(q)
    ch.get_all(q)


for _pattern in (
    "", "a", "a.b", "*", "#", "a.*", "*.b", "a.#", "#.b", "*.*", "#.*", "*.#", "a.*.b", "a.#.b", "#.a.#", "*.a.*",
    "a..b", "a.", ".", "#.#", "a.*.#", "A", "a*", "#a", "**",
):  # fmt: skip
    add(f"routing: topic {_pattern!r}", partial(_topic, _pattern))


@session
def topic_with_three_hashes(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), "topic"), ch.declare(s.name("q"))
    ch.bind(q, x, "#.a.#.b.#")
    ch.publish(x, "x.a.y.b.z")
    ch.settle(q)
    ch.get_all(q)


@session
def topic_with_overlapping_patterns_gives_one_copy(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), "topic"), ch.declare(s.name("q"))
    for pattern in ("a.*", "a.#", "#", "*.b", "a.b"):
        ch.bind(q, x, pattern)
    ch.publish(x, "a.b")
    ch.settle(q)
    ch.get_all(q)


@session
def topic_unbound_pattern_by_pattern(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), "topic"), ch.declare(s.name("q"))
    for pattern in ("a.*", "a.#"):
        ch.bind(q, x, pattern)
    for pattern in ("a.*", "a.#"):
        ch.publish(x, "a.b", b"still " + pattern.encode())
        ch.call("queue.unbind", queue=q, exchange=x, routing_key=pattern)
    ch.publish(x, "a.b", mandatory=True)
    ch.expect("basic.return")
    ch.settle(q)
    ch.get_all(q)


# ---- headers ----

_HEADERS: dict[str, Fields] = {
    "none": {},
    "a=1": {"a": 1},
    "a=1 b=2": {"a": 1, "b": 2},
    "a=1 b=2 c=3": {"a": 1, "b": 2, "c": 3},
    "a=2 b=2": {"a": 2, "b": 2},
    "a=1 as a byte": {"a": Typed("b", 1)},
    "a=1 as a long": {"a": Typed("l", 1)},
    "a='1'": {"a": "1"},
    "a=true": {"a": True},
    "a=void": {"a": None},
    "x-a=1": {"x-a": 1},
}


def _headers(arguments: Fields, s: Session) -> None:
    """One binding, many messages: the queue ends up with those whose headers match."""
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), "headers"), ch.declare(s.name("q"))
    ch.bind(q, x, "", **arguments)
    ch.connection.round_trip()
    if 1 in ch.connection.closed_channels:
        return
    for title, headers in _HEADERS.items():
        ch.publish(x, "ignored", title.encode(), headers=headers)
    ch.publish(x, "ignored", b"without headers")
    ch.settle(q)
    ch.get_all(q)


_BINDINGS: dict[str, Fields] = {
    "nothing": {},
    "all of nothing": {"x-match": "all"},
    "any of nothing": {"x-match": "any"},
    "all of a and b": {"x-match": "all", "a": 1, "b": 2},
    "all by default": {"a": 1, "b": 2},
    "any of a and b": {"x-match": "any", "a": 1, "b": 2},
    "a is present": {"x-match": "all", "a": None},
    "a is the text 1": {"a": "1"},
    "a is true": {"a": True},
    "a is a byte": {"a": Typed("b", 1)},
    "x- headers are passed over": {"x-match": "all", "x-a": 1},
    "any of only x- headers": {"x-match": "any", "x-a": 1},
    "all with x": {"x-match": "all-with-x", "x-a": 1},
    "any with x": {"x-match": "any-with-x", "x-a": 1, "a": 2},
    "x-match is unknown": {"x-match": "some", "a": 1},
    "x-match is a number": {"x-match": 1, "a": 1},
    "x-match is void": {"x-match": None, "a": 1},
    "x-match is in capitals": {"x-match": "ALL", "a": 1},
}
for _title, _arguments in _BINDINGS.items():
    add(f"routing: headers, {_title}", partial(_headers, _arguments))


@session
def headers_with_whole_numbers_as_floats(s: Session) -> None:
    ch = s.channel()
    x, whole, float_ = ch.exchange(s.name("x"), "headers"), ch.declare(s.name("whole")), ch.declare(s.name("float"))
    ch.bind(whole, x, "", a=1)
    ch.bind(float_, x, "", b=1.0)
    ch.publish(x, "", b"a=1.0", headers={"a": 1.0})
    ch.publish(x, "", b"b=1", headers={"b": 1})
    ch.publish(x, "", b"b=1.0", headers={"b": 1.0})
    ch.settle(whole, float_)
    ch.get_all(whole, float_)


@session
def headers_bound_twice_gives_one_copy(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), "headers"), ch.declare(s.name("q"))
    ch.bind(q, x, "", **{"x-match": "any", "a": 1})
    ch.bind(q, x, "", **{"x-match": "any", "b": 1})
    ch.publish(x, "", headers={"a": 1, "b": 1})
    ch.settle(q)
    ch.get_all(q)


# ---- direct, fanout and the predeclared ----


@session
def direct_to_several_queues(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"))
    queues = [ch.declare(s.name(name)) for name in ("one", "two", "three")]
    ch.bind(queues[0], x, "k")
    ch.bind(queues[1], x, "k")
    ch.bind(queues[2], x, "other")
    ch.publish(x, "k")
    ch.settle(*queues)
    ch.get_all(*queues)


@session
def fanout_does_not_look_at_keys(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "fanout")
    queues = [ch.declare(s.name(name)) for name in ("one", "two")]
    ch.bind(queues[0], x, "a")
    ch.bind(queues[1], x, "b")
    ch.publish(x, "c", headers={"CC": ["d"]})
    ch.settle(*queues)
    ch.get_all(*queues)


def _predeclared(exchange: str, s: Session) -> None:
    ch = s.channel()
    q, key = ch.declare(s.name("q")), s.name("key")
    ch.bind(q, exchange, key, **{key: "1"})
    ch.publish(exchange, key, headers={key: "1"})
    ch.settle(q)
    ch.get_all(q)


for _exchange in ("amq.direct", "amq.topic", "amq.headers", "amq.match"):
    add(f"routing: predeclared {_exchange}", partial(_predeclared, _exchange))


# ---- plug-in types ----


def _totals(s: Session, ch: Channel, queues: list[str], count: int) -> None:
    """How many messages arrived in all: which queue got which is the hash function's own affair."""
    ch.settle(*queues)
    found = sum(ch.connection.depth(queue) for queue in queues)
    s.note(ch.connection, f"{found} of {count} messages in {len(queues)} queues")


@session
def consistent_hash_puts_each_message_into_one_queue(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "x-consistent-hash")
    queues = [ch.declare(s.name(f"q{number}")) for number in range(3)]
    for queue in queues:
        ch.bind(queue, x, "10")
    for number in range(100):
        ch.publish(x, f"key-{number}", mandatory=True)
    _totals(s, ch, queues, 100)


@session
def consistent_hash_sends_one_key_to_one_queue(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "x-consistent-hash")
    queues = [ch.declare(s.name(f"q{number}")) for number in range(3)]
    for queue in queues:
        ch.bind(queue, x, "1")
    for _ in range(10):
        ch.publish(x, "same")
    ch.settle(*queues)
    s.note(ch.connection, f"depths {sorted(ch.connection.depth(queue) for queue in queues)}")


def _hash_on(arguments: Fields, properties: Fields, s: Session) -> None:
    """All messages are alike in what is hashed and unlike in the routing key: they stay together."""
    ch = s.channel()
    x = ch.exchange(s.name("x"), "x-consistent-hash", arguments=arguments)
    queues = [ch.declare(s.name(f"q{number}")) for number in range(3)]
    for queue in queues:
        ch.bind(queue, x, "1")
    for number in range(30):
        ch.publish(x, f"key-{number}", **properties)
    ch.settle(*queues)
    s.note(ch.connection, f"depths {sorted(ch.connection.depth(queue) for queue in queues)}")


for _title, _declare, _properties in (
    ("a header", {"hash-header": "h"}, {"headers": {"h": "same"}}),
    ("a missing header", {"hash-header": "h"}, {}),
    ("the message id", {"hash-property": "message_id"}, {"message_id": "same"}),
    ("the correlation id", {"hash-property": "correlation_id"}, {"correlation_id": "same"}),
    ("the timestamp", {"hash-property": "timestamp"}, {"timestamp": 5}),
):
    add(f"routing: consistent hash on {_title}", partial(_hash_on, _declare, _properties))


def _hash_refused(arguments: Fields, s: Session) -> None:
    s.channel().exchange(s.name("x"), "x-consistent-hash", arguments=arguments)


for _title, _declare in {
    "an unknown property": {"hash-property": "app_id"},
    "a header and a property": {"hash-header": "h", "hash-property": "message_id"},
}.items():
    add(f"routing: consistent hash refuses {_title}", partial(_hash_refused, _declare))


def _weight(weight: str, s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), "x-consistent-hash"), ch.declare(s.name("q"))
    ch.bind(q, x, weight)
    ch.connection.round_trip()


for _weight_text in ("1", "100", "0", "-1", "heavy", "", "1.5"):
    add(f"routing: consistent hash with weight {_weight_text!r}", partial(_weight, _weight_text))


@session
def random_puts_each_message_into_one_queue(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "x-random")
    queues = [ch.declare(s.name(f"q{number}")) for number in range(3)]
    for queue in queues:
        ch.bind(queue, x)
    for _ in range(50):
        ch.publish(x, "k", mandatory=True)
    _totals(s, ch, queues, 50)


@session
def random_without_queues_returns(s: Session) -> None:
    ch = s.channel()
    ch.publish(ch.exchange(s.name("x"), "x-random"), "k", mandatory=True)
    ch.expect("basic.return")


@session
def modulus_hash_sends_one_key_to_one_queue(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "x-modulus-hash")
    queues = [ch.declare(s.name(f"q{number}")) for number in range(3)]
    for queue in queues:
        ch.bind(queue, x)
    for _ in range(10):
        ch.publish(x, "same", mandatory=True)
    ch.settle(*queues)
    s.note(ch.connection, f"depths {sorted(ch.connection.depth(queue) for queue in queues)}")


@session
def recent_history_replays_to_a_new_binding(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "x-recent-history", arguments={"x-recent-history-length": 2})
    early = ch.declare(s.name("early"))
    ch.bind(early, x)
    for number in range(4):
        ch.publish(x, "k", b"%d" % number)
    ch.settle(early)
    late = ch.declare(s.name("late"))
    ch.bind(late, x)
    ch.connection.round_trip()
    ch.connection.until_depth(late, 2)
    ch.get_all(early, late)


@session
def recent_history_passes_over_messages_that_ask_for_it(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "x-recent-history")
    early = ch.declare(s.name("early"))
    ch.bind(early, x)
    ch.publish(x, "k", b"kept")
    ch.publish(x, "k", b"not kept", headers={"x-recent-history-no-store": True})
    ch.settle(early)
    late = ch.declare(s.name("late"))
    ch.bind(late, x)
    ch.connection.round_trip()
    ch.connection.until_depth(late, 1)
    ch.get_all(late)


def _history_length(value: object, s: Session) -> None:
    s.channel().exchange(s.name("x"), "x-recent-history", arguments={"x-recent-history-length": value})


for _value in (0, -1, "5", 1.5):
    add(f"routing: recent history of length {_value!r}", partial(_history_length, _value))
