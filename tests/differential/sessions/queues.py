"""queue.declare, bind, unbind, purge and delete, without arguments: names, flags, exclusivity, every refusal."""

from __future__ import annotations

from functools import partial

from tests.differential.session import Fields, Session, add, session

# ---- declaring ----


@session
def declared_passively_and_again(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.declare(q, passive=True)
    ch.declare(q)


@session
def passively_declared_but_absent(s: Session) -> None:
    s.channel().declare(s.name("absent"), passive=True)


@session
def passively_declared_with_other_properties(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), durable=True)
    ch.declare(q, passive=True, durable=False, auto_delete=True, arguments={"x-message-ttl": 5})


@session
def counts_tell_ready_messages_and_consumers(s: Session) -> None:
    c = s.connect()
    ch, other = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"))
    for body in (b"1", b"2", b"3"):
        ch.publish("", q, body)
    ch.settle(q)
    ch.get(q, no_ack=False)
    other.call("basic.qos", prefetch_count=1)
    other.consume(q)
    other.deliveries(1)
    ch.declare(q, passive=True)
    ch.declare(q)


@session
def declared_without_waiting(s: Session) -> None:
    ch = s.channel()
    ch.send("queue.declare", queue=s.name("q"), nowait=True)
    ch.declare(s.name("q"), passive=True)


@session
def declared_without_waiting_and_refused(s: Session) -> None:
    ch = s.channel()
    ch.send("queue.declare", queue=s.name("absent"), passive=True, nowait=True)
    ch.expect("channel.close")


@session
def named_by_the_server(s: Session) -> None:
    ch = s.channel()
    first = ch.declare()
    second = ch.declare(exclusive=True)
    ch.declare(first, passive=True)
    ch.declare(second, passive=True)
    ch.call("queue.delete", queue=first)


@session
def named_by_the_server_and_declared_again(s: Session) -> None:
    ch = s.channel()
    ch.declare(ch.declare(exclusive=True), exclusive=True)


@session
def empty_name_declared_passively(s: Session) -> None:
    s.channel().declare("", passive=True)


@session
def empty_name_declared_passively_after_another(s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("q"))
    ch.declare("", passive=True)


@session
def reserved_name_is_refused(s: Session) -> None:
    s.channel().declare("amq.mine")


@session
def reserved_name_asked_for_passively(s: Session) -> None:
    s.channel().declare("amq.mine", passive=True)


@session
def reserved_name_of_a_generated_queue(s: Session) -> None:
    s.channel().declare("amq.gen-mine")


@session
def name_with_line_breaks(s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("a\r\nb"))
    ch.declare(s.name("ab"), passive=True)


@session
def name_in_unicode(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("Füße-ウサギ-🐇"))
    ch.publish("", q)
    ch.settle(q)
    ch.get_all(q)
    ch.declare(s.name("fehlt-ü"), passive=True)


@session
def name_that_is_almost_reserved(s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("amq"))
    ch.declare("AMQ.mine" + s.name(""))
    ch.call("queue.delete", queue="AMQ.mine" + s.name(""))


def _redeclared(first: Fields, second: Fields, s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), **first)
    ch.declare(q, **second)


for _title, _first, _second in (
    ("as durable", {"durable": False}, {"durable": True}),
    ("as transient", {"durable": True}, {"durable": False}),
    ("as auto-delete", {"auto_delete": False}, {"auto_delete": True}),
    ("as not auto-delete", {"auto_delete": True}, {"auto_delete": False}),
    ("as exclusive", {"exclusive": False}, {"exclusive": True}),
    ("as not exclusive", {"exclusive": True}, {"exclusive": False}),
    ("as exclusive and durable", {"exclusive": True}, {"exclusive": True, "durable": True}),
    ("as exclusive and transient", {"exclusive": True, "durable": True}, {"exclusive": True, "durable": False}),
    ("with several differences", {"durable": True}, {"auto_delete": True, "arguments": {"x-expires": 1}}),
):
    add(f"queues: redeclared {_title}", partial(_redeclared, _first, _second))


# ---- exclusive ----


