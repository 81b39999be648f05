"""Transactions: what waits for the commit, what a rollback undoes, what is refused."""

from __future__ import annotations

from tests.differential.client import Channel
from tests.differential.session import Session, session


def _transactional(s: Session) -> tuple[Channel, Channel]:
    """A channel in a transaction and one that watches."""
    c = s.connect()
    tx, watcher = c.channel(1), c.channel(2)
    tx.call("tx.select")
    return tx, watcher


@session
def selected_twice(s: Session) -> None:
    tx, _ = _transactional(s)
    tx.call("tx.select")


@session
def commit_without_select(s: Session) -> None:
    s.channel().call("tx.commit")


@session
def rollback_without_select(s: Session) -> None:
    s.channel().call("tx.rollback")


@session
def empty_commit_and_rollback(s: Session) -> None:
    tx, _ = _transactional(s)
    tx.call("tx.commit")
    tx.call("tx.rollback")


@session
def published_messages_appear_with_the_commit(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    tx.publish("", q, b"1")
    tx.publish("", q, b"2")
    tx.settle(q)
    watcher.declare(q, passive=True)
    tx.call("tx.commit")
    watcher.get_all(q)


@session
def persistent_messages_appear_with_the_commit(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"), durable=True)
    tx.publish("", q, b"1", delivery_mode=2)
    tx.call("tx.commit")
    watcher.get_all(q)


@session
def published_messages_vanish_with_the_rollback(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    tx.publish("", q, b"undone")
    tx.call("tx.rollback")
    tx.publish("", q, b"done")
    tx.call("tx.commit")
    watcher.get_all(q)


@session
def routing_is_done_at_publish_time(s: Session) -> None:
    tx, watcher = _transactional(s)
    x, q = watcher.exchange(s.name("x"), "fanout"), watcher.declare(s.name("q"))
    late = watcher.declare(s.name("late"))
    watcher.bind(q, x)
    tx.publish(x, "")
    tx.connection.round_trip()
    watcher.bind(late, x)
    tx.call("tx.commit")
    watcher.get_all(q, late)


@session
def queue_deleted_before_the_commit(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    tx.publish("", q, mandatory=True)
    tx.connection.round_trip()
    watcher.call("queue.delete", queue=q)
    tx.call("tx.commit")


@session
def unroutable_mandatory_is_returned_at_the_commit(s: Session) -> None:
    tx, _ = _transactional(s)
    tx.publish("amq.direct", s.name("nowhere"), mandatory=True)
    tx.connection.round_trip()
    tx.call("tx.commit")


@session
def unroutable_mandatory_is_not_returned_after_a_rollback(s: Session) -> None:
    tx, _ = _transactional(s)
    tx.publish("amq.direct", s.name("nowhere"), mandatory=True)
    tx.call("tx.rollback")
    tx.call("tx.commit")


@session
def refused_publish_is_refused_at_once(s: Session) -> None:
    tx, _ = _transactional(s)
    tx.publish(s.name("absent"), "k")
    tx.connection.round_trip()


@session
def acks_take_effect_with_the_commit(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    watcher.publish("", q)
    watcher.settle(q)
    tx.ack(tx.get(q, no_ack=False).tag)
    tx.call("tx.commit")
    tx.close()
    watcher.declare(q, passive=True)


@session
def uncommitted_acks_are_undone_by_closing(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    watcher.publish("", q)
    watcher.settle(q)
    tx.ack(tx.get(q, no_ack=False).tag)
    tx.publish("", q, b"never")
    tx.close()
    # Only what was not acked at all is back when close-ok comes.
    watcher.connection.until_depth(q, 1)
    watcher.get_all(q)


@session
def rolled_back_acks_may_be_given_again(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    watcher.publish("", q)
    watcher.settle(q)
    tag = tx.get(q, no_ack=False).tag
    tx.ack(tag)
    tx.call("tx.rollback")
    watcher.declare(q, passive=True)
    tx.ack(tag)
    tx.call("tx.commit")
    tx.close()
    watcher.declare(q, passive=True)


@session
def same_delivery_acked_twice_in_a_transaction(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    watcher.publish("", q)
    watcher.settle(q)
    tag = tx.get(q, no_ack=False).tag
    tx.ack(tag)
    tx.ack(tag)
    tx.connection.round_trip()


@session
def unknown_delivery_acked_in_a_transaction(s: Session) -> None:
    tx, _ = _transactional(s)
    tx.ack(7)
    tx.connection.round_trip()


@session
def rejects_and_nacks_wait_for_the_commit(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    for body in (b"1", b"2", b"3"):
        watcher.publish("", q, body)
    watcher.settle(q)
    tags = [tx.get(q, no_ack=False).tag for _ in range(3)]
    tx.reject(tags[0], requeue=True)
    tx.reject(tags[1], requeue=False)
    tx.nack(tags[2], requeue=True)
    tx.settle(q)
    watcher.declare(q, passive=True)
    tx.call("tx.commit")
    tx.settle(q)
    watcher.get_all(q)


@session
def gets_and_declares_do_not_wait(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = tx.declare(s.name("q"))
    watcher.publish("", q)
    watcher.settle(q)
    tx.get(q)
    tx.call("tx.rollback")
    watcher.declare(q, passive=True)


@session
def queue_that_refuses_makes_the_commit_fail(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    tx.publish("", q)
    tx.call("tx.commit")


@session
def recover_in_a_transaction(s: Session) -> None:
    tx, watcher = _transactional(s)
    q = watcher.declare(s.name("q"))
    watcher.publish("", q)
    watcher.settle(q)
    tag = tx.get(q, no_ack=False).tag
    tx.ack(tag)
    tx.call("basic.recover", requeue=True)
    tx.call("tx.commit")
    tx.settle(q)
    watcher.get_all(q)
