"""A channel: opening, closing, flow, and what may be said on it and when."""

from __future__ import annotations

from functools import partial

from tests.differential.session import Session, add, session


@session
def opened_twice(s: Session) -> None:
    s.channel().call("channel.open")


@session
def used_before_it_is_opened(s: Session) -> None:
    s.connect().call(1, "queue.declare", queue=s.name("q"))


@session
def closed_before_it_is_opened(s: Session) -> None:
    s.connect().call(1, "channel.close", reply_code=200, reply_text="bye")


@session
def close_ok_before_it_is_opened(s: Session) -> None:
    c = s.connect()
    c.method(1, "channel.close-ok")
    c.channel(2).call("basic.qos")


@session
def close_ok_unasked(s: Session) -> None:
    c = s.connect()
    c.channel(1)
    c.method(1, "channel.close-ok")
    c.wait_closed()


@session
def closed_and_opened_again(s: Session) -> None:
    c = s.connect()
    c.channel().close()
    c.call(1, "channel.open")
    c.call(1, "queue.declare", queue=s.name("q"))


@session
def used_after_it_was_closed(s: Session) -> None:
    c = s.connect()
    c.channel().close()
    c.call(1, "queue.declare", queue=s.name("q"))


@session
def opened_again_after_a_refusal(s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("absent"), passive=True)
    ch.call("channel.open")
    ch.declare(s.name("q"))


@session
def used_after_a_refusal(s: Session) -> None:
    ch = s.channel()
    ch.declare(s.name("absent"), passive=True)
    ch.declare(s.name("q"))


@session
def what_follows_a_refusal_is_ignored(s: Session) -> None:
    c = s.connect()
    ch, other = c.channel(1), c.channel(2)
    q = other.declare(s.name("q"))
    ch.send("queue.declare", queue=s.name("absent"), passive=True)
    ch.publish("", q, b"dropped")
    ch.send("queue.declare", queue=s.name("never"))
    ch.expect("channel.close")
    c.settle(q)
    other.declare(q, passive=True)
    other.declare(s.name("never"), passive=True)


@session
def closed_by_both_sides_at_once(s: Session) -> None:
    c = s.connect()
    c.answers_closes = False
    ch = c.channel(1)
    ch.send("queue.declare", queue=s.name("absent"), passive=True)
    ch.send("channel.close", reply_code=200, reply_text="bye")
    ch.expect("channel.close")
    ch.expect("channel.close-ok")
    ch.send("channel.close-ok")
    c.open_channels.discard(1)
    c.call(1, "channel.open")


@session
def a_refusal_leaves_other_channels_alone(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    one.declare(s.name("absent"), passive=True)
    two.declare(s.name("q"))


@session
def closing_gives_unacked_messages_back(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    q = one.declare(s.name("q"))
    one.publish("", q, b"1")
    one.publish("", q, b"2")
    one.settle(q)
    one.get(q, no_ack=False)
    one.get(q, no_ack=False)
    one.close()
    two.connection.until_depth(q, 2)
    two.get_all(q)


@session
def closing_gives_a_consumers_messages_back_before_it_is_confirmed(s: Session) -> None:
    c = s.connect()
    one, two = c.channel(1), c.channel(2)
    q = one.declare(s.name("q"))
    one.publish("", q, b"1")
    one.publish("", q, b"2")
    one.settle(q)
    one.consume(q)
    one.deliveries(2)
    one.close()
    two.get_all(q)


@session
def flow_on(s: Session) -> None:
    s.channel().call("channel.flow", active=True)


@session
def flow_off(s: Session) -> None:
    s.channel().call("channel.flow", active=False)


@session
def flow_ok_from_the_client(s: Session) -> None:
    ch = s.channel()
    ch.send("channel.flow-ok", active=True)
    ch.connection.wait_closed()


@session
def access_request(s: Session) -> None:
    s.channel().call("access.request", realm="/data", active=True, write=True, read=True)


@session
def access_request_of_nothing(s: Session) -> None:
    s.channel().call("access.request", realm="")


def _server_method(name: str, s: Session) -> None:
    """What only a server may say, said by a client."""
    ch = s.channel()
    ch.send(name)
    ch.connection.wait_closed()


for _name in (
    "channel.open-ok",
    "access.request-ok",
    "exchange.declare-ok",
    "exchange.delete-ok",
    "exchange.bind-ok",
    "exchange.unbind-ok",
    "queue.declare-ok",
    "queue.bind-ok",
    "queue.unbind-ok",
    "queue.purge-ok",
    "queue.delete-ok",
    "basic.qos-ok",
    "basic.consume-ok",
    "basic.cancel-ok",
    "basic.get-empty",
    "basic.recover-ok",
    "confirm.select-ok",
    "tx.select-ok",
    "tx.commit-ok",
    "tx.rollback-ok",
):
    add(f"channel: client sends {_name}", partial(_server_method, _name))


def _server_content(name: str, s: Session) -> None:
    ch = s.channel()
    ch.send(name)
    ch.content(b"hello")
    ch.connection.wait_closed()


for _name in ("basic.return", "basic.deliver", "basic.get-ok"):
    add(f"channel: client sends {_name}", partial(_server_content, _name))