def _locked(act: str, s: Session) -> None:
    """Another connection does something to an exclusive queue."""
    owner = s.channel()
    q = owner.declare(s.name("q"), exclusive=True)
    ch = s.channel()
    fields = {"queue.bind": {"exchange": "amq.direct"}, "queue.unbind": {"exchange": "amq.direct"}}
    ch.call(act, queue=q, **fields.get(act, {}))
    owner.declare(q, passive=True)


for _act in (
    "queue.declare", "queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.get", "basic.consume",
):  # fmt: skip
    add(f"queues: exclusive to another connection, {_act}", partial(_locked, _act))


@session
def exclusive_to_another_connection_declared_passively(s: Session) -> None:
    q = s.channel().declare(s.name("q"), exclusive=True)
    s.channel().declare(q, passive=True)


@session
def exclusive_to_another_connection_declared_exclusively(s: Session) -> None:
    q = s.channel().declare(s.name("q"), exclusive=True)
    s.channel().declare(q, exclusive=True)


@session
def exclusive_to_another_connection_and_bound_to_no_exchange(s: Session) -> None:
    q = s.channel().declare(s.name("q"), exclusive=True)
    s.channel().bind(q, s.name("absent"))


@session
def exclusive_to_another_connection_and_bound_with_wrong_arguments(s: Session) -> None:
    owner = s.channel()
    q = owner.declare(s.name("q"), exclusive=True)
    x = owner.exchange(s.name("x"), "headers")
    s.channel().call("queue.bind", queue=q, exchange=x, arguments={"x-match": "some"})


@session
def exclusive_to_another_connection_but_anyone_may_publish(s: Session) -> None:
    owner = s.channel()
    q = owner.declare(s.name("q"), exclusive=True)
    ch = s.channel()
    ch.publish("", q, mandatory=True)
    ch.connection.round_trip()
    owner.settle(q)
    owner.get_all(q)


@session
def exclusive_goes_with_its_connection(s: Session) -> None:
    owner, ch = s.connect(), s.channel()
    q = owner.channel().declare(s.name("q"), exclusive=True)
    owner.close()
    ch.declare(q, passive=True)


@session
def exclusive_goes_with_a_connection_that_is_cut(s: Session) -> None:
    owner, ch = s.connect(), s.channel()
    q = owner.channel().declare(s.name("q"), exclusive=True, durable=True)
    ch.exchange(s.name("x"), "fanout")
    owner.drop()
    # Nothing tells the others when the server has noticed, so they ask until it has.
    ch.connection.until_depth(q, -1)
    ch.declare(q, passive=True)


@session
def exclusive_stays_when_its_channel_is_closed(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    q = one.declare(s.name("q"), exclusive=True)
    one.close()
    two.declare(q, passive=True)


# ---- auto-delete ----


@session
def auto_delete_stays_without_ever_a_consumer(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), auto_delete=True)
    ch.publish("", q)
    ch.settle(q)
    ch.get_all(q)
    ch.declare(q, passive=True)


