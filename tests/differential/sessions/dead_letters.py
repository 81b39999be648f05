"""Dead lettering: reasons, targets, the x-death header, and circles."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session

TTL = "x-message-ttl"


def _to_queue(queue: str) -> Fields:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def _reject(ch: Channel, queue: str) -> None:
    ch.settle(queue)
    ch.reject(ch.get(queue, no_ack=False).tag, requeue=False)


def _died(declare: Fields, properties: Fields, s: Session) -> None:
    """A message dies in q and is looked at in dead."""
    ch = s.channel()
    x = ch.exchange(s.name("x"), "topic")
    dead = ch.declare(s.name("dead"))
    q = ch.declare(s.name("q"), arguments=_to_queue(dead) | declare)
    ch.bind(q, x, "#")
    ch.publish(x, "the.key", **properties)
    if declare.get("x-max-length") != 0 and TTL not in declare and "expiration" not in properties:
        _reject(ch, q)
    ch.connection.round_trip()
    ch.connection.until_depth(dead, 1)
    ch.get_all(dead)


_PROPERTIES: Fields = {
    "content_type": "text/plain", "delivery_mode": 2, "priority": 4, "headers": {"mine": 1}, "message_id": "m",
    "correlation_id": "c", "reply_to": "r", "timestamp": 1234567890, "type": "t", "app_id": "a",
}  # fmt: skip
for _title, _declare, _given in (
    ("rejected", {}, {}),
    ("expired in the queue", {TTL: 10}, {}),
    ("expired by its own ttl", {}, {"expiration": "10"}),
    ("expired by both", {TTL: 5}, {"expiration": "10"}),
    ("dropped from a full queue", {"x-max-length": 0}, {}),
    ("rejected by a full queue", {"x-max-length": 0, "x-overflow": "reject-publish-dlx"}, {}),
    ("with every property", {}, _PROPERTIES),
    ("with CC and BCC", {}, {"headers": {"CC": ["cc.key"], "BCC": ["bcc.key"]}}),
    ("with an x-death of its own", {}, {"headers": {"x-death": "mine"}}),
    ("with an empty x-death of its own", {}, {"headers": {"x-death": []}}),
):
    add(f"dead letters: {_title}", partial(_died, _declare, _given))


@session
def x_death_given_by_a_client(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    q = ch.declare(s.name("q"), arguments=_to_queue(dead))
    entry = {"count": 5, "reason": "rejected", "queue": q, "exchange": "", "routing-keys": [q]}
    ch.publish("", q, headers={"x-death": [entry]})
    _reject(ch, q)
    ch.settle(q, dead)
    ch.get_all(dead)


@session
def nacked_several_at_once(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    q = ch.declare(s.name("q"), arguments=_to_queue(dead))
    for number in range(3):
        ch.publish("", q, b"%d" % number)
    ch.settle(q)
    for _ in range(3):
        ch.get(q, no_ack=False)
    ch.nack(0, multiple=True, requeue=False)
    ch.settle(q, dead)
    ch.get_all(dead)


@session
def requeued_messages_do_not_die(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    q = ch.declare(s.name("q"), arguments=_to_queue(dead))
    ch.publish("", q)
    ch.settle(q)
    ch.reject(ch.get(q, no_ack=False).tag, requeue=True)
    ch.settle(q, dead)
    ch.declare(dead, passive=True)


@session
def without_a_key_the_original_keys_are_used(s: Session) -> None:
    ch = s.channel()
    dlx = ch.exchange(s.name("dlx"))
    q = ch.declare(s.name("q"), arguments={"x-dead-letter-exchange": dlx})
    queues = [ch.declare(s.name(name)) for name in ("by-key", "by-cc", "by-bcc")]
    ch.bind(queues[0], dlx, q)
    ch.bind(queues[1], dlx, "cc")
    ch.bind(queues[2], dlx, "bcc")
    ch.publish("", q, headers={"CC": ["cc"], "BCC": ["bcc"]})
    _reject(ch, q)
    ch.settle(q, *queues)
    ch.get_all(*queues)


@session
def with_a_key_only_that_is_used(s: Session) -> None:
    ch = s.channel()
    dlx = ch.exchange(s.name("dlx"))
    q = ch.declare(s.name("q"), arguments={"x-dead-letter-exchange": dlx, "x-dead-letter-routing-key": "new"})
    old, cc, new = (ch.declare(s.name(name)) for name in ("old", "cc", "new"))
    ch.bind(old, dlx, q)
    ch.bind(cc, dlx, "cc")
    ch.bind(new, dlx, "new")
    ch.publish("", q, headers={"CC": ["cc"]})
    _reject(ch, q)
    ch.settle(q, old, cc, new)
    ch.get_all(old, cc, new)


@session
def exchange_that_is_absent_drops_the_message(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={"x-dead-letter-exchange": s.name("absent")})
    ch.publish("", q)
    _reject(ch, q)
    ch.settle(q)
    ch.get(q)


@session
def exchange_declared_later_is_found(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={"x-dead-letter-exchange": s.name("dlx")})
    dlx, dead = ch.exchange(s.name("dlx"), "fanout"), ch.declare(s.name("dead"))
    ch.bind(dead, dlx)
    ch.publish("", q)
    _reject(ch, q)
    ch.settle(q, dead)
    ch.get_all(dead)


@session
def alternate_exchange_of_the_dead_letter_exchange(s: Session) -> None:
    ch = s.channel()
    alternate = ch.exchange(s.name("alternate"), "fanout")
    dlx = ch.exchange(s.name("dlx"), arguments={"alternate-exchange": alternate})
    dead = ch.declare(s.name("dead"))
    ch.bind(dead, alternate)
    q = ch.declare(s.name("q"), arguments={"x-dead-letter-exchange": dlx})
    ch.publish("", q)
    _reject(ch, q)
    ch.settle(q, dead)
    ch.get_all(dead)


@session
def internal_dead_letter_exchange(s: Session) -> None:
    ch = s.channel()
    dlx, dead = ch.exchange(s.name("dlx"), "fanout", internal=True), ch.declare(s.name("dead"))
    ch.bind(dead, dlx)
    q = ch.declare(s.name("q"), arguments={"x-dead-letter-exchange": dlx})
    ch.publish("", q)
    _reject(ch, q)
    ch.settle(q, dead)
    ch.get_all(dead)


@session
def deaths_in_several_queues_are_listed_latest_first(s: Session) -> None:
    ch = s.channel()
    last = ch.declare(s.name("last"))
    second = ch.declare(s.name("second"), arguments=_to_queue(last))
    first = ch.declare(s.name("first"), arguments=_to_queue(second) | {TTL: 5})
    ch.publish("", first, headers={"mine": 1})
    ch.connection.round_trip()
    ch.connection.until_depth(second, 1)
    _reject(ch, second)
    ch.settle(second, last)
    ch.get_all(last)


@session
def deaths_of_one_kind_are_counted(s: Session) -> None:
    ch = s.channel()
    retry = s.name("retry")
    q = ch.declare(s.name("q"), arguments=_to_queue(retry))
    ch.declare(retry, arguments=_to_queue(q) | {TTL: 5})
    ch.publish("", q)
    for _ in range(3):
        ch.connection.round_trip()
        ch.connection.until_depth(q, 1)
        _reject(ch, q)
    ch.connection.round_trip()
    ch.connection.until_depth(q, 1)
    ch.get_all(q)


@session
def expiration_is_taken_away_after_the_first_death(s: Session) -> None:
    ch = s.channel()
    second = ch.declare(s.name("second"))
    first = ch.declare(s.name("first"), arguments=_to_queue(second))
    ch.publish("", first, expiration="10")
    ch.connection.round_trip()
    ch.connection.until_depth(second, 1)
    ch.get_all(second)


# ---- circles ----


@session
def queue_that_dead_letters_to_itself_by_ttl(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=_to_queue(s.name("q")) | {TTL: 20})
    ch.publish("", q)
    ch.connection.round_trip()
    ch.connection.until_depth(q, 0)
    ch.get(q)


@session
def queue_that_dead_letters_to_itself_by_rejects(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=_to_queue(s.name("q")))
    ch.publish("", q)
    for _ in range(3):
        _reject(ch, q)
        ch.settle(q)
    ch.get_all(q)


@session
def queue_that_dead_letters_to_itself_by_length(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=_to_queue(s.name("q")) | {"x-max-length": 1})
    ch.publish("", q, b"1")
    ch.publish("", q, b"2")
    ch.settle(q, q)
    ch.get_all(q)


@session
def two_queues_in_a_circle_of_ttls(s: Session) -> None:
    ch = s.channel()
    one = ch.declare(s.name("one"), arguments=_to_queue(s.name("two")) | {TTL: 20})
    two = ch.declare(s.name("two"), arguments=_to_queue(one) | {TTL: 20})
    watcher = ch.declare(s.name("watcher"), arguments={TTL: 300})
    ch.publish("", one)
    ch.publish("", watcher)
    ch.connection.round_trip()
    ch.connection.until_depth(watcher, 0)
    ch.declare(one, passive=True)
    ch.declare(two, passive=True)


@session
def circle_is_cut_but_other_queues_get_the_message(s: Session) -> None:
    ch = s.channel()
    dlx, copy = ch.exchange(s.name("dlx"), "fanout"), ch.declare(s.name("copy"))
    q = ch.declare(s.name("q"), arguments={"x-dead-letter-exchange": dlx, TTL: 5})
    ch.bind(copy, dlx)
    ch.bind(q, dlx)
    ch.publish("", q)
    ch.connection.round_trip()
    ch.connection.until_depth(copy, 1)
    ch.settle(q)
    ch.declare(q, passive=True)
    ch.get_all(copy)


# ---- what does not die ----


@session
def deleted_and_purged_messages_are_not_dead_lettered(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    q = ch.declare(s.name("q"), arguments=_to_queue(dead))
    ch.publish("", q)
    ch.settle(q)
    ch.call("queue.purge", queue=q)
    ch.publish("", q)
    ch.settle(q)
    ch.call("queue.delete", queue=q)
    ch.settle(dead)
    ch.declare(dead, passive=True)


@session
def acked_messages_do_not_die(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    q = ch.declare(s.name("q"), arguments=_to_queue(dead))
    ch.publish("", q)
    ch.settle(q)
    ch.ack(ch.get(q, no_ack=False).tag)
    ch.settle(q, dead)
    ch.declare(dead, passive=True)


@session
def dead_letter_exchange_by_policy(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    definition: Fields = {"dead-letter-exchange": "", "dead-letter-routing-key": dead}
    s.policy(f"^{s.name('q')}$", definition, apply_to="queues")
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    _reject(ch, q)
    ch.settle(q, dead)
    ch.get_all(dead)


@session
def dead_letter_argument_wins_over_the_policy(s: Session) -> None:
    ch = s.channel()
    by_policy, by_argument = ch.declare(s.name("policy")), ch.declare(s.name("argument"))
    definition: Fields = {"dead-letter-exchange": "", "dead-letter-routing-key": by_policy}
    s.policy(f"^{s.name('q')}$", definition, apply_to="queues")
    q = ch.declare(s.name("q"), arguments=_to_queue(by_argument))
    ch.publish("", q)
    _reject(ch, q)
    ch.settle(q, by_policy, by_argument)
    ch.get_all(by_policy, by_argument)


@session
def persistent_message_stays_persistent(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"), durable=True)
    q = ch.declare(s.name("q"), durable=True, arguments=_to_queue(dead))
    ch.publish("", q, delivery_mode=2)
    _reject(ch, q)
    ch.settle(q, dead)
    ch.get_all(dead)
