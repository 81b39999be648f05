"""basic.consume, cancel and qos: tags, prefetch of both kinds, exclusivity, priorities, single active consumers."""

from __future__ import annotations

from functools import partial

from tests.differential.client import Channel
from tests.differential.session import Fields, Session, add, session
from tests.differential.wire import Typed


def _fill(ch: Channel, queue: str, count: int, first: int = 1) -> None:
    for number in range(first, first + count):
        ch.publish("", queue, b"%d" % number)
    ch.settle(queue)


# ---- consume and cancel ----


@session
def given_a_tag_by_the_server(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 1)
    tag = ch.consume(q, "").text("consumer_tag")
    ch.deliveries(1)
    ch.call("basic.cancel", consumer_tag=tag)


@session
def on_an_absent_queue(s: Session) -> None:
    s.channel().consume(s.name("absent"))


@session
def without_waiting(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 2)
    ch.send("basic.consume", queue=q, consumer_tag="c", nowait=True)
    ch.deliveries(2)
    ch.send("basic.cancel", consumer_tag="c", nowait=True)
    ch.publish("", q, b"after")
    ch.settle(q)
    ch.declare(q, passive=True)


@session
def without_waiting_and_without_a_tag(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 1)
    ch.send("basic.consume", queue=q, nowait=True)
    ch.deliveries(1)


@session
def tag_used_twice_on_a_channel(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q, "same")
    ch.consume(q, "same")


@session
def tag_used_twice_beats_an_absent_queue(s: Session) -> None:
    ch = s.channel()
    ch.consume(ch.declare(s.name("q")), "same")
    ch.consume(s.name("absent"), "same")


