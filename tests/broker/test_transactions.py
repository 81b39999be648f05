"""tx: publishes and acks wait for the commit, and the commit waits for the disk."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from warren.amqp import methods
from warren.amqp.properties import Properties


@pytest.fixture
def tx(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.begin()
    return channel


def rollback(channel: ChannelClient) -> None:
    channel.call(methods.TxRollback(), methods.TxRollbackOk)


def test_select_may_be_repeated(tx: ChannelClient) -> None:
    tx.publish("m", "q")
    tx.begin()
    tx.commit()
    assert tx.bodies_in("q") == [b"m"]


@pytest.mark.parametrize("method", [methods.TxCommit(), methods.TxRollback()])
def test_commit_and_rollback_need_a_transaction(channel: ChannelClient, method: methods.Method) -> None:
    assert channel.refused(method) == (406, "PRECONDITION_FAILED - channel is not transactional")


def test_publishes_are_delivered_at_commit(world: World, tx: ChannelClient) -> None:
    tx.publish("m", "q")
    assert world.queue("q").backing.length == 0
    tx.commit()
    assert world.queue("q").backing.length == 1


def test_publishes_are_routed_when_they_come(world: World, tx: ChannelClient) -> None:
    other = world.channel()
    other.declare("early")
    other.declare("late")
    other.bind("early", "amq.fanout")
    tx.publish("m", "", "amq.fanout")
    other.bind("late", "amq.fanout")
    tx.commit()
    assert other.bodies_in("early") == [b"m"]
    assert other.bodies_in("late") == []


def test_a_queue_deleted_before_the_commit_drops_out(world: World, tx: ChannelClient) -> None:
    other = world.channel()
    for name in ("a", "b"):
        other.declare(name)
        other.bind(name, "amq.fanout")
    tx.publish("m", "", "amq.fanout")
    other.call(methods.QueueDelete(queue="a"), methods.QueueDeleteOk)
    tx.commit()
    assert other.bodies_in("b") == [b"m"]


def test_rollback_forgets_publishes(tx: ChannelClient) -> None:
    tx.publish("m", "q")
    rollback(tx)
    tx.commit()
    assert tx.bodies_in("q") == []


def test_a_faulty_publish_is_refused_at_once(tx: ChannelClient) -> None:
    tx.publish("m", "q", "missing")
    assert tx.expect_close()[0] == 404


def test_returns_come_at_commit_and_before_its_answer(tx: ChannelClient) -> None:
    tx.publish("m", "nowhere", mandatory=True)
    assert tx.take() == []
    tx.send(methods.TxCommit())
    assert tx.names() == ["basic.return", "tx.commit-ok"]


def test_acks_wait_for_the_commit(world: World, tx: ChannelClient) -> None:
    queue = world.queue("q")
    world.channel().publish("m", "q")
    seen = tx.get("q")
    assert seen is not None
    tx.ack(seen.tag)
    assert queue.unacked == 1
    tx.commit()
    assert queue.unacked == 0


def test_rollback_makes_acked_messages_unacked_again(world: World, tx: ChannelClient) -> None:
    other = world.channel()
    for body in ("a", "b"):
        other.publish(body, "q")
    first, second = tx.get("q"), tx.get("q")
    assert first is not None
    assert second is not None
    tx.ack(second.tag, multiple=True)
    rollback(tx)
    assert world.queue("q").unacked == 2
    tx.ack(first.tag)
    tx.nack(second.tag, requeue=True)
    tx.commit()
    seen = other.got("q")
    assert (seen.body, seen.redelivered) == (b"b", True)


def test_rejects_and_requeues_wait_too_and_come_in_order(world: World, tx: ChannelClient) -> None:
    other = world.channel()
    other.declare("dead")
    other.declare("source", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    for body in ("a", "b"):
        other.publish(body, "source")
    first, second = tx.get("source"), tx.get("source")
    assert first is not None
    assert second is not None
    tx.reject(first.tag, requeue=False)
    tx.reject(second.tag, requeue=True)
    assert other.bodies_in("dead") == []
    tx.commit()
    assert other.bodies_in("dead") == [b"a"]
    assert other.bodies_in("source") == [b"b"]


def test_a_tag_is_settled_once_even_before_the_commit(world: World, tx: ChannelClient) -> None:
    world.channel().publish("m", "q")
    assert tx.get("q") is not None
    tx.ack(1)
    assert tx.refused(methods.BasicAck(1)) == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_a_slot_of_the_prefetch_is_free_at_the_commit_not_before(world: World, tx: ChannelClient) -> None:
    other = world.channel()
    for body in ("a", "b", "c"):
        other.publish(body, "q")
    tx.qos(1, whole_channel=True)
    tx.consume("q")
    assert tx.delivered() == [b"a"]
    tx.ack(1)
    other.publish("d", "q")
    assert tx.delivered() == []
    tx.send(methods.TxCommit())
    assert sorted(tx.names()) == ["basic.deliver", "tx.commit-ok"]


def test_commit_waits_for_the_disk(world: World, tx: ChannelClient) -> None:
    world.store.holds = True
    tx.persist("a", "q")
    tx.persist("b", "q")
    tx.send(methods.TxCommit())
    assert tx.take() == []
    world.sync(1)
    assert tx.take() == []
    world.sync()
    tx.expect(methods.TxCommitOk)


def test_commit_of_acks_waits_for_the_disk(world: World, tx: ChannelClient) -> None:
    world.channel().persist("m", "q")
    assert tx.get("q") is not None
    world.store.holds = True
    tx.ack(1)
    tx.send(methods.TxCommit())
    assert tx.take() == []
    world.sync()
    tx.expect(methods.TxCommitOk)


def test_commit_of_nothing_is_answered_at_once(world: World, tx: ChannelClient) -> None:
    world.store.holds = True
    world.channel().persist("somebody else's", "q")
    tx.commit()


@pytest.mark.parametrize(
    "data",
    [
        frame(methods.BasicGet(queue="q"), 1),
        frame(methods.BasicAck(1), 1),
        frame(methods.TxCommit(), 1),
        publish_frames(1, "m", "q"),
        publish_frames(1, "m", "q", frame_max=9),
    ],
    ids=["get", "ack", "commit", "publish", "publish in crumbs"],
)
def test_whatever_comes_while_a_commit_waits_is_504(world: World, tx: ChannelClient, data: bytes) -> None:
    world.store.holds = True
    tx.persist("m", "q")
    tx.send(methods.TxCommit())
    tx.client.feed(data)
    assert tx.client.expect_close() == (504, "CHANNEL_ERROR - unexpected command while processing 'tx.commit'")


def test_a_channel_may_be_closed_while_its_commit_waits(world: World, tx: ChannelClient) -> None:
    world.store.holds = True
    tx.persist("m", "q")
    tx.send(methods.TxCommit())
    tx.close()
    world.sync()
    assert tx.take() == []
    assert world.queue("q").backing.length == 1


def test_after_the_commit_the_channel_goes_on(world: World, tx: ChannelClient) -> None:
    world.store.holds = True
    tx.persist("a", "q")
    tx.send(methods.TxCommit())
    world.sync()
    tx.expect(methods.TxCommitOk)
    tx.publish("b", "q")
    tx.commit()
    assert tx.bodies_in("q") == [b"a", b"b"]


def test_a_refused_message_makes_a_partial_completion(world: World, tx: ChannelClient) -> None:
    other = world.channel()
    other.declare("full", x_max_length=0, x_overflow="reject-publish")
    tx.publish("in", "q")
    tx.publish("out", "full")
    assert tx.refused(methods.TxCommit()) == (406, "PRECONDITION_FAILED - partial tx completion")
    assert other.bodies_in("q") == [b"in"]


def test_a_refusal_is_told_only_after_the_rest_is_on_disk(world: World, tx: ChannelClient) -> None:
    world.store.holds = True
    other = world.channel()
    other.declare("full", x_max_length=0, x_overflow="reject-publish")
    tx.publish("out", "full")
    tx.persist("in", "q")
    tx.send(methods.TxCommit())
    assert tx.take() == []
    world.sync()
    assert tx.expect_close()[1] == "PRECONDITION_FAILED - partial tx completion"


def test_a_queue_that_fails_while_the_commit_waits_makes_a_partial_completion(world: World, tx: ChannelClient) -> None:
    world.store.holds = True
    tx.persist("m", "q")
    tx.send(methods.TxCommit())
    world.store.failing.add(("q", "publish"))
    world.channel().publish("m", "q")
    world.sync()
    assert tx.expect_close()[1] == "PRECONDITION_FAILED - partial tx completion"


def test_closing_the_channel_discards_an_open_transaction(world: World, tx: ChannelClient) -> None:
    other = world.channel()
    other.publish("held", "q")
    assert tx.get("q") is not None
    tx.ack(1)
    tx.publish("never", "q")
    tx.close()
    seen = other.got("q")
    assert (seen.body, seen.redelivered) == (b"held", True)
    assert other.bodies_in("q") == []


def test_a_transaction_of_many_publishes_keeps_their_order(tx: ChannelClient) -> None:
    for number in range(20):
        tx.publish(str(number), "q", properties=Properties(delivery_mode=2 if number % 3 else 1))
    tx.commit()
    assert tx.bodies_in("q") == [str(number).encode() for number in range(20)]


def test_what_was_rolled_back_counts_in_the_prefetch_of_the_whole_channel(world: World, tx: ChannelClient) -> None:
    tx.qos(2, whole_channel=True)
    tx.consume("q")
    for number in range(4):
        world.channel().publish(str(number), "q")
    assert len(tx.deliveries()) == 2
    tx.ack(2, multiple=True)
    rollback(tx)
    assert tx.client.connection.channels[1].unacked.consumed == 2
    assert world.queue("q").backing.length == 2
    tx.ack(2, multiple=True)
    tx.send(methods.TxCommit())
    assert sorted(tx.names()) == ["basic.deliver", "basic.deliver", "tx.commit-ok"]
    assert tx.client.connection.channels[1].unacked.consumed == 2