@session
def auto_delete_goes_when_the_last_consumer_is_cancelled(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"), auto_delete=True)
    ch.consume(q, "one")
    ch.consume(q, "two")
    ch.call("basic.cancel", consumer_tag="one")
    ch.declare(q, passive=True, auto_delete=True)
    ch.call("basic.cancel", consumer_tag="two")
    ch.connection.until_depth(q, -1)
    ch.declare(q, passive=True)


@session
def auto_delete_goes_when_the_consumers_channel_is_closed(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    q = one.declare(s.name("q"), auto_delete=True)
    one.consume(q)
    one.close()
    two.declare(q, passive=True)


# ---- the last declared name ----


def _last_declared(act: str, s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("first"))
    ch.declare(s.name("q"))
    fields = {"queue.bind": {"exchange": "amq.direct"}, "queue.unbind": {"exchange": "amq.direct"}}
    ch.call(act, queue="", **fields.get(act, {}))


def _never_declared(act: str, s: Session) -> None:
    ch = s.channel()
    fields = {"queue.bind": {"exchange": "amq.direct"}, "queue.unbind": {"exchange": "amq.direct"}}
    ch.call(act, queue="", **fields.get(act, {}))


for _act in ("queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.get", "basic.consume"):
    add(f"queues: empty name means the last declared, {_act}", partial(_last_declared, _act))
    add(f"queues: empty name but none declared, {_act}", partial(_never_declared, _act))


@session
def empty_name_and_key_bind_by_the_queues_name(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind("", x, "")
    ch.publish(x, q, b"by name")
    ch.publish(x, "", b"by empty key", mandatory=True)
    ch.expect("basic.return")
    ch.settle(q)
    ch.get_all(q)
    ch.call("queue.unbind", queue="", exchange=x, routing_key="")
    ch.publish(x, q, b"unbound", mandatory=True)
    ch.expect("basic.return")


@session
def empty_name_with_a_key_binds_by_the_key(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind("", x, "k")
    ch.publish(x, "k")
    ch.publish(x, q, mandatory=True)
    ch.expect("basic.return")
    ch.settle(q)
    ch.get_all(q)


@session
def named_queue_with_an_empty_key_binds_by_the_empty_key(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind(q, x, "")
    ch.publish(x, "", b"empty")
    ch.publish(x, q, b"name", mandatory=True)
    ch.expect("basic.return")
    ch.settle(q)
    ch.get_all(q)


@session
def last_declared_is_per_channel(s: Session) -> None:
    c = s.connect()
    c.channel(1).declare(s.name("q"))
    c.channel(2).get("")


@session
def last_declared_is_set_by_a_passive_declare(s: Session) -> None:
    c = s.connect()
    q = c.channel(1).declare(s.name("q"))
    two = c.channel(2)
    two.declare(q, passive=True)
    two.call("queue.purge", queue="")


@session
def last_declared_but_deleted(s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("q"))
    ch.call("queue.delete", queue=s.name("q"))
    ch.get("")


# ---- binding ----


def _binding(method: str, queue: str, exchange: str, s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("q"))
    ch.exchange(s.name("x"))
    names = {"q": s.name("q"), "x": s.name("x"), "no-queue": s.name("no-queue"), "no-exchange": s.name("no-exchange")}
    ch.call(method, queue=names[queue], exchange=names.get(exchange, exchange), routing_key="k")


for _method in ("queue.bind", "queue.unbind"):
    for _queue, _exchange in (
        ("q", "no-exchange"), ("no-queue", "x"), ("no-queue", "no-exchange"), ("q", ""), ("no-queue", ""), ("q", "x"),
    ):  # fmt: skip
        _title = f"queues: {_method} of {_queue} to {_exchange or 'the default exchange'}"
        add(_title, partial(_binding, _method, _queue, _exchange))


@session
def bound_twice_gets_one_copy(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind(q, x, "k")
    ch.bind(q, x, "k")
    ch.publish(x, "k")
    ch.settle(q)
    ch.get_all(q)
    ch.call("queue.unbind", queue=q, exchange=x, routing_key="k")
    ch.publish(x, "k", mandatory=True)
    ch.expect("basic.return")


@session
def bound_with_other_arguments_is_a_second_binding(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind(q, x, "k", a=1)
    ch.bind(q, x, "k", a=2)
    ch.publish(x, "k", b"one copy")
    ch.call("queue.unbind", queue=q, exchange=x, routing_key="k", arguments={"a": 1})
    ch.publish(x, "k", b"still bound")
    ch.call("queue.unbind", queue=q, exchange=x, routing_key="k")
    ch.publish(x, "k", b"and still")
    ch.call("queue.unbind", queue=q, exchange=x, routing_key="k", arguments={"a": 2})
    ch.publish(x, "k", b"no more", mandatory=True)
    ch.expect("basic.return")
    ch.settle(q)
    ch.get_all(q)


@session
def bindings_go_with_the_queue(s: Session) -> None:
    ch = s.channel()
    x, q = ch.exchange(s.name("x")), ch.declare(s.name("q"))
    ch.bind(q, x, "k")
    ch.call("queue.delete", queue=q)
    ch.declare(q)
    ch.publish(x, "k", mandatory=True)
    ch.expect("basic.return")


# ---- purging and deleting ----


@session
def purged_of_its_ready_messages(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    for body in (b"1", b"2", b"3"):
        ch.publish("", q, body)
    ch.settle(q)
    got = ch.get(q, no_ack=False)
    ch.call("queue.purge", queue=q)
    ch.call("queue.purge", queue=q)
    ch.reject(got.tag)
    ch.settle(q)
    ch.get_all(q)


@session
def purged_though_absent(s: Session) -> None:
    s.channel().call("queue.purge", queue=s.name("absent"))


@session
def purged_without_waiting(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    ch.settle(q)
    ch.send("queue.purge", queue=q, nowait=True)
    ch.declare(q, passive=True)


@session
def deleted_with_its_messages(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    for _ in range(3):
        ch.publish("", q)
    ch.settle(q)
    ch.get(q, no_ack=False)
    ch.call("queue.delete", queue=q)
    ch.declare(q, passive=True)


@session
def deleted_though_absent(s: Session) -> None:
    ch = s.channel()
    ch.call("queue.delete", queue=s.name("absent"))
    ch.call("queue.delete", queue=s.name("absent"), if_unused=True, if_empty=True)


@session
def deleted_without_waiting(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.send("queue.delete", queue=q, nowait=True)
    ch.declare(q, passive=True)


@session
def deleted_if_empty_but_it_is_not(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    ch.settle(q)
    ch.call("queue.delete", queue=q, if_empty=True)


@session
def deleted_if_empty_with_only_unacked_messages(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    ch.settle(q)
    ch.get(q, no_ack=False)
    ch.call("queue.delete", queue=q, if_empty=True)


@session
def deleted_if_unused_but_it_is_not(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.consume(q)
    ch.call("queue.delete", queue=q, if_unused=True)


@session
def what_was_not_deleted_keeps_its_many_bindings(s: Session) -> None:
    ch = s.channel()
    q, x = ch.declare(s.name("q")), ch.exchange(s.name("x"))
    for number in range(100):
        ch.bind(q, x, f"k{number}")
    ch.publish(x, "k0")
    ch.settle(q)
    ch.call("queue.delete", queue=q, if_empty=True)
    again = s.channel()
    again.publish(x, "k0")
    again.publish(x, "k99")
    again.settle(q)
    again.get(q)
    again.get(q)
    again.get(q)
    again.call("queue.delete", queue=q, if_empty=True, if_unused=True)
    again.publish(x, "k99", mandatory=True)
    again.declare(q)
    again.get(q)


@session
def deleted_if_unused_and_empty_but_neither(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.call("basic.qos", prefetch_count=1)
    ch.consume(q)
    ch.publish("", q)
    ch.publish("", q)
    ch.deliveries(1)
    ch.settle(q)
    ch.call("queue.delete", queue=q, if_unused=True, if_empty=True)


@session
def deleted_while_consumed_tells_the_consumer(s: Session) -> None:
    consumer, ch = s.channel(), s.channel()
    q = ch.declare(s.name("q"))
    consumer.consume(q, "watcher")
    ch.call("queue.delete", queue=q)
    consumer.expect("basic.cancel")


@session
def deleted_while_consumed_by_a_client_that_cannot_be_told(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(client_properties={})
    c.reply(0, "connection.tune")
    c.tune_ok()
    c.call(0, "connection.open", virtual_host="/")
    consumer, ch = c.channel(1), c.channel(2)
    q = ch.declare(s.name("q"))
    consumer.consume(q, "watcher")
    ch.call("queue.delete", queue=q)
    c.round_trip()


@session
def limit_of_a_vhost_is_reached(s: Session) -> None:
    vhost = s.vhost()
    s.admin.set_vhost_limit(vhost, "max-queues", 1)
    ch = s.channel(vhost=vhost)
    ch.declare(s.name("one"))
    ch.declare(s.name("one"))
    ch.declare(s.name("two"))
