"""exchange.declare, delete, bind and unbind: types, flags, arguments and every refusal."""

from __future__ import annotations

from functools import partial

from tests.differential.session import Fields, Session, add, session
from tests.differential.wire import Typed

# ---- declaring ----


def _declared(kind: str, s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), kind)
    ch.exchange(x, kind, passive=True)
    ch.exchange(x, kind)


for _kind in ("direct", "fanout", "topic", "headers"):
    add(f"exchanges: {_kind} declared, passively and again", partial(_declared, _kind))


def _refused_type(kind: str, s: Session) -> None:
    s.channel().exchange(s.name("x"), kind)


for _kind in ("", "x-unknown", "direct ", "\u00fcnbekannt"):
    add(f"exchanges: type {_kind!r} is refused", partial(_refused_type, _kind))


@session
def passively_declared_but_absent(s: Session) -> None:
    s.channel().exchange(s.name("absent"), "direct", passive=True)


@session
def passively_declared_with_other_properties(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "direct")
    ch.exchange(x, "fanout", passive=True, durable=True, auto_delete=True, internal=True)


@session
def passively_declared_with_an_unknown_type(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), "direct")
    ch.exchange(x, "x-unknown", passive=True)


@session
def declared_without_waiting(s: Session) -> None:
    ch = s.channel()
    ch.send("exchange.declare", exchange=s.name("x"), exchange_type="fanout", nowait=True)
    ch.exchange(s.name("x"), "fanout", passive=True)


@session
def declared_with_line_breaks_in_the_name(s: Session) -> None:
    ch = s.channel()
    ch.exchange(s.name("x\r\ny"))
    ch.exchange(s.name("xy"), passive=True)


def _redeclared(first: Fields, second: Fields, s: Session) -> None:
    ch = s.channel()
    ch.exchange(s.name("alternate"), "fanout")
    names = {"AE": s.name("alternate"), "OTHER": s.name("other")}
    for fields in (first, second):
        given = dict(fields)
        arguments = given.pop("arguments", {})
        assert isinstance(arguments, dict)
        spelt = {key: names.get(value, value) for key, value in arguments.items()}
        ch.call("exchange.declare", exchange=s.name("x"), arguments=spelt, **given)


_AE: Fields = {"arguments": {"alternate-exchange": "AE"}}
_OTHER: Fields = {"arguments": {"alternate-exchange": "OTHER"}}
_NONE: Fields = {}
for _title, _first, _second in (
    ("with another type", {"exchange_type": "direct"}, {"exchange_type": "fanout"}),
    ("as durable", {"durable": False}, {"durable": True}),
    ("as transient", {"durable": True}, {"durable": False}),
    ("as auto-delete", {"auto_delete": False}, {"auto_delete": True}),
    ("as internal", {"internal": False}, {"internal": True}),
    ("as not internal", {"internal": True}, {"internal": False}),
    ("with several differences", {"exchange_type": "topic"}, {"exchange_type": "direct", "durable": True}),
    ("with an alternate exchange", _NONE, _AE),
    ("without its alternate exchange", _AE, _NONE),
    ("with another alternate exchange", _AE, _OTHER),
    ("with the same alternate exchange", _AE, _AE),
    ("with an unknown argument", _NONE, {"arguments": {"x-unknown": 1}}),
    ("with another value of an unknown argument", {"arguments": {"u": 1}}, {"arguments": {"u": 2}}),
):
    add(f"exchanges: redeclared {_title}", partial(_redeclared, _first, _second))


def _refused_alternate(value: object, s: Session) -> None:
    s.channel().exchange(s.name("x"), arguments={"alternate-exchange": value})


for _title, _value in {
    "a number": 1,
    "a boolean": True,
    "void": None,
    "a table": {"a": 1},
    "bytes": b"ae",
    "an exchange that is absent": "absent-alternate",
}.items():
    add(f"exchanges: alternate exchange is {_title}", partial(_refused_alternate, _value))


@session
def reserved_name_is_refused(s: Session) -> None:
    s.channel().exchange("amq.mine")


