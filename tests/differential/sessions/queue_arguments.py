"""Every argument of queue.declare: values that are taken, refused and not equivalent to those of before."""

from __future__ import annotations

from functools import partial

from tests.differential import wire
from tests.differential.session import Fields, Session, add, session
from tests.differential.wire import Typed

TEN_YEARS = 315_360_000_000


def _declared(arguments: Fields, s: Session, **fields: object) -> None:
    ch = s.channel()
    ch.declare(s.name("q"), arguments=arguments, **fields)


def _show(value: object) -> str:
    return f"{value.tag} {value.value!r}" if isinstance(value, Typed) else repr(value)


# ---- one argument at a time ----

_VALUES: dict[str, list[object]] = {
    "x-message-ttl": [0, 1, 60000, TEN_YEARS, TEN_YEARS + 1, -1, "60000", True, 1.5, None, b"1", {}, [1]],
    "x-expires": [1, 60000, 0, -1, TEN_YEARS, TEN_YEARS + 1, "60000", True, 1.5, None],
    "x-max-length": [0, 1, 2**40, -1, "10", True, 1.5, None],
    "x-max-length-bytes": [0, 1, 2**40, -1, "10", False, 1.5],
    "x-max-priority": [0, 1, 10, 255, 256, -1, "10", True, 1.5, None],
    "x-dead-letter-exchange": ["", "absent-exchange", 1, True, None, b"x"],
    "x-dead-letter-routing-key": ["without-an-exchange", 1],
    "x-dead-letter-strategy": ["at-most-once", "at-least-once", "never", 1],
    "x-overflow": ["drop-head", "reject-publish", "reject-publish-dlx", "drop-tail", "", 1, True],
    "x-queue-mode": ["default", "lazy", "eager", 1],
    "x-queue-version": [1, 2, 3, 0, "1"],
    "x-queue-type": ["classic", "unknown", "", 1, None],
    "x-single-active-consumer": [True, False, "true", 1],
    "x-queue-master-locator": ["client-local", "min-masters", "random", "nowhere", 1],
    "x-queue-leader-locator": ["client-local", "balanced", "nowhere"],
    "x-consumer-timeout": [60000, 0, -1, "60000"],
    "x-delivery-limit": [5],
    "x-max-age": ["1h"],
    "x-stream-max-segment-size-bytes": [1000000],
    "x-initial-cluster-size": [1],
    "x-quorum-initial-group-size": [1],
    "x-max-in-memory-length": [1],
    "x-unknown": [1, "text", None, {"a": [1]}],
    "unknown": [1],
}
for _argument, _values in _VALUES.items():
    for _value in _values:
        add(f"queue arguments: {_argument} is {_show(_value)}", partial(_declared, {_argument: _value}))

# Integers of every width are integers.
for _typed in (
    Typed("b", 5), Typed("B", 5), Typed("s", 5), Typed("u", 5), Typed("I", 5), Typed("i", 5), Typed("l", 5),
    Typed("L", 5), Typed("T", 5), Typed("D", (0, 5)), Typed("f", 5.0),
):  # fmt: skip
    for _argument in ("x-message-ttl", "x-max-length"):
        add(f"queue arguments: {_argument} is {_show(_typed)}", partial(_declared, {_argument: _typed}))


@session
def dead_letter_exchange_of_a_wrong_type_with_a_key(s: Session) -> None:
    _declared({"x-dead-letter-exchange": 1, "x-dead-letter-routing-key": 2}, s)


@session
def dead_letter_routing_key_of_a_wrong_type(s: Session) -> None:
    _declared({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 2}, s)


@session
def several_refused_arguments_name_one(s: Session) -> None:
    _declared({"x-max-length": -1, "x-message-ttl": -1, "x-expires": 0}, s)


@session
def several_refused_arguments_in_another_order(s: Session) -> None:
    _declared({"x-expires": 0, "x-message-ttl": -1, "x-max-length": -1}, s)


@session
def argument_given_twice(s: Session) -> None:
    ch = s.channel()
    one, two = (wire.encode_table({"x-max-length": value})[4:] for value in (1, 2))
    table = wire.Raw(len(one + two).to_bytes(4, "big") + one + two)
    q = ch.declare(s.name("q"), arguments=table)
    for body in (b"1", b"2", b"3"):
        ch.publish("", q, body)
    ch.settle(q)
    ch.declare(q, passive=True)


# ---- declared again with something else ----


def _redeclared(first: Fields, second: Fields, s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=first)
    ch.declare(q, arguments=second)


_CHANGES: dict[str, tuple[object, object]] = {
    "x-message-ttl": (60000, 1),
    "x-expires": (60000, 70000),
    "x-max-length": (10, 20),
    "x-max-length-bytes": (10, 20),
    "x-max-priority": (5, 6),
    "x-dead-letter-exchange": ("amq.direct", "amq.fanout"),
    "x-overflow": ("drop-head", "reject-publish"),
    "x-queue-mode": ("default", "lazy"),
    "x-queue-version": (1, 2),
    "x-queue-type": ("classic", "quorum"),
    "x-single-active-consumer": (True, False),
    "x-queue-master-locator": ("client-local", "random"),
    "x-consumer-timeout": (60000, 70000),
    "x-unknown": (1, 2),
}
for _argument, (_first, _second) in _CHANGES.items():
    _title = f"queue arguments: redeclared {{}} {_argument}"
    add(_title.format("with another"), partial(_redeclared, {_argument: _first}, {_argument: _second}))
    add(_title.format("without its"), partial(_redeclared, {_argument: _first}, {}))
    add(_title.format("with a new"), partial(_redeclared, {}, {_argument: _first}))
    add(_title.format("with the same"), partial(_redeclared, {_argument: _first}, {_argument: _first}))

