"""Work of more than one turn that raises half way: who asked for it is told, and nothing is left in between."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import pytest

import warren.broker
import warren.management
import warren.store
from tests.broker.harness import ChannelClient, FakeBacking, World, frame, publish_frames
from tests.broker.test_errands import (
    LOTS,
    begin,
    fill,
    holding,
    much_bound,
    publish_numbers,
    strangers,
    three_dying,
    turns_of,
    wide_exchange,
)
from tests.broker.test_numbering import publisher
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.consume.consume import LateGet
from warren.broker.consume.settle import ClientReturn, ClientSettlement, TransactionSettlement
from warren.broker.declare.declare_exchange import ClientExchangeRemoval
from warren.broker.declare.declare_queue import ClientPurge, ClientQueueRemoval, LateDeclare
from warren.broker.exchanges.delayed import DELAYED, DelayedExchange
from warren.broker.node import Release, VHostSweep
from warren.broker.operate import administer, relocate
from warren.broker.publish.burial import Burial, Funeral
from warren.broker.publish.republish import FanOut
from warren.broker.publish.routed import ClientFanOut, NumberedFanOut
from warren.broker.publish.transaction import Commit, Rollback
from warren.broker.publish.x_death import Address
from warren.broker.queue.browser import SettlingForBrowser
from warren.broker.queue.deadletter import LINE_LETTERS
from warren.broker.queue.errands import UNITS, Budget, Errand, Rest
from warren.broker.queue.exact_expiry import Gathering
from warren.broker.queue.expiry import AGAIN_MS
from warren.broker.queue.held import Return, Settlement
from warren.broker.queue.limits import Trim
from warren.broker.queue.schedule import schedule_of
from warren.broker.queue.settling import Dropping, Purge, Settling
from warren.broker.session.expulsion import ConnectionSweep, Expulsion, Revocation
from warren.broker.session.late_method import LateMethod
from warren.broker.vhost.sweeps import PolicySweep, QueueSweep, Removal, Sweep
from warren.broker.watch.own_messages import OwnMessages
from warren.management.pieces import NextTurn
from warren.store.removal import LaneRemoval
from warren.store.restatement import Restatement

# What others are made of, and nobody begins.
BASES = {ConnectionSweep, Errand, LateMethod, Settling, Purge, Settlement, Sweep}
# Parts of others, which fail with those: a letter with its line, a copy with the line of the broker's own messages.
PARTS = {Funeral, FanOut}
# Nothing is done in these that could fail, or that anybody would miss: it is memory that goes anyway.
HARMLESS = {Rest, NextTurn, Dropping}


class Broken(Errand):
    """Another, of which the next piece raises."""

    def __init__(self, errand: Errand) -> None:
        super().__init__()
        self.errand = errand
        self.waiter = errand.waiter
        self._is_broken = True

    def step(self, budget: Budget) -> bool:
        if self._is_broken:
            self._is_broken = False
            raise ValueError("broken on purpose")
        return self.errand.step(budget)

    def failed(self) -> bool:
        return self.errand.failed()


def break_next(world: World, kind: type[Errand]) -> None:
    """The piece that comes next of what waits."""
    waiting = world.node.errands.waiting
    found = [index for index, errand in enumerate(waiting) if type(errand) is kind]
    assert found, [type(errand).__name__ for errand in waiting]
    for index in found:
        waiting[index] = Broken(waiting[index])
    world.node.wake()
    world.flush()
    assert "broken on purpose" in world.host.logged()


# -- what a client waits for -------------------------------------------------------------------------------------------


def rollback(world: World) -> ChannelClient:
    channel = holding(world, LOTS)
    channel.begin()
    channel.client.connection.feed(frame(methods.BasicAck(delivery_tag=0, multiple=True), 1))
    world.flush()
    begin(channel, methods.TxRollback())
    return channel


def commit(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("q")
    channel.begin()
    channel.client.connection.feed(publish_frames(1, b"m", "q") * LOTS)
    world.flush()
    begin(channel, methods.TxCommit())
    return channel


def settle_in_transaction(world: World) -> ChannelClient:
    channel = holding(world, LOTS)
    channel.begin()
    begin(channel, methods.BasicAck(delivery_tag=0, multiple=True))
    return channel


def ack(world: World) -> ChannelClient:
    channel = holding(world, LOTS)
    begin(channel, methods.BasicAck(delivery_tag=0, multiple=True))
    return channel


def recover(world: World) -> ChannelClient:
    channel = holding(world, LOTS)
    begin(channel, methods.BasicRecover(requeue=True))
    return channel


def close_channel(world: World) -> ChannelClient:
    channel = holding(world, LOTS)
    begin(channel, methods.ChannelClose(reply_code=200))
    return channel


def purge(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", LOTS)
    begin(channel, methods.QueuePurge(queue="q"))
    return channel


def browse(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", LOTS)
    channel.qos(10)
    arguments: dict[str, object] = {"x-browse": True, "x-settle-to": LOTS}
    begin(channel, methods.BasicConsume(queue="q", arguments=table_of(arguments)))
    return channel


def publish_widely(world: World) -> ChannelClient:
    channel = wide_exchange(world, LOTS)
    channel.confirm()
    channel.client.connection.feed(publish_frames(1, b"m", exchange="wide"))
    return channel


def publish_numbered(world: World) -> ChannelClient:
    wide_exchange(world, LOTS)
    channel = publisher(world)
    channel.client.connection.feed(publish_frames(1, b"m", exchange="wide"))
    return channel


def delete_queue(world: World) -> ChannelClient:
    channel = much_bound(world)
    begin(channel, methods.QueueDelete(queue="q", if_unused=True))
    return channel


def delete_exchange(world: World) -> ChannelClient:
    channel = much_bound(world)
    begin(channel, methods.ExchangeDelete(exchange="x"))
    return channel


def declare_again(world: World) -> ChannelClient:
    channel = world.channel()
    begin(much_bound(world), methods.QueueDelete(queue="q", if_unused=True))
    begin(channel, methods.QueueDeclare(queue="q"))
    return channel


def get_behind_expired(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("q", x_message_ttl=10)
    fill(world, "q", LOTS)
    world.node.now += 10
    begin(channel, methods.BasicGet(queue="q"))
    return channel


ASKED: dict[type[Errand], Callable[[World], ChannelClient]] = {
    Rollback: rollback,
    Commit: commit,
    TransactionSettlement: settle_in_transaction,
    ClientSettlement: ack,
    ClientReturn: recover,
    Return: close_channel,
    ClientPurge: purge,
    SettlingForBrowser: browse,
    ClientFanOut: publish_widely,
    NumberedFanOut: publish_numbered,
    ClientQueueRemoval: delete_queue,
    ClientExchangeRemoval: delete_exchange,
    LateDeclare: declare_again,
    LateGet: get_behind_expired,
}


@pytest.mark.parametrize("kind", ASKED)
def test_who_waits_for_what_fails_is_told_and_everybody_else_goes_on(slow: World, kind: type[Errand]) -> None:
    other = slow.channel()
    channel = ASKED[kind](slow)
    break_next(slow, kind)
    assert channel.client.expect_close() == (541, "INTERNAL_ERROR - unexpected error")
    channel.client.send(methods.ConnectionCloseOk())
    assert channel.client.wire.is_closed()
    turns_of(slow)
    assert slow.node.sweeping == 0
    other.declare("other")
    assert other.bodies_in("other") == []


@pytest.mark.parametrize("kind", [ClientReturn, Rollback, TransactionSettlement])
def test_what_a_client_held_is_back_when_giving_it_back_has_failed(slow: World, kind: type[Errand]) -> None:
    ASKED[kind](slow)
    break_next(slow, kind)
    turns_of(slow)
    queue = slow.queue("q")
    assert (queue.backing.length, queue.returning) == (LOTS, 0)
    other = slow.channel()
    other.consume("q")
    assert sorted(int(body) for body in other.delivered()) == list(range(1, LOTS + 1))


def test_what_was_being_acked_is_acked_or_there(slow: World) -> None:
    ack(slow)
    break_next(slow, ClientSettlement)
    turns_of(slow)
    queue = slow.queue("q")
    assert queue.unacked == 0
    assert queue.counters.acked + queue.backing.length == LOTS


def test_a_queue_that_could_not_be_deleted_is_there_for_everybody(slow: World) -> None:
    delete_queue(slow)
    break_next(slow, ClientQueueRemoval)
    other = slow.channel()
    other.publish(b"m", "q")
    assert other.bodies_in("q") == [b"m"]


class Noting(Errand):
    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    def step(self, budget: Budget) -> bool:
        raise ValueError("broken on purpose")

    def failed(self) -> bool:
        self.failures += 1
        return True


def test_what_raises_at_once_is_put_in_order_and_told_by_whoever_asked(world: World) -> None:
    errand = Noting()
    with pytest.raises(ValueError, match="on purpose"):
        world.node.errands.begin(errand, world.connect().connection)
    assert errand.failures == 1
    assert not world.node.errands.waiting


# -- what nobody waits for ---------------------------------------------------------------------------------------------


def test_what_could_not_be_moved_is_back_in_its_place(slow: World) -> None:
    channel = wide_exchange(slow, LOTS)
    channel.declare("source")
    publish_numbers(slow, "source", 1, 2)
    moving = relocate.move(slow.vhost, slow.queue("source").browse(0, 1)[0], Address("wide", ["k"]), {})
    slow.node.flush()
    break_next(slow, relocate.Move)
    assert moving is not None
    assert moving.is_done
    assert not moving.has_moved
    # Also in those that had it: in two places rather than in none.
    assert channel.bodies_in("source") == [b"1", b"2"]
    assert channel.bodies_in("q0") == [b"1"]


def test_a_move_leaves_alone_a_queue_that_began_anew_meanwhile(slow: World) -> None:
    channel = wide_exchange(slow, LOTS)
    channel.declare("source")
    publish_numbers(slow, "source", 1, 2)
    assert relocate.move(slow.vhost, slow.queue("source").browse(0, 1)[0], Address("wide", ["k"]), {}) is not None
    slow.node.flush()
    slow.node.monitor.failed(slow.queue("source"))
    break_next(slow, relocate.Move)
    assert channel.bodies_in("source") == []


def test_what_could_not_be_released_waits_and_is_tried_again(slow: World) -> None:
    channel = slow.channel()
    channel.declare_exchange("late", DELAYED, x_delayed_type="fanout")
    for number in range(LOTS):
        slow.vhost.add_queue(f"q{number}", False, False, {})
        slow.vhost.add_binding("late", "queue", f"q{number}", "", {})
    channel.publish(b"m", exchange="late", properties=Properties(headers=table_of({"x-delay": 10})))
    exchange = slow.vhost.exchanges["late"]
    assert isinstance(exchange, DelayedExchange)
    schedule = schedule_of(exchange)
    assert schedule is not None
    slow.node.tick(slow.node.now + 10)
    assert schedule.backing.length == 0
    break_next(slow, Release)
    assert schedule.backing.length == 1
    assert not schedule.is_releasing
    slow.advance(1000)
    turns_of(slow)
    assert schedule.backing.length == 0
    assert channel.bodies_in("q1999")[-1] == b"m"


def test_letters_go_on_when_the_work_on_them_has_failed(slow: World) -> None:
    channel = three_dying(slow)
    break_next(slow, Burial)
    turns_of(slow)
    assert channel.bodies_in("q1999") == [b"1", b"2", b"3"]
    assert not slow.node.dead_letters.lines


def settled_in(world: World, queue: str) -> int:
    backing = world.queue(queue).backing
    assert isinstance(backing, FakeBacking)
    return len(backing.settled)


@pytest.mark.parametrize("durable", [True, False])
def test_letters_that_cannot_be_sent_on_to_many_queues_are_tried_again(slow: World, durable: bool) -> None:
    channel = three_dying(slow, durable)
    slow.store.failing.add(("grave", "settle"))
    turns_of(slow)
    assert slow.host.logged().count("a dead letter of queue 'grave' in vhost '/' could not be sent on") == 3
    assert not slow.node.dead_letters.lines
    for _ in range(3):
        slow.advance(AGAIN_MS)
        turns_of(slow)
    assert slow.host.logged().count("could not be sent on") == 3
    assert settled_in(slow, "grave") == 0
    slow.store.failing.clear()
    slow.advance(AGAIN_MS)
    turns_of(slow)
    assert settled_in(slow, "grave") == 3
    # They had come to all queues before, and come to none again.
    assert channel.bodies_in("q1999") == [b"1", b"2", b"3"]
    assert slow.queue("grave").counters.dead_lettered == 3


def dying_at_once(world: World) -> ChannelClient:
    """It fails within the operation that kills it: its maker is served on, and so is everybody else."""
    channel = world.channel()
    channel.declare("dead")
    channel.declare("grave", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    publish_numbers(world, "grave", 1, 2)
    world.store.failing.add(("grave", "settle"))
    first = channel.get("grave")
    assert first is not None
    channel.reject(first.tag)
    return channel


def test_a_letter_that_cannot_be_sent_on_at_once_is_tried_again(world: World) -> None:
    channel = dying_at_once(world)
    assert world.host.logged().count("a dead letter of queue 'grave' in vhost '/' could not be sent on") == 1
    assert settled_in(world, "grave") == 0
    world.store.failing.clear()
    world.advance(AGAIN_MS)
    assert settled_in(world, "grave") == 1
    assert channel.bodies_in("dead") == [b"1"]
    assert channel.bodies_in("grave") == [b"2"]


def test_a_letter_that_waits_for_another_try_goes_with_its_queue(world: World) -> None:
    channel = dying_at_once(world)
    channel.call(methods.QueueDelete(queue="grave"), methods.QueueDeleteOk)
    world.advance(AGAIN_MS)
    assert not world.node.dead_letters.unburied.waiting
    assert world.host.logged().count("could not be sent on") == 1


def test_where_too_many_letters_wait_for_another_try_they_are_back_in_their_queue(slow: World) -> None:
    channel = slow.channel()
    channel.declare("dead")
    channel.declare("grave", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    fill(slow, "grave", LOTS)
    channel.consume("grave")
    slow.store.failing.add(("grave", "settle"))
    channel.client.connection.feed(frame(methods.BasicNack(delivery_tag=0, multiple=True, requeue=False), 1))
    channel.client.lose()
    turns_of(slow)
    unburied = slow.node.dead_letters.unburied
    assert len(unburied.waiting) == LINE_LETTERS
    assert slow.queue("grave").backing.length == LOTS - LINE_LETTERS
    slow.store.failing.clear()
    slow.advance(AGAIN_MS)
    turns_of(slow)
    assert not unburied.waiting
    assert settled_in(slow, "grave") == LINE_LETTERS


def test_events_behind_one_that_could_not_be_sent_are_sent(slow: World) -> None:
    for number in range(LOTS):
        slow.vhost.add_queue(f"q{number}", False, False, {})
        slow.vhost.add_binding("amq.rabbitmq.event", "queue", f"q{number}", "policy.#", {})
    administer.set_policy(slow.node, "/", "first", "nothing", {"max-length": 1}, 0, "all")
    administer.set_policy(slow.node, "/", "second", "nothing", {"max-length": 1}, 0, "all")
    break_next(slow, OwnMessages)
    turns_of(slow)
    names = [entry.message.properties().headers or {} for entry in slow.queue("q1999").browse(0, 10)]
    assert [headers["name"].value for headers in names] == ["second"]


def test_a_queue_that_could_not_be_trimmed_is_trimmed_by_the_next_message(slow: World) -> None:
    channel = slow.channel()
    channel.declare("q")
    fill(slow, "q", LOTS)
    administer.set_policy(slow.node, "/", "p", "q", {"max-length": 10}, 0, "all")
    break_next(slow, Trim)
    assert slow.queue("q").backing.length > 10
    channel.publish(b"m", "q")
    turns_of(slow)
    assert slow.queue("q").backing.length == 10


def set_policy(world: World) -> None:
    for number in range(LOTS):
        world.vhost.add_queue(f"q{number}", False, False, {})
    administer.set_policy(world.node, "/", "p", ".*", {"max-length": 10}, 0, "all")


def remove_queue(world: World) -> None:
    much_bound(world)
    world.vhost.delete_queue(world.queue("q"))


def lose_a_connection(world: World) -> None:
    owner = world.channel()
    for number in range(100):
        owner.declare(f"own{number}", exclusive=True)
    owner.client.connection.lost()


def delete_vhost(world: World) -> None:
    vhost = world.node.add_vhost("full")
    vhost.add_queue("q", False, False, {})
    for number in range(LOTS):
        vhost.add_binding("amq.direct", "queue", "q", f"k{number}", {})
    administer.delete_vhost(world.node, "full")


def delete_user(world: World) -> None:
    strangers(world)
    administer.delete_user(world.node, "passer-by")


def clear_permission(world: World) -> None:
    strangers(world)
    administer.clear_permission(world.node, "passer-by", "/")


SWEPT: dict[type[Errand], Callable[[World], None]] = {
    PolicySweep: set_policy,
    Removal: remove_queue,
    QueueSweep: lose_a_connection,
    VHostSweep: delete_vhost,
    Expulsion: delete_user,
    Revocation: clear_permission,
}


@pytest.mark.parametrize("kind", SWEPT)
def test_nobody_waits_for_a_change_that_has_failed(slow: World, kind: type[Errand]) -> None:
    SWEPT[kind](slow)
    assert slow.node.sweeping > 0
    break_next(slow, kind)
    turns_of(slow)
    assert slow.node.sweeping == 0


def test_what_says_that_a_queue_is_gone_stays_where_not_all_of_it_was_marked() -> None:
    world = StoredWorld(SimulatedDisk(), units=1)
    world.declare("q")
    for number in range(200):
        world.publish(f"m{number}", "q")
        world.sync()
    said_in = world.store.active
    world.delete("q")
    errands = world.node.errands
    (removal,) = [errand for errand in errands.waiting if isinstance(errand, LaneRemoval)]
    errands.waiting[errands.waiting.index(removal)] = Broken(removal)
    while errands.waiting:
        world.flush()
    world.settle_down()
    assert said_in.pins == 1
    # A restart marks what is left, by the record that is still there.
    again = world.restarted(world.disk.kill())
    assert again.store.unclaimed.incarnations() == []


def test_what_was_not_found_to_expire_in_the_middle_of_a_queue_expires_at_its_head(slow: World) -> None:
    channel = slow.channel()
    channel.declare("q", x_message_ttl=1000)
    fill(slow, "q", LOTS)
    administer.set_policy(slow.node, "/", "p", "q", {"exact-message-ttl": True}, 0, "all")
    break_next(slow, Gathering)
    channel.publish(b"last", "q", properties=Properties(expiration="10"))
    slow.advance(10)
    assert slow.queue("q").backing.length == LOTS
    slow.advance(1000)
    slow.node.errands.budget.units = UNITS
    assert channel.bodies_in("q") == []
    assert slow.queue("q").backing.length == 0


def test_a_file_whose_notes_could_not_be_said_again_goes_later() -> None:
    world = StoredWorld(SimulatedDisk(), units=1)
    world.declare("q", queue_type="quorum")
    world.declare("other")
    for number in range(10):
        world.publish(f"m{number}", "q")
    world.roll()
    world.settle_down()
    said_in = world.store.active
    # Beside it the notes are few.
    world.publish("." * 1000, "other")
    world.ack_next("other")
    entries = [world.get("q") for _ in range(10)]
    world.queue("q").requeue([entry for entry in entries if entry is not None])
    world.roll()
    world.flush()
    errands = world.node.errands
    (restatement,) = [errand for errand in errands.waiting if isinstance(errand, Restatement)]
    errands.waiting[errands.waiting.index(restatement)] = Broken(restatement)
    while errands.waiting:
        world.flush()
    assert not said_in.busy
    assert said_in.number in world.store.segments
    # Whatever else is done to files is an occasion.
    world.publish("n", "q")
    world.sync()
    world.roll()
    world.settle_down()
    assert said_in.number not in world.store.segments


ALONE: set[type[Errand]] = {relocate.Move, Release, Burial, OwnMessages, Trim, LaneRemoval, Gathering, Restatement}


def kinds(base: type[Errand] = Errand) -> set[type[Errand]]:
    found = {base} if base.__module__.startswith("warren.") else set()
    for each in base.__subclasses__():
        found |= kinds(each)
    return found


def test_of_every_kind_it_is_known_what_happens_when_it_fails() -> None:
    for package in (warren.broker, warren.management, warren.store):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    assert kinds() == {*ASKED, *SWEPT} | ALONE | BASES | PARTS | HARMLESS