@session
def reserved_name_that_exists_may_be_declared(s: Session) -> None:
    ch = s.channel()
    ch.exchange("amq.direct", "direct", durable=True)
    ch.exchange("amq.fanout", "fanout", durable=True)
    ch.exchange("amq.topic", "topic", durable=True)
    ch.exchange("amq.headers", "headers", durable=True)
    ch.exchange("amq.match", "headers", durable=True)
    ch.exchange("amq.rabbitmq.trace", "topic", durable=True, internal=True)
    ch.exchange("amq.direct", "direct", passive=True)


@session
def predeclared_exchange_redeclared_otherwise(s: Session) -> None:
    s.channel().exchange("amq.direct", "direct", durable=False)


@session
def default_exchange_declared(s: Session) -> None:
    s.channel().exchange("", "direct", durable=True)


@session
def default_exchange_declared_passively(s: Session) -> None:
    s.channel().exchange("", "direct", passive=True)


# ---- deleting ----


@session
def deleted(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"))
    ch.call("exchange.delete", exchange=x)
    ch.exchange(x, passive=True)


@session
def deleted_without_waiting(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"))
    ch.send("exchange.delete", exchange=x, nowait=True)
    ch.exchange(x, passive=True)


@session
def deleted_though_absent(s: Session) -> None:
    ch = s.channel()
    ch.call("exchange.delete", exchange=s.name("absent"))
    ch.call("exchange.delete", exchange=s.name("absent"), if_unused=True)


@session
def deleted_if_unused_while_bound(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind(q, x, "k")
    ch.call("exchange.delete", exchange=x, if_unused=True)


@session
def deleted_if_unused_while_it_is_only_a_destination(s: Session) -> None:
    ch = s.channel()
    source, x = ch.exchange(s.name("source")), ch.exchange(s.name("x"))
    ch.call("exchange.bind", destination=x, source=source)
    ch.call("exchange.delete", exchange=x, if_unused=True)


@session
def deleted_if_unused_after_unbinding(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind(q, x, "k")
    ch.call("queue.unbind", queue=q, exchange=x, routing_key="k")
    ch.call("exchange.delete", exchange=x, if_unused=True)


@session
def deleted_while_bound(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind(q, x, "k")
    ch.call("exchange.delete", exchange=x)
    ch.exchange(x)
    ch.publish(x, "k", mandatory=True)


@session
def default_exchange_deleted(s: Session) -> None:
    s.channel().call("exchange.delete", exchange="")


def _system_exchange(name: str, s: Session) -> None:
    s.channel().call("exchange.delete", exchange=name)


for _name in ("amq.direct", "amq.rabbitmq.trace", "amq.absent"):
    add(f"exchanges: system exchange {_name} deleted", partial(_system_exchange, _name))


@session
def auto_delete_goes_with_its_last_binding(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), auto_delete=True), ch.declare(s.name("q"))
    ch.bind(q, x, "a")
    ch.bind(q, x, "b")
    ch.call("queue.unbind", queue=q, exchange=x, routing_key="a")
    ch.exchange(x, passive=True)
    ch.call("queue.unbind", queue=q, exchange=x, routing_key="b")
    ch.exchange(x, passive=True)


@session
def auto_delete_stays_while_it_never_had_a_binding(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), auto_delete=True)
    ch.publish(x, "k")
    ch.exchange(x, passive=True)


@session
def auto_delete_goes_with_the_queue_it_feeds(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x"), auto_delete=True), ch.declare(s.name("q"))
    ch.bind(q, x)
    ch.call("queue.delete", queue=q)
    ch.exchange(x, passive=True)


@session
def auto_delete_cascades_from_exchange_to_exchange(s: Session) -> None:
    ch = s.channel()
    outer = ch.exchange(s.name("outer"), auto_delete=True)
    inner, q = ch.exchange(s.name("inner"), auto_delete=True), ch.declare(s.name("q"))
    ch.call("exchange.bind", destination=inner, source=outer)
    ch.bind(q, inner)
    ch.call("queue.delete", queue=q)
    ch.call("channel.flow", active=True)
    ch.exchange(outer, passive=True)


# ---- exchange to exchange ----


@session
def bound_to_an_exchange(s: Session) -> None:
    ch = s.channel()
    source, x = ch.exchange(s.name("source"), "topic"), ch.exchange(s.name("x"), "fanout")
    q = ch.declare(s.name("q"))
    ch.bind(q, x)
    ch.call("exchange.bind", destination=x, source=source, routing_key="a.*")
    ch.call("exchange.bind", destination=x, source=source, routing_key="a.*")
    ch.publish(source, "a.b", b"through")
    ch.publish(source, "b.a", b"lost", mandatory=True)
    ch.expect("basic.return")
    ch.call("exchange.unbind", destination=x, source=source, routing_key="a.*")
    ch.publish(source, "a.b", b"no more", mandatory=True)
    ch.expect("basic.return")
    ch.settle(q)
    ch.get_all(q)


@session
def bound_without_waiting(s: Session) -> None:
    ch = s.channel()
    source, x = ch.exchange(s.name("source")), ch.exchange(s.name("x"), "fanout")
    q = ch.declare(s.name("q"))
    ch.send("queue.bind", queue=q, exchange=x, nowait=True)
    ch.send("exchange.bind", destination=x, source=source, routing_key="k", nowait=True)
    ch.publish(source, "k")
    ch.settle(q)
    ch.send("exchange.unbind", destination=x, source=source, routing_key="k", nowait=True)
    ch.publish(source, "k", mandatory=True)
    ch.expect("basic.return")
    ch.get_all(q)


def _bind_refused(method: str, destination: str, source: str, s: Session) -> None:
    ch = s.channel()
    ch.exchange(s.name("x"))
    names = {"x": s.name("x"), "absent": s.name("absent"), "gone": s.name("gone")}
    ch.call(method, destination=names.get(destination, destination), source=names.get(source, source))


for _method in ("exchange.bind", "exchange.unbind"):
    for _destination, _source in (
        ("x", "absent"), ("absent", "x"), ("gone", "absent"), ("", "x"), ("x", ""), ("", ""), ("x", "x"),
    ):  # fmt: skip
        _title = (
            f"exchanges: {_method} of {_destination or 'the default exchange'} to {_source or 'the default exchange'}"
        )
        add(_title, partial(_bind_refused, _method, _destination, _source))


@session
def bound_in_a_ring(s: Session) -> None:
    ch = s.channel()
    one, two, three = (ch.exchange(s.name(name), "fanout") for name in ("one", "two", "three"))
    q = ch.declare(s.name("q"))
    for destination, source in ((two, one), (three, two), (one, three)):
        ch.call("exchange.bind", destination=destination, source=source)
    ch.bind(q, three)
    ch.publish(one, "", b"once around")
    ch.publish(three, "", b"from the middle")
    ch.settle(q)
    ch.get_all(q)


@session
def two_ways_to_one_queue_make_one_copy(s: Session) -> None:
    ch = s.channel()
    top, left, right = (ch.exchange(s.name(name), "fanout") for name in ("top", "left", "right"))
    q = ch.declare(s.name("q"))
    for x in (left, right):
        ch.call("exchange.bind", destination=x, source=top)
        ch.bind(q, x)
    ch.bind(q, top)
    ch.publish(top, "")
    ch.settle(q)
    ch.get_all(q)


@session
def unbound_though_never_bound(s: Session) -> None:
    ch = s.channel()
    source, x = ch.exchange(s.name("source")), ch.exchange(s.name("x"))
    ch.call("exchange.unbind", destination=x, source=source, routing_key="k")


@session
def internal_exchange_is_reached_through_another(s: Session) -> None:
    ch = s.channel()
    x, internal = ch.exchange(s.name("x"), "fanout"), ch.exchange(s.name("internal"), "fanout", internal=True)
    q = ch.declare(s.name("q"))
    ch.call("exchange.bind", destination=internal, source=x)
    ch.bind(q, internal)
    ch.publish(x, "", b"inside")
    ch.settle(q)
    ch.get_all(q)
    ch.publish(internal, "", b"refused")
    ch.connection.round_trip()


# ---- alternate exchanges ----


@session
def alternate_takes_what_finds_no_queue(s: Session) -> None:
    ch = s.channel()
    alternate = ch.exchange(s.name("alternate"), "fanout")
    x = ch.exchange(s.name("x"), arguments={"alternate-exchange": alternate})
    q, rest = ch.declare(s.name("q")), ch.declare(s.name("rest"))
    ch.bind(q, x, "known")
    ch.bind(rest, alternate)
    ch.publish(x, "known", b"to q", mandatory=True)
    ch.publish(x, "unknown", b"to rest", mandatory=True)
    ch.settle(q, rest)
    ch.get_all(q, rest)


@session
def alternate_that_leads_nowhere_returns_the_message(s: Session) -> None:
    ch = s.channel()
    alternate = ch.exchange(s.name("alternate"), "fanout")
    x = ch.exchange(s.name("x"), arguments={"alternate-exchange": alternate})
    ch.publish(x, "k", mandatory=True)
    ch.expect("basic.return")


@session
def alternate_that_is_absent_is_as_none(s: Session) -> None:
    ch = s.channel()
    x = ch.exchange(s.name("x"), arguments={"alternate-exchange": s.name("absent")})
    ch.publish(x, "k", mandatory=True)
    ch.expect("basic.return")


@session
def alternate_of_an_alternate(s: Session) -> None:
    ch = s.channel()
    last = ch.exchange(s.name("last"), "fanout")
    middle = ch.exchange(s.name("middle"), arguments={"alternate-exchange": last})
    first = ch.exchange(s.name("first"), arguments={"alternate-exchange": middle})
    q = ch.declare(s.name("q"))
    ch.bind(q, last)
    ch.publish(first, "k")
    ch.settle(q)
    ch.get_all(q)


@session
def alternates_in_a_ring(s: Session) -> None:
    ch = s.channel()
    ch.exchange(s.name("a"), arguments={"alternate-exchange": s.name("b")})
    ch.exchange(s.name("b"), arguments={"alternate-exchange": s.name("a")})
    ch.publish(s.name("a"), "k", mandatory=True)
    ch.expect("basic.return")


@session
def alternate_is_not_used_when_a_bound_exchange_leads_nowhere(s: Session) -> None:
    ch = s.channel()
    alternate = ch.exchange(s.name("alternate"), "fanout")
    x = ch.exchange(s.name("x"), "fanout", arguments={"alternate-exchange": alternate})
    dead_end, rest = ch.exchange(s.name("dead-end"), "fanout"), ch.declare(s.name("rest"))
    ch.bind(rest, alternate)
    ch.call("exchange.bind", destination=dead_end, source=x)
    ch.publish(x, "", mandatory=True)
    ch.expect("basic.return")


@session
def alternate_by_policy_gives_way_to_the_argument(s: Session) -> None:
    ch = s.channel()
    by_policy, by_argument = ch.exchange(s.name("policy"), "fanout"), ch.exchange(s.name("argument"), "fanout")
    s.policy(f"^{s.name('x')}", {"alternate-exchange": by_policy}, apply_to="exchanges")
    plain = ch.exchange(s.name("x-plain"))
    both = ch.exchange(s.name("x-both"), arguments={"alternate-exchange": by_argument})
    one, two = ch.declare(s.name("one")), ch.declare(s.name("two"))
    ch.bind(one, by_policy)
    ch.bind(two, by_argument)
    ch.publish(plain, "", b"plain")
    ch.publish(both, "", b"both")
    ch.settle(one, two)
    ch.get_all(one, two)


@session
def arguments_of_every_type_are_taken(s: Session) -> None:
    values: list[object] = [
        "text", 1, 2**40, True, 1.5, None, b"bytes", {"nested": [1, "two"]}, [1, 2],
        Typed("b", -1), Typed("B", 255), Typed("s", -2), Typed("u", 65535), Typed("i", 2**32 - 1),
        Typed("L", 5), Typed("T", 1700000000), Typed("D", (2, 314)), Typed("f", 0.5),
    ]  # fmt: skip
    s.channel().exchange(s.name("x"), arguments={f"k{place}": value for place, value in enumerate(values)})
