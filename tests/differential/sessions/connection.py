"""An open connection: closing it, its limits, its secret, being shut by an administrator or blocked by an alarm."""

from __future__ import annotations

import time

from tests.differential import wire
from tests.differential.session import Session, Turn, session, session_at


@session
def closed_by_the_client(s: Session) -> None:
    c = s.connect()
    c.channel()
    c.call(0, "connection.close", reply_code=200, reply_text="bye")


@session
def what_follows_a_close_is_ignored(s: Session) -> None:
    c = s.connect()
    c.channel()
    c.method(0, "connection.close", reply_code=200, reply_text="bye")
    c.method(1, "queue.declare", queue="nonsense", passive=True)
    c.reply(0, "connection.close-ok")


@session
def what_follows_a_refusal_is_ignored_until_close_ok(s: Session) -> None:
    c = s.connect()
    c.answers_closes = False
    c.channel()
    c.method(1, "channel.open")
    c.reply(0, "connection.close")
    c.call(0, "connection.close", reply_code=200, reply_text="bye")
    c.method(0, "connection.close-ok")
    c.wait_closed()


@session
def closed_by_an_administrator(s: Session) -> None:
    user = s.user()
    c = s.connect(user)
    s.admin.close_connections_of(user, "because")
    c.wait_closed(30)


@session
def user_deleted_while_connected(s: Session) -> None:
    user = s.user("bob")
    c = s.connect(user)
    s.admin.delete_user(user)
    c.wait_closed(30)


@session
def vhost_deleted_while_connected(s: Session) -> None:
    vhost = s.vhost()
    c = s.connect(vhost=vhost)
    c.channel()
    s.admin.delete_vhost(vhost)
    c.wait_closed(30)


@session
def channels_beyond_the_negotiated_maximum(s: Session) -> None:
    c = s.connect(channel_max=2)
    c.channel(1)
    c.channel(2)
    c.call(3, "channel.open")


@session
def channel_number_beyond_the_negotiated_maximum(s: Session) -> None:
    c = s.connect(channel_max=2)
    c.call(7, "channel.open")


@session
def a_closed_channel_leaves_room_for_another(s: Session) -> None:
    c = s.connect(channel_max=2)
    c.channel(1).close()
    c.channel(2)
    c.call(1, "channel.open")


@session
def user_at_the_channel_limit(s: Session) -> None:
    user = s.user()
    s.admin.set_user_limit(user, "max-channels", 1)
    c = s.connect(user)
    c.channel(1)
    # RabbitMQ counts a channel after it has answered, on a busy machine a good while after, and tells nobody when.
    time.sleep(2)
    c.call(2, "channel.open")


@session
def secret_updated(s: Session) -> None:
    user = s.user()
    c = s.connect(user)
    c.channel()
    s.admin.set_password(user, "changed")
    c.call(0, "connection.update-secret", new_secret="changed", reason="rotation")


@session
def secret_updated_to_a_wrong_one(s: Session) -> None:
    c = s.connect(s.user())
    c.call(0, "connection.update-secret", new_secret="wrong", reason="rotation")


@session
def secret_updated_twice(s: Session) -> None:
    c = s.connect(s.user())
    c.call(0, "connection.update-secret", new_secret="secret", reason="")
    c.call(0, "connection.update-secret", new_secret="secret", reason="again")


@session
def connection_method_on_a_channel(s: Session) -> None:
    c = s.connect()
    c.channel()
    c.method(1, "connection.close", reply_code=200, reply_text="bye")
    c.wait_closed()


@session
def channel_method_on_channel_0(s: Session) -> None:
    c = s.connect()
    c.method(0, "channel.open")
    c.wait_closed()


@session
def queue_method_on_channel_0(s: Session) -> None:
    c = s.connect()
    c.method(0, "queue.declare", queue="q")
    c.wait_closed()


@session
def heartbeats_are_taken_at_any_time(s: Session) -> None:
    c = s.connect()
    ch = c.channel()
    c.frame(wire.HEARTBEAT, 0, b"")
    ch.declare(s.name("q"))


@session
def interleaved_channels_are_answered_each_on_its_own(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    for channel, name in ((one, "a"), (two, "b"), (one, "c"), (two, "d")):
        channel.send("queue.declare", queue=s.name(name))
    for channel in (one, one, two, two):
        channel.expect("queue.declare-ok")


@session
def content_of_two_channels_interleaves(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    first, second = one.declare(s.name("first")), two.declare(s.name("second"))
    one.send("basic.publish", routing_key=first)
    two.send("basic.publish", routing_key=second)
    for channel in (one, two):
        channel.raw(wire.HEADER, wire.header(4))
    for channel, part in ((two, b"tw"), (one, b"on"), (two, b"o!"), (one, b"e!")):
        channel.raw(wire.BODY, part)
    c.settle(first, second)
    one.get_all(first, second)


@session_at(Turn.ALONE)
def blocked_by_alarms_until_all_are_over(s: Session) -> None:
    publisher, reader = s.channel(), s.channel()
    q = reader.declare(s.name("q"))
    s.admin.set_alarm("memory", True)
    s.admin.set_alarm("disk", True)
    publisher.publish("", q, b"held back")
    publisher.connection.expect(0, "connection.blocked")
    reader.get(q)
    s.admin.set_alarm("memory", False)
    reader.get(q)
    s.admin.set_alarm("disk", False)
    publisher.connection.expect(0, "connection.unblocked")
    publisher.settle(q)
    reader.get(q)


@session_at(Turn.ALONE)
def opened_and_consuming_during_an_alarm(s: Session) -> None:
    ch = s.channel()
    q = ch.declare(s.name("q"))
    ch.publish("", q)
    ch.settle(q)
    s.admin.set_alarm("memory", True)
    late = s.channel()
    late.consume(q)
    late.ack(late.deliveries(1)[0].tag)
    late.declare(q, passive=True)
    s.admin.set_alarm("memory", False)


@session_at(Turn.LAST)
def closed_by_a_broker_that_stops(s: Session) -> None:
    c = s.connect()
    c.channel()
    s.admin.shut_down()
    c.wait_closed(30)
