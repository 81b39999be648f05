"""TTL of queues and messages, and queues that expire themselves."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session

TTL = "x-message-ttl"


def _dead_letters(ch: Channel, s: Session) -> tuple[Fields, str]:
    """Arguments that send the dead to a queue, and that queue."""
    queue = ch.declare(s.name("dead"))
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}, queue


@session
def message_expires_in_its_queue(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={TTL: 20})
    ch.publish("", q)
    ch.connection.round_trip()
    ch.connection.until_depth(q, 0)
    ch.get(q)


@session
def message_expires_by_its_own_ttl(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, expiration="20")
    ch.connection.round_trip()
    ch.connection.until_depth(q, 0)
    ch.get(q)


def _shorter_wins(queue_ttl: int, message_ttl: str, s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={TTL: queue_ttl})
    ch.publish("", q, expiration=message_ttl)
    ch.connection.round_trip()
    ch.connection.until_depth(q, 0)


add("expiry: the shorter ttl wins, the queue's", partial(_shorter_wins, 20, "600000"))
add("expiry: the shorter ttl wins, the message's", partial(_shorter_wins, 600000, "20"))


@session
def message_without_ttl_stays(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q, b"stays")
    ch.publish("", q, b"goes", expiration="1")
    ch.publish("", q, b"stays too")
    ch.settle(q)
    ch.declare(q, passive=True)


@session
def expired_message_waits_behind_a_living_head(s: Session) -> None:
    ch = s.channel()
    arguments, dead = _dead_letters(ch, s)
    q = ch.declare(s.name("q"), arguments=arguments)
    ch.publish("", q, b"head")
    ch.publish("", q, b"behind", expiration="1")
    marker = ch.declare(s.name("marker"), arguments={TTL: 50})
    ch.publish("", marker)
    ch.connection.round_trip()
    ch.connection.until_depth(marker, 0)
    ch.declare(q, passive=True)
    ch.get(q)
    ch.connection.until_depth(dead, 1)
    ch.get(q)


def _zero(declare: Fields, properties: Fields, s: Session) -> None:
    """Without a consumer a message of TTL 0 is gone at once; with one it is delivered."""
    c = s.connect()
    ch, consumer = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"), arguments=declare)
    ch.publish("", q, b"nobody waits", **properties)
    ch.settle(q)
    ch.declare(q, passive=True)
    consumer.consume(q, no_ack=True)
    ch.publish("", q, b"somebody waits", **properties)
    consumer.deliveries(1)


add("expiry: zero ttl of a queue", partial(_zero, {TTL: 0}, {}))
add("expiry: zero ttl of a message", partial(_zero, {}, {"expiration": "0"}))


@session
def zero_ttl_dead_letters_at_once(s: Session) -> None:
    ch = s.channel()
    arguments, dead = _dead_letters(ch, s)
    q = ch.declare(s.name("q"), arguments=arguments | {TTL: 0})
    ch.publish("", q)
    ch.connection.round_trip()
    ch.connection.until_depth(dead, 1)
    ch.get_all(dead)


@session
def requeued_message_keeps_its_expiry(s: Session) -> None:
    ch = s.channel()
    arguments, dead = _dead_letters(ch, s)
    q = ch.declare(s.name("q"), arguments=arguments | {TTL: 600})
    ch.publish("", q)
    ch.settle(q)
    ch.reject(ch.get(q, no_ack=False).tag, requeue=True)
    ch.connection.round_trip()
    ch.connection.until_depth(dead, 1)
    ch.get_all(dead)


@session
def unacked_message_does_not_expire(s: Session) -> None:
    c = s.connect()
    ch, other = c.channel(1), c.channel(2)
    arguments, dead = _dead_letters(ch, s)
    q = ch.declare(s.name("q"), arguments=arguments | {TTL: 400})
    marker = ch.declare(s.name("marker"), arguments={TTL: 800})
    ch.publish("", q)
    ch.settle(q)
    got = ch.get(q, no_ack=False)
    other.publish("", marker)
    other.connection.round_trip()
    # The marker's TTL is the clock: when it is gone the message's own time is over too.
    other.connection.until_depth(marker, 0)
    other.declare(dead, passive=True)
    ch.reject(got.tag, requeue=True)
    ch.connection.round_trip()
    other.connection.until_depth(dead, 1)


@session
def messages_expire_in_order(s: Session) -> None:
    ch = s.channel()
    arguments, dead = _dead_letters(ch, s)
    q = ch.declare(s.name("q"), arguments=arguments | {TTL: 30})
    for number in range(5):
        ch.publish("", q, b"%d" % number)
    ch.connection.round_trip()
    ch.connection.until_depth(dead, 5)
    ch.get_all(dead)


@session
def ttl_by_policy(s: Session) -> None:
    ch = s.channel()
    s.policy(f"^{s.name('q')}$", {"message-ttl": 20}, apply_to="queues")
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    ch.connection.round_trip()
    ch.connection.until_depth(q, 0)


# ---- queues that expire ----


@session
def unused_queue_expires(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={"x-expires": 50})
    watcher = ch.declare(s.name("watcher"), arguments={TTL: 600})
    ch.publish("", watcher)
    ch.connection.round_trip()
    # Asking about the queue itself would keep it alive; a message's TTL in another queue is the clock.
    ch.connection.until_depth(watcher, 0)
    ch.declare(q, passive=True)


@session
def consumed_queue_does_not_expire(s: Session) -> None:
    ch = s.channel()
    # Long enough for the consumer to come in time on a busy machine.
    q = ch.declare(s.name("q"), arguments={"x-expires": 800})
    watcher = ch.declare(s.name("watcher"), arguments={TTL: 1600})
    ch.consume(q)
    ch.publish("", watcher)
    ch.connection.round_trip()
    ch.connection.until_depth(watcher, 0)
    ch.declare(q, passive=True)


@session
def expired_queue_does_not_dead_letter(s: Session) -> None:
    ch = s.channel()
    arguments, dead = _dead_letters(ch, s)
    q = ch.declare(s.name("q"), arguments=arguments | {"x-expires": 50})
    watcher = ch.declare(s.name("watcher"), arguments={TTL: 600})
    ch.publish("", q)
    ch.publish("", watcher)
    ch.connection.round_trip()
    ch.connection.until_depth(watcher, 0)
    ch.declare(dead, passive=True)
    ch.declare(q, passive=True)


@session
def expiring_queue_tells_nobody_while_it_is_asked_about(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={"x-expires": 300})
    watcher = ch.declare(s.name("watcher"), arguments={TTL: 900})
    ch.publish("", watcher)
    ch.connection.round_trip()
    while ch.connection.depth(watcher):
        ch.connection.depth(q)
    ch.declare(q, passive=True)
