"""What a user may not do: every operation that is checked, and in which order with other refusals."""

from __future__ import annotations

from functools import partial

from tests.differential.session import Fields, Session, add, session

NOTHING = {"configure": "^$", "write": "^$", "read": "^$"}


def _refused(rights: dict[str, str], method: str, fields: Fields, s: Session) -> None:
    """Guest sets the scene, alice acts. `q` and `x` in the fields become names of this session."""
    guest = s.channel()
    q, x = guest.declare(s.name("q")), guest.exchange(s.name("x"))
    other = guest.exchange(s.name("other"), "fanout")
    names = {"q": q, "x": x, "other": other, "absent": s.name("absent")}
    given = {key: names.get(value, value) if isinstance(value, str) else value for key, value in fields.items()}
    arguments = given.get("arguments")
    if isinstance(arguments, dict):
        given["arguments"] = {key: names.get(value, value) for key, value in arguments.items()}
    ch = s.channel(s.user(**rights))
    ch.call(method, **given)


_PASSIVE = {"queue": "q", "passive": True}
_ABSENT_PASSIVE = {"queue": "absent", "passive": True}
_WITH_DLX = {"queue": "absent", "arguments": {"x-dead-letter-exchange": "x"}}
_WITH_DLX_AND_FAULT: Fields = {"queue": "other", "arguments": {"x-dead-letter-exchange": "dlx", "x-expires": 0}}
_WITH_AE = {"exchange": "absent", "arguments": {"alternate-exchange": "x"}}
_UNKNOWN_TYPE = {"exchange": "absent", "exchange_type": "x-none"}
_NO_WRITE = {"write": "^$"}
_NO_READ = {"read": "^$"}
_NO_CONFIGURE = {"configure": "^$"}
for _title, _rights, _method, _fields in (
    ("declare a queue without configure", _NO_CONFIGURE, "queue.declare", {"queue": "absent"}),
    ("declare an existing queue without configure", _NO_CONFIGURE, "queue.declare", {"queue": "q"}),
    ("declare a queue passively with nothing", NOTHING, "queue.declare", _PASSIVE),
    ("declare a queue passively with read alone", {**NOTHING, "read": ".*"}, "queue.declare", _PASSIVE),
    ("declare a queue passively without configure", _NO_CONFIGURE, "queue.declare", _ABSENT_PASSIVE),
    ("declare a server-named queue without configure", _NO_CONFIGURE, "queue.declare", {"queue": ""}),
    ("delete a queue without configure", _NO_CONFIGURE, "queue.delete", {"queue": "q"}),
    ("delete an absent queue without configure", _NO_CONFIGURE, "queue.delete", {"queue": "absent"}),
    ("purge without read", _NO_READ, "queue.purge", {"queue": "q"}),
    ("purge an absent queue without read", _NO_READ, "queue.purge", {"queue": "absent"}),
    ("bind without write on the queue", _NO_WRITE, "queue.bind", {"queue": "q", "exchange": "x"}),
    ("bind without read on the exchange", _NO_READ, "queue.bind", {"queue": "q", "exchange": "x"}),
    ("bind absent things with nothing", NOTHING, "queue.bind", {"queue": "absent", "exchange": "absent"}),
    ("unbind without write on the queue", _NO_WRITE, "queue.unbind", {"queue": "q", "exchange": "x"}),
    ("unbind without read on the exchange", _NO_READ, "queue.unbind", {"queue": "q", "exchange": "x"}),
    ("get without read", _NO_READ, "basic.get", {"queue": "q"}),
    ("get from an absent queue without read", _NO_READ, "basic.get", {"queue": "absent"}),
    ("consume without read", _NO_READ, "basic.consume", {"queue": "q"}),
    ("consume an absent queue without read", _NO_READ, "basic.consume", {"queue": "absent"}),
    ("declare an exchange without configure", _NO_CONFIGURE, "exchange.declare", {"exchange": "absent"}),
    ("declare an existing exchange without configure", _NO_CONFIGURE, "exchange.declare", {"exchange": "x"}),
    ("declare an exchange passively with nothing", NOTHING, "exchange.declare", {"exchange": "x", "passive": True}),
    ("declare an exchange of unknown type with nothing", NOTHING, "exchange.declare", _UNKNOWN_TYPE),
    ("declare a reserved exchange with nothing", NOTHING, "exchange.declare", {"exchange": "amq.mine"}),
    ("declare the default exchange with nothing", NOTHING, "exchange.declare", {"exchange": ""}),
    ("delete an exchange without configure", _NO_CONFIGURE, "exchange.delete", {"exchange": "x"}),
    ("delete an absent exchange without configure", _NO_CONFIGURE, "exchange.delete", {"exchange": "absent"}),
    ("delete a system exchange with nothing", NOTHING, "exchange.delete", {"exchange": "amq.direct"}),
    ("bind an exchange without write", _NO_WRITE, "exchange.bind", {"destination": "x", "source": "other"}),
    ("bind an exchange without read", _NO_READ, "exchange.bind", {"destination": "x", "source": "other"}),
    ("bind the default exchange without write", _NO_WRITE, "exchange.bind", {"destination": "x", "source": ""}),
    ("bind to the default exchange without write", _NO_WRITE, "exchange.bind", {"destination": "", "source": "x"}),
    ("bind a queue to the default exchange without write", _NO_WRITE, "queue.bind", {"queue": "q", "exchange": ""}),
    ("bind the default exchange without read", _NO_READ, "exchange.bind", {"destination": "x", "source": ""}),
    ("unbind an exchange without write", _NO_WRITE, "exchange.unbind", {"destination": "x", "source": "other"}),
    ("unbind an exchange without read", _NO_READ, "exchange.unbind", {"destination": "x", "source": "other"}),
    ("dead letter without write on the exchange", _NO_WRITE, "queue.declare", _WITH_DLX),
    ("dead letter without read on the queue", _NO_READ, "queue.declare", _WITH_DLX),
    ("dead letter without write and a wrong argument", _NO_WRITE, "queue.declare", _WITH_DLX_AND_FAULT),
    ("alternate exchange without write on it", _NO_WRITE, "exchange.declare", _WITH_AE),
    ("alternate exchange without read", _NO_READ, "exchange.declare", _WITH_AE),
):  # fmt: skip
    add(f"permissions: {_title}", partial(_refused, _rights, _method, _fields))