@session
def tag_used_on_two_channels(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    q = one.declare(s.name("q"))
    one.consume(q, "same")
    two.consume(q, "same")


@session
def tag_used_again_after_cancel(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q, "same")
    ch.call("basic.cancel", consumer_tag="same")
    ch.consume(q, "same")


@session
def cancelled_though_unknown(s: Session) -> None:
    ch = s.channel()
    ch.call("basic.cancel", consumer_tag="nobody")
    ch.call("basic.cancel", consumer_tag="")


@session
def cancelled_on_another_channel(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    q = one.declare(s.name("q"))
    one.consume(q, "c")
    two.call("basic.cancel", consumer_tag="c")
    two.declare(q, passive=True)


@session
def nothing_is_delivered_after_cancel_ok(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q)
    ch.call("basic.cancel", consumer_tag="c")
    _fill(ch, q, 2)
    ch.get_all(q)


@session
def cancelled_leaves_its_messages_unacked(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 2)
    ch.consume(q)
    last = ch.deliveries(2)[-1]
    ch.call("basic.cancel", consumer_tag="c")
    ch.declare(q, passive=True)
    ch.ack(last.tag, multiple=True)
    ch.settle(q)
    ch.get(q)


@session
def no_local_changes_nothing(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q, no_local=True)
    ch.publish("", q)
    ch.deliveries(1)


@session
def no_ack_deliveries_need_no_ack(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 3)
    ch.consume(q, no_ack=True)
    last = ch.deliveries(3)[-1]
    ch.call("basic.cancel", consumer_tag="c")
    ch.declare(q, passive=True)
    ch.ack(last.tag)
    ch.connection.round_trip()


@session
def consume_ok_comes_before_the_first_delivery(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 3)
    ch.send("basic.consume", queue=q, consumer_tag="c")
    ch.deliveries(3)


@session
def delivery_tags_are_shared_by_consumers_and_gets(s: Session) -> None:
    ch = s.channel()
    one, two = ch.declare(s.name("one")), ch.declare(s.name("two"))
    _fill(ch, one, 2)
    _fill(ch, two, 2)
    ch.get(one)
    ch.consume(one, "c1", no_ack=True)
    ch.deliveries(1)
    ch.get(two, no_ack=False)
    ch.consume(two, "c2")
    ch.deliveries(1)


@session
def round_robin_between_equals(s: Session) -> None:
    c = s.connect()
    one, two, ch = c.channel(1), c.channel(2), c.channel(3)
    q = ch.declare(s.name("q"))
    one.consume(q, "one", no_ack=True)
    two.consume(q, "two", no_ack=True)
    _fill(ch, q, 6)


@session
def consumers_of_one_channel_take_turns(s: Session) -> None:
    c = s.connect()
    one, ch = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"))
    one.consume(q, "a", no_ack=True)
    one.consume(q, "b", no_ack=True)
    _fill(ch, q, 4)


@session
def newcomer_is_served_after_everybody(s: Session) -> None:
    c = s.connect()
    one, ch = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"))
    one.consume(q, "a", no_ack=True)
    _fill(ch, q, 1)
    one.consume(q, "b", no_ack=True)
    _fill(ch, q, 1)
    one.consume(q, "c", no_ack=True)
    _fill(ch, q, 4)


# ---- arguments ----


def _argument(arguments: Fields, s: Session) -> None:
    ch = s.channel()
    ch.consume(ch.declare(s.name("q")), arguments=arguments)


_ARGUMENTS: dict[str, list[object]] = {
    "x-priority": [0, 10, -10, 2**40, "10", True, 1.5, None, Typed("b", 5), Typed("T", 5)],
    "x-cancel-on-ha-failover": [True, "true"],
    "x-stream-offset": ["first", 5],
    "x-consumer-timeout": [60000, "60000"],
    "x-unknown": [1],
}
for _name, _values in _ARGUMENTS.items():
    for _value in _values:
        _shown = f"{_value.tag} {_value.value}" if isinstance(_value, Typed) else repr(_value)
        add(f"consumers: argument {_name} is {_shown}", partial(_argument, {_name: _value}))


# ---- exclusive consumers ----


@session
def exclusive_shuts_others_out(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q, "one", exclusive=True)
    s.channel().consume(q, "two")


@session
def exclusive_shuts_out_its_own_channel(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q, "one", exclusive=True)
    ch.consume(q, "two")


@session
def exclusive_is_refused_while_others_consume(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q, "one")
    s.channel().consume(q, "two", exclusive=True)


@session
def exclusive_leaves_get_and_others_after_cancel(s: Session) -> None:
    ch, other = s.channel(), s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q, "one", exclusive=True)
    other.get(q)
    ch.call("basic.cancel", consumer_tag="one")
    other.consume(q, "two")


# ---- prefetch ----


@session
def prefetch_limits_each_consumer(s: Session) -> None:
    c = s.connect()
    ch, publisher = c.channel(1), c.channel(2)
    q = publisher.declare(s.name("q"))
    _fill(publisher, q, 5)
    ch.call("basic.qos", prefetch_count=2)
    ch.consume(q)
    first, _ = ch.deliveries(2)
    publisher.settle(q)
    publisher.declare(q, passive=True)
    ch.ack(first.tag)
    ch.deliveries(1)
    publisher.settle(q)
    publisher.declare(q, passive=True)


@session
def prefetch_applies_to_later_consumers_only(s: Session) -> None:
    c = s.connect()
    ch, publisher = c.channel(1), c.channel(2)
    early, late = publisher.declare(s.name("early")), publisher.declare(s.name("late"))
    ch.consume(early, "early")
    ch.call("basic.qos", prefetch_count=1)
    ch.consume(late, "late")
    _fill(publisher, early, 3)
    ch.deliveries(3)
    _fill(publisher, late, 3)
    ch.deliveries(1)
    publisher.settle(late)
    publisher.declare(late, passive=True)


@session
def prefetch_of_the_channel_is_shared(s: Session) -> None:
    c = s.connect()
    ch, publisher = c.channel(1), c.channel(2)
    q = publisher.declare(s.name("q"))
    ch.call("basic.qos", prefetch_count=2, global_=True)
    ch.consume(q, "a")
    _fill(publisher, q, 5)
    first, _ = ch.deliveries(2)
    publisher.settle(q)
    publisher.declare(q, passive=True)
    ch.ack(first.tag)
    ch.deliveries(1)
    publisher.settle(q)
    publisher.declare(q, passive=True)


@session
def prefetch_of_the_channel_lifted(s: Session) -> None:
    c = s.connect()
    ch, publisher = c.channel(1), c.channel(2)
    q = publisher.declare(s.name("q"))
    _fill(publisher, q, 4)
    ch.call("basic.qos", prefetch_count=1, global_=True)
    ch.consume(q)
    ch.deliveries(1)
    publisher.settle(q)
    publisher.declare(q, passive=True)
    ch.send("basic.qos", prefetch_count=0, global_=True)
    ch.expect("basic.qos-ok")
    ch.deliveries(3)


@session
def prefetch_does_not_hold_no_ack_consumers(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 3)
    ch.call("basic.qos", prefetch_count=1)
    ch.consume(q, no_ack=True)
    ch.deliveries(3)


@session
def prefetch_zero_is_no_limit(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    _fill(ch, q, 3)
    ch.call("basic.qos", prefetch_count=1)
    ch.call("basic.qos", prefetch_count=0)
    ch.consume(q)
    ch.deliveries(3)


@session
def prefetch_size_is_refused(s: Session) -> None:
    s.channel().call("basic.qos", prefetch_size=1)


@session
def prefetch_size_is_refused_globally(s: Session) -> None:
    s.channel().call("basic.qos", prefetch_size=4096, prefetch_count=1, global_=True)


@session
def prefetch_of_65535(s: Session) -> None:
    s.channel().call("basic.qos", prefetch_count=65535)


@session
def prefetch_slot_is_freed_by_a_requeue(s: Session) -> None:
    c = s.connect()
    ch, publisher = c.channel(1), c.channel(2)
    q = publisher.declare(s.name("q"))
    _fill(publisher, q, 2)
    ch.call("basic.qos", prefetch_count=1)
    ch.consume(q)
    ch.nack(ch.deliveries(1)[0].tag, requeue=True)
    ch.ack(ch.deliveries(1)[0].tag)
    ch.deliveries(1)


# ---- priorities ----


@session
def priority_serves_the_higher_first(s: Session) -> None:
    c = s.connect()
    low, high, ch = c.channel(1), c.channel(2), c.channel(3)
    q = ch.declare(s.name("q"))
    for channel, tag, priority in ((low, "low", 1), (high, "high", 10)):
        channel.call("basic.qos", prefetch_count=2)
        channel.consume(q, tag, arguments={"x-priority": priority})
    _fill(ch, q, 5)
    high.ack(high.deliveries(2)[0].tag)
    high.deliveries(1)
    low.deliveries(2)


@session
def priority_of_none_is_zero(s: Session) -> None:
    c = s.connect()
    plain, negative, ch = c.channel(1), c.channel(2), c.channel(3)
    q = ch.declare(s.name("q"))
    negative.consume(q, "negative", arguments={"x-priority": -1})
    plain.consume(q, "plain")
    _fill(ch, q, 3)


# ---- single active consumer ----

SINGLE: Fields = {"x-single-active-consumer": True}


@session
def single_active_is_the_first(s: Session) -> None:
    c = s.connect()
    one, two, ch = c.channel(1), c.channel(2), c.channel(3)
    q = ch.declare(s.name("q"), arguments=SINGLE)
    one.consume(q, "one")
    two.consume(q, "two")
    _fill(ch, q, 3)
    one.deliveries(3)
    ch.declare(q, passive=True)


@session
def single_active_passes_on_when_it_is_cancelled(s: Session) -> None:
    c = s.connect()
    one, two, ch = c.channel(1), c.channel(2), c.channel(3)
    q = ch.declare(s.name("q"), arguments=SINGLE)
    one.consume(q, "one", no_ack=True)
    two.consume(q, "two", no_ack=True)
    _fill(ch, q, 1)
    one.deliveries(1)
    one.call("basic.cancel", consumer_tag="one")
    _fill(ch, q, 2, first=2)
    two.deliveries(2)


@session
def single_active_passes_on_when_its_channel_is_closed(s: Session) -> None:
    c = s.connect()
    one, two, ch = c.channel(1), c.channel(2), c.channel(3)
    q = ch.declare(s.name("q"), arguments=SINGLE)
    one.consume(q, "one")
    two.consume(q, "two")
    _fill(ch, q, 2)
    one.deliveries(2)
    one.close()
    two.deliveries(2)


@session
def single_active_and_exclusive_do_not_mix(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), arguments=SINGLE)
    ch.consume(q, "one", exclusive=True)


@session
def single_active_stays_blocked_by_its_prefetch(s: Session) -> None:
    c = s.connect()
    one, two, ch = c.channel(1), c.channel(2), c.channel(3)
    q = ch.declare(s.name("q"), arguments=SINGLE)
    one.call("basic.qos", prefetch_count=1)
    one.consume(q, "one")
    two.consume(q, "two")
    _fill(ch, q, 3)
    one.deliveries(1)
    ch.settle(q)
    ch.declare(q, passive=True)


@session
def single_active_leaves_get_alone(s: Session) -> None:
    c = s.connect()
    one, ch = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"), arguments=SINGLE)
    one.call("basic.qos", prefetch_count=1)
    one.consume(q, "one")
    _fill(ch, q, 2)
    one.deliveries(1)
    ch.get(q)


@session
def single_active_and_priorities(s: Session) -> None:
    c = s.connect()
    one, low, high, ch = (c.channel(number) for number in (1, 2, 3, 4))
    q = ch.declare(s.name("q"), arguments=SINGLE)
    one.consume(q, "one", no_ack=True)
    low.consume(q, "low", no_ack=True, arguments={"x-priority": 1})
    high.consume(q, "high", no_ack=True, arguments={"x-priority": 10})
    one.call("basic.cancel", consumer_tag="one")
    _fill(ch, q, 2)
    ch.settle(q)
