"""Priority queues: order, clamping, and how they meet limits, TTL and requeueing."""

from __future__ import annotations

from functools import partial

from tests.differential.session import Fields, Session, add, session

TEN: Fields = {"x-max-priority": 10}


def _ordered(maximum: int, s: Session) -> None:
    """Messages of priorities all over the place come out in the order of the clamped priorities."""
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments={"x-max-priority": maximum})
    for place, priority in enumerate((None, 0, 1, 5, 2, 9, 255, 1, 10, 3, None)):
        ch.publish("", q, b"%d: %s" % (place, str(priority).encode()), priority=priority)
    ch.settle(q)
    ch.get_all(q)


for _maximum in (0, 1, 2, 10, 255):
    add(f"priorities: at most {_maximum}", partial(_ordered, _maximum))


@session
def without_the_argument_priority_means_nothing(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    for priority in (1, 9, 5):
        ch.publish("", q, b"%d" % priority, priority=priority)
    ch.settle(q)
    ch.get_all(q)


@session
def what_was_delivered_is_not_overtaken(s: Session) -> None:
    c = s.connect()
    consumer, ch = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"), arguments=TEN)
    consumer.call("basic.qos", prefetch_count=1)
    ch.publish("", q, b"low", priority=1)
    ch.settle(q)
    consumer.consume(q)
    first = consumer.deliveries(1)[0]
    ch.publish("", q, b"middle", priority=5)
    ch.publish("", q, b"high", priority=9)
    ch.settle(q)
    consumer.ack(first.tag)
    second = consumer.deliveries(1)[0]
    consumer.ack(second.tag)
    consumer.deliveries(1)


@session
def requeued_messages_keep_their_place(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=TEN)
    for body, priority in ((b"low 1", 1), (b"high 1", 9), (b"low 2", 1), (b"high 2", 9)):
        ch.publish("", q, body, priority=priority)
    ch.settle(q)
    tags = [ch.get(q, no_ack=False).tag for _ in range(3)]
    ch.nack(tags[-1], multiple=True)
    ch.settle(q)
    ch.get_all(q)


@session
def length_limit_drops_the_head(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"))
    letters: Fields = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    q = ch.declare(s.name("q"), arguments=TEN | letters | {"x-max-length": 2})
    for body, priority in ((b"low 1", 1), (b"high 1", 9), (b"low 2", 1), (b"high 2", 9)):
        ch.publish("", q, body, priority=priority)
    ch.settle(q, dead)
    ch.get_all(q, dead)


@session
def messages_of_all_priorities_expire(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=TEN | {"x-message-ttl": 30})
    for priority in (1, 9, 5):
        ch.publish("", q, priority=priority)
    ch.connection.round_trip()
    ch.connection.until_depth(q, 0)


@session
def counts_and_purge_cover_all_priorities(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=TEN)
    for priority in (1, 9, 5):
        ch.publish("", q, priority=priority)
    ch.settle(q)
    ch.declare(q, passive=True)
    ch.call("queue.purge", queue=q)


@session
def dead_letter_keeps_its_priority(s: Session) -> None:
    ch = s.channel()
    dead = ch.declare(s.name("dead"), arguments=TEN)
    letters: Fields = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    q = ch.declare(s.name("q"), arguments=letters)
    for priority in (1, 9):
        ch.publish("", q, b"%d" % priority, priority=priority)
    ch.settle(q)
    for _ in range(2):
        ch.reject(ch.get(q, no_ack=False).tag, requeue=False)
    ch.settle(q, dead)
    ch.get_all(dead)