def _publish(rights: dict[str, str], exchange: str, properties: Fields, s: Session) -> None:
    guest = s.channel()
    guest.exchange(s.name("x"), "topic")
    guest.exchange(s.name("internal"), internal=True)
    names = {"x": s.name("x"), "internal": s.name("internal"), "absent": s.name("absent")}
    ch = s.channel(s.user(**rights))
    ch.publish(names.get(exchange, exchange), s.name("key"), **properties)
    ch.connection.round_trip()


for _title, _rights, _exchange, _properties in (
    ("publish without write", _NO_WRITE, "x", {}),
    ("publish to an absent exchange without write", _NO_WRITE, "absent", {}),
    ("publish to an internal exchange without write", _NO_WRITE, "internal", {}),
    ("publish to the default exchange without write", _NO_WRITE, "", {}),
    ("publish a bad expiration without write", _NO_WRITE, "x", {"expiration": "abc"}),
    ("publish with write on amq.default alone", {**NOTHING, "write": "^amq\\.default$"}, "", {}),
):
    add(f"permissions: {_title}", partial(_publish, _rights, _exchange, _properties))


@session
def pattern_matches_anywhere_in_the_name(s: Session) -> None:
    ch = s.channel(s.user(configure="ell"))
    ch.declare(s.name("hello"))
    ch.declare(s.name("world"))


@session
def pattern_that_is_empty_matches_nothing(s: Session) -> None:
    ch = s.channel(s.user(configure=""))
    ch.declare(s.name("q"))


@session
def pattern_may_be_anchored(s: Session) -> None:
    mine = s.name("mine")
    ch = s.channel(s.user(configure=f"^{mine}$"))
    ch.declare(mine)
    ch.declare(mine + "-too")


@session
def topic_write_is_refused(s: Session) -> None:
    guest = s.channel()
    x = guest.exchange(s.name("x"), "topic")
    user = s.user()
    s.admin.set_topic_permission(user, x, "^allowed", "^allowed")
    ch = s.channel(user)
    q = ch.declare(s.name("q"))
    ch.bind(q, x, "allowed.#")
    ch.publish(x, "allowed.key")
    ch.settle(q)
    ch.get_all(q)
    ch.publish(x, "forbidden.key")
    ch.connection.round_trip()


@session
def topic_write_is_checked_for_extra_keys(s: Session) -> None:
    guest = s.channel()
    x = guest.exchange(s.name("x"), "topic")
    user = s.user()
    s.admin.set_topic_permission(user, x, "^allowed", ".*")
    ch = s.channel(user)
    ch.publish(x, "allowed.key", headers={"CC": ["forbidden.key"]})
    ch.connection.round_trip()


@session
def topic_read_is_refused(s: Session) -> None:
    guest = s.channel()
    x = guest.exchange(s.name("x"), "topic")
    user = s.user()
    s.admin.set_topic_permission(user, x, ".*", "^allowed")
    ch = s.channel(user)
    q = ch.declare(s.name("q"))
    ch.bind(q, x, "forbidden.#")
    ch.connection.round_trip()


@session
def topic_permission_does_not_touch_other_types(s: Session) -> None:
    guest = s.channel()
    x = guest.exchange(s.name("x"), "direct")
    user = s.user()
    s.admin.set_topic_permission(user, x, "^$", "^$")
    ch = s.channel(user)
    q = ch.declare(s.name("q"))
    ch.bind(q, x, "k")
    ch.publish(x, "k")
    ch.settle(q)
    ch.get_all(q)


@session
def topic_permission_with_the_users_name(s: Session) -> None:
    guest = s.channel()
    x = guest.exchange(s.name("x"), "topic")
    user = s.user()
    s.admin.set_topic_permission(user, x, "^{username}\\.", ".*")
    ch = s.channel(user)
    ch.publish(x, f"{user}.k")
    ch.publish(x, "other.k")
    ch.connection.round_trip()
