"""basic.get, ack, nack, reject and recover: tags, counts, order, and what is refused."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session


def _filled(s: Session, count: int = 3, **declare: object) -> tuple[Channel, str]:
    """A channel and a queue that holds messages 1, 2, 3 ..."""
    ch = s.channel()
    q = ch.declare(s.name("q"), **declare)
    for number in range(count):
        ch.publish("", q, b"%d" % (number + 1))
    ch.settle(q)
    return ch, q


def _get(ch: Channel, queue: str, count: int) -> list[int]:
    return [ch.get(queue, no_ack=False).tag for _ in range(count)]


# ---- get ----


@session
def get_counts_down(s: Session) -> None:
    ch, q = _filled(s)
    ch.get_all(q)


@session
def get_from_an_empty_queue(s: Session) -> None:
    ch = s.channel()
    ch.get(ch.declare(s.name("q")))


@session
def get_from_an_absent_queue(s: Session) -> None:
    s.channel().get(s.name("absent"))


@session
def get_is_not_limited_by_prefetch(s: Session) -> None:
    ch, q = _filled(s)
    ch.call("basic.qos", prefetch_count=1, global_=True)
    _get(ch, q, 3)


@session
def get_without_ack_counts_tags_too(s: Session) -> None:
    ch, q = _filled(s)
    ch.get(q, no_ack=True)
    ch.ack(ch.get(q, no_ack=False).tag)
    ch.ack(ch.get(q, no_ack=False).tag)
    ch.settle(q)


@session
def get_without_ack_cannot_be_acked(s: Session) -> None:
    ch, q = _filled(s)
    ch.ack(ch.get(q, no_ack=True).tag)
    ch.connection.round_trip()


# ---- tags that are wrong ----


def _wrong_tag(method: str, fields: Fields, s: Session) -> None:
    ch, q = _filled(s)
    _get(ch, q, 1)
    ch.send(method, **fields)
    ch.connection.round_trip()


for _method in ("basic.ack", "basic.nack", "basic.reject"):
    for _title, _fields in {
        "an unknown tag": {"delivery_tag": 99},
        "tag 0": {"delivery_tag": 0},
        "the largest tag": {"delivery_tag": 2**64 - 1},
    }.items():
        add(f"settling: {_method} of {_title}", partial(_wrong_tag, _method, _fields))
    if _method != "basic.reject":
        for _title, _fields in {
            "an unknown tag, multiple": {"delivery_tag": 99, "multiple": True},
            "tag 0, multiple": {"delivery_tag": 0, "multiple": True},
        }.items():
            add(f"settling: {_method} of {_title}", partial(_wrong_tag, _method, _fields))


def _nothing_outstanding(method: str, s: Session) -> None:
    ch = s.channel()
    ch.send(method, delivery_tag=0, multiple=True)
    ch.connection.round_trip()


def _nothing_outstanding_tag_1(method: str, s: Session) -> None:
    ch = s.channel()
    ch.send(method, delivery_tag=1, multiple=True)
    ch.connection.round_trip()


def _settled_twice(method: str, s: Session) -> None:
    ch, q = _filled(s)
    (tag,) = _get(ch, q, 1)
    ch.send(method, delivery_tag=tag)
    ch.send(method, delivery_tag=tag)
    ch.connection.round_trip()


def _on_another_channel(method: str, s: Session) -> None:
    ch, q = _filled(s)
    other = ch.connection.channel(2)
    (tag,) = _get(ch, q, 1)
    other.send(method, delivery_tag=tag)
    ch.connection.round_trip()


for _method in ("basic.ack", "basic.nack", "basic.reject"):
    add(f"settling: {_method} twice", partial(_settled_twice, _method))
    add(f"settling: {_method} on another channel", partial(_on_another_channel, _method))
for _method in ("basic.ack", "basic.nack"):
    add(f"settling: {_method} of everything when there is nothing", partial(_nothing_outstanding, _method))
    add(f"settling: {_method} up to 1 when there is nothing", partial(_nothing_outstanding_tag_1, _method))


# ---- multiple ----


@session
def ack_of_several(s: Session) -> None:
    ch, q = _filled(s, 5)
    tags = _get(ch, q, 4)
    ch.ack(tags[2], multiple=True)
    ch.call("basic.recover", requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def ack_of_all(s: Session) -> None:
    ch, q = _filled(s, 3)
    _get(ch, q, 3)
    ch.ack(0, multiple=True)
    ch.call("basic.recover", requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def ack_out_of_order(s: Session) -> None:
    ch, q = _filled(s, 3)
    tags = _get(ch, q, 3)
    ch.ack(tags[1])
    ch.ack(tags[0])
    ch.call("basic.recover", requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def ack_of_several_passes_over_what_was_acked(s: Session) -> None:
    ch, q = _filled(s, 3)
    tags = _get(ch, q, 3)
    ch.ack(tags[1])
    ch.ack(tags[2], multiple=True)
    ch.connection.round_trip()


@session
def ack_of_several_up_to_one_that_was_acked(s: Session) -> None:
    ch, q = _filled(s, 3)
    tags = _get(ch, q, 3)
    ch.ack(tags[1])
    ch.ack(tags[1], multiple=True)
    ch.connection.round_trip()


@session
def ack_of_several_covers_gets_and_deliveries(s: Session) -> None:
    ch, q = _filled(s, 4)
    _get(ch, q, 2)
    ch.consume(q)
    last = ch.deliveries(2)[-1]
    ch.ack(last.tag, multiple=True)
    ch.call("basic.cancel", consumer_tag="c")
    ch.call("basic.recover", requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def nack_of_several_puts_them_back_in_order(s: Session) -> None:
    ch, q = _filled(s, 4)
    tags = _get(ch, q, 3)
    ch.nack(tags[1], multiple=True, requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def nack_of_all_without_requeue(s: Session) -> None:
    ch, q = _filled(s, 4)
    _get(ch, q, 3)
    ch.nack(0, multiple=True, requeue=False)
    ch.settle(q)
    ch.get_all(q)


# ---- requeueing ----


@session
def rejected_message_returns_to_its_place(s: Session) -> None:
    ch, q = _filled(s, 4)
    tags = _get(ch, q, 2)
    ch.reject(tags[1], requeue=True)
    ch.settle(q)
    ch.reject(tags[0], requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def rejected_message_without_requeue_is_gone(s: Session) -> None:
    ch, q = _filled(s, 2)
    ch.reject(_get(ch, q, 1)[0], requeue=False)
    ch.settle(q)
    ch.get_all(q)


@session
def rejected_message_comes_back_to_its_consumer(s: Session) -> None:
    ch, q = _filled(s, 1)
    ch.consume(q)
    first = ch.deliveries(1)[0]
    ch.reject(first.tag, requeue=True)
    second = ch.deliveries(1)[0]
    ch.ack(second.tag)


@session
def redelivered_stays_set(s: Session) -> None:
    ch, q = _filled(s, 1)
    for _ in range(3):
        ch.nack(_get(ch, q, 1)[0])
        ch.settle(q)
    ch.get_all(q)


@session
def messages_published_meanwhile_stay_behind(s: Session) -> None:
    ch, q = _filled(s, 2)
    tags = _get(ch, q, 2)
    ch.publish("", q, b"3")
    ch.settle(q)
    ch.nack(tags[1], multiple=True)
    ch.settle(q)
    ch.get_all(q)


# ---- recover ----


@session
def recover_puts_everything_back(s: Session) -> None:
    ch, q = _filled(s, 3)
    _get(ch, q, 2)
    ch.call("basic.recover", requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def recover_with_nothing_outstanding(s: Session) -> None:
    s.channel().call("basic.recover", requeue=True)


@session
def recover_without_requeue(s: Session) -> None:
    ch, q = _filled(s, 1)
    _get(ch, q, 1)
    ch.call("basic.recover", requeue=False)


@session
def recover_async_answers_nothing(s: Session) -> None:
    ch, q = _filled(s, 3)
    _get(ch, q, 2)
    ch.send("basic.recover-async", requeue=True)
    ch.settle(q)
    ch.get_all(q)


@session
def recover_async_without_requeue(s: Session) -> None:
    ch, q = _filled(s, 1)
    _get(ch, q, 1)
    ch.send("basic.recover-async", requeue=False)
    ch.connection.round_trip()


@session
def recover_makes_tags_unknown(s: Session) -> None:
    ch, q = _filled(s, 1)
    (tag,) = _get(ch, q, 1)
    ch.call("basic.recover", requeue=True)
    ch.ack(tag)
    ch.connection.round_trip()


@session
def recover_delivers_again_to_a_consumer(s: Session) -> None:
    ch, q = _filled(s, 2)
    ch.call("basic.qos", prefetch_count=2)
    ch.consume(q)
    ch.deliveries(2)
    ch.send("basic.recover-async", requeue=True)
    ch.deliveries(2)


@session
def recover_is_answered_before_it_delivers_again(s: Session) -> None:
    ch, q = _filled(s, 2)
    ch.consume(q)
    ch.deliveries(2)
    ch.call("basic.recover", requeue=True)
    ch.deliveries(2)


@session
def connection_cut_gives_messages_back(s: Session) -> None:
    ch, q = _filled(s, 2)
    lost = s.channel()
    lost.get(q, no_ack=False)
    lost.connection.drop()
    ch.connection.until_depth(q, 2)
    ch.get_all(q)
