"""Length limits: by count, by bytes, by policy, and the three ways to overflow."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session

BODIES = (b"1", b"22", b"333", b"4444", b"55555")


def _overflow(arguments: Fields, s: Session) -> None:
    """Five messages of one to five bytes into a queue that is too small, with confirms and a dead letter queue."""
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    letters: Fields = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    q = ch.declare(s.name("q"), arguments=arguments | letters)
    ch.call("confirm.select")
    for number, body in enumerate(BODIES, 1):
        ch.publish("", q, body)
        ch.confirms(number)
    ch.settle(q, dead)
    ch.get_all(q, dead)


for _mode in ("drop-head", "reject-publish", "reject-publish-dlx"):
    for _title, _limit in {
        "two messages": {"x-max-length": 2},
        "no message": {"x-max-length": 0},
        "six bytes": {"x-max-length-bytes": 6},
        "no byte": {"x-max-length-bytes": 0},
        "three messages and seven bytes": {"x-max-length": 3, "x-max-length-bytes": 7},
    }.items():
        add(f"limits: {_mode}, {_title}", partial(_overflow, _limit | {"x-overflow": _mode}))
add("limits: no overflow mode given", partial(_overflow, {"x-max-length": 2}))


@session
def unacked_messages_do_not_count(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={"x-max-length": 1})
    ch.publish("", q, b"held")
    ch.settle(q)
    held = ch.get(q, no_ack=False)
    ch.publish("", q, b"ready")
    ch.settle(q)
    ch.declare(q, passive=True)
    ch.reject(held.tag, requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def zero_length_still_serves_a_waiting_consumer(s: Session) -> None:
    c = s.connect()
    consumer, ch = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"), arguments={"x-max-length": 0})
    consumer.consume(q, no_ack=True)
    ch.publish("", q)
    consumer.deliveries(1)


@session
def zero_length_that_rejects_does_not_even_serve_a_consumer(s: Session) -> None:
    c = s.connect()
    consumer, ch = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    consumer.consume(q, no_ack=True)
    ch.call("confirm.select")
    ch.publish("", q)
    ch.confirms(1)
    ch.settle(q)


@session
def rejected_without_confirms_is_dropped_silently(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.publish("", q, b"1", mandatory=True)
    ch.publish("", q, b"2", mandatory=True)
    ch.settle(q)
    ch.get_all(q)


def _policy(definition: Fields, arguments: Fields, s: Session) -> None:
    ch = s.channel()
    s.policy(f"^{s.name('q')}$", definition, apply_to="queues")
    q = ch.declare(s.name("q"), arguments=arguments)
    _publish_all(ch, q)
    ch.get_all(q)


def _publish_all(ch: Channel, queue: str) -> None:
    for body in BODIES:
        ch.publish("", queue, body)
    ch.settle(queue)


for _title, _definition, _arguments in (
    ("policy alone", {"max-length": 2}, {}),
    ("policy smaller than the argument", {"max-length": 2}, {"x-max-length": 3}),
    ("policy larger than the argument", {"max-length": 3}, {"x-max-length": 2}),
    ("policy of overflow", {"max-length": 2, "overflow": "reject-publish"}, {}),
    ("policy of bytes", {"max-length-bytes": 9}, {}),
    (
        "policy of overflow against the argument",
        {"overflow": "reject-publish"},
        {"x-max-length": 2, "x-overflow": "drop-head"},
    ),
):
    add(f"limits: {_title}", partial(_policy, _definition, _arguments))


@session
def policy_set_later_drops_from_the_head(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _publish_all(ch, q)
    s.policy(f"^{q}$", {"max-length": 2}, apply_to="queues")
    ch.connection.until_depth(q, 2)
    ch.get_all(q)