_DLX: Fields = {"x-dead-letter-exchange": "amq.direct"}
for _title, _one, _two in (
    (
        "with another dead letter key",
        _DLX | {"x-dead-letter-routing-key": "a"},
        _DLX | {"x-dead-letter-routing-key": "b"},
    ),
    ("without its dead letter key", _DLX | {"x-dead-letter-routing-key": "a"}, _DLX),
    ("with a ttl of another width", {"x-message-ttl": 5}, {"x-message-ttl": Typed("l", 5)}),
    ("with a ttl in a byte", {"x-message-ttl": Typed("l", 5)}, {"x-message-ttl": Typed("b", 5)}),
    ("with a ttl as text", {"x-message-ttl": 5}, {"x-message-ttl": "5"}),
    ("with a length as text", {"x-max-length": 5}, {"x-max-length": "5"}),
    ("with an overflow as number", {"x-overflow": "drop-head"}, {"x-overflow": 5}),
    ("with two differences", {"x-message-ttl": 5, "x-max-length": 5}, {"x-message-ttl": 6, "x-max-length": 6}),
    ("with two differences reversed", {"x-max-length": 5, "x-message-ttl": 5}, {"x-max-length": 6, "x-message-ttl": 6}),
    ("with an invalid value", {"x-message-ttl": 5}, {"x-message-ttl": -1}),
):
    add(f"queue arguments: redeclared {_title}", partial(_redeclared, _one, _two))


# ---- queues of other types ----


def _typed_queue(kind: str, arguments: Fields, fields: Fields, s: Session) -> None:
    name = fields.get("queue", s.name("q"))
    ch = s.channel()
    given = {"durable": True} | {key: value for key, value in fields.items() if key != "queue"}
    ch.call("queue.declare", queue=name, arguments={"x-queue-type": kind} | arguments, **given)


_PROPERTIES: dict[str, Fields] = {
    "transient": {"durable": False},
    "exclusive": {"exclusive": True},
    "auto-delete": {"auto_delete": True},
    "named by the server": {"queue": ""},
}
for _kind in ("quorum", "stream"):
    for _title, _fields in _PROPERTIES.items():
        add(f"queue arguments: {_kind} queue, {_title}", partial(_typed_queue, _kind, {}, _fields))
    for _argument, _value in {
        "x-message-ttl": 1000,
        "x-expires": 60000,
        "x-max-priority": 5,
        "x-queue-mode": "lazy",
        "x-single-active-consumer": True,
        "x-dead-letter-exchange": "",
        "x-max-length": 10,
        "x-max-length-bytes": 1000000,
        "x-max-age": "1h",
        "x-delivery-limit": 3,
        "x-stream-max-segment-size-bytes": 1000000,
        "x-overflow": "reject-publish-dlx",
        "x-unknown": 1,
    }.items():
        _title = f"queue arguments: {_kind} queue with {_argument}"
        add(_title, partial(_typed_queue, _kind, {_argument: _value}, {}))

for _value in ("1h", "7D", "soon", "1x", "", 5):
    add(
        f"queue arguments: stream with x-max-age {_value!r}", partial(_typed_queue, "stream", {"x-max-age": _value}, {})
    )
for _value in (0, -1, "3"):
    _title = f"queue arguments: quorum queue with x-delivery-limit {_value!r}"
    add(_title, partial(_typed_queue, "quorum", {"x-delivery-limit": _value}, {}))
for _value in (1, 0, -1):
    for _kind, _argument in (("quorum", "x-quorum-initial-group-size"), ("stream", "x-initial-cluster-size")):
        _title = f"queue arguments: {_kind} queue of {_value} members"
        add(_title, partial(_typed_queue, _kind, {_argument: _value}, {}))

# ---- several faults at once: the first is told ----

# In the order in which they are found.
_FAULTS: dict[str, object] = {
    "x-dead-letter-exchange": 5,
    "x-queue-type": "nope",
    "x-expires": 0,
    "x-message-ttl": -1,
    "x-max-length": -1,
    "x-max-length-bytes": -1,
    "x-max-priority": 256,
    "x-overflow": "nope",
    "x-queue-mode": "nope",
    "x-single-active-consumer": 5,
}
_NAMES = list(_FAULTS)
for _place, _argument in enumerate(_NAMES[:-1]):
    _later = {name: _FAULTS[name] for name in reversed(_NAMES[_place:])}
    add(f"queue arguments: wrong from {_argument} on", partial(_declared, _later))
_OTHER: dict[str, object] = {"x-max-priority": 5, "x-overflow": "drop-head", "x-queue-mode": "lazy"}
for _place, _argument in enumerate(_OTHER):
    _later = {"x-single-active-consumer": True} | {name: _OTHER[name] for name in reversed(list(_OTHER)[_place:])}
    add(f"queue arguments: redeclared with another {_argument} and more", partial(_redeclared, {}, _later))
