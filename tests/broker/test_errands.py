"""Work of more than one turn: what a turn costs is counted, and others are served between two pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.harness import ChannelClient, FakeStore, World, frame, publish_frames
from tests.faults.stalls import persistent
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.exchanges.delayed import DELAYED
from warren.broker.operate import administer, relocate
from warren.broker.publish.x_death import Address
from warren.broker.queue.backing import Backing
from warren.broker.queue.deadletter import LINE_LETTERS
from warren.broker.queue.errands import UNITS, Budget, Errand
from warren.broker.queue.expiry import BATCH
from warren.broker.queue.fifo import HAND_OUT, FifoQueue
from warren.broker.queue.outlet import CLOSING, RUNNING
from warren.broker.queue.queue import Queue
from warren.broker.rules.access import User
from warren.broker.rules.policies import POLICY

MANY = 30_000
# What one piece may cost more than was left when it began.
ONE_PIECE = 500


class Counting(Errand):
    def __init__(self, pieces: int, cost: int) -> None:
        super().__init__()
        self.left = pieces
        self.cost = cost
        self.turns: list[int] = []

    def step(self, budget: Budget) -> bool:
        while self.left > 0 and budget.left > 0:
            self.left -= 1
            budget.spend(self.cost)
        return self.left == 0


class Failing(Errand):
    def step(self, budget: Budget) -> bool:
        raise ValueError("no")


def turns_of(world: World) -> int:
    """How many turns it takes until nothing is left to do."""
    turns = 0
    while world.node.errands.waiting:
        world.node.flush()
        turns += 1
        assert turns < 10_000
    assert world.node.errands.budget.most <= UNITS + ONE_PIECE
    return turns


def fill(world: World, queue: str, count: int) -> None:
    channel = world.channel()
    channel.client.connection.feed(b"".join(publish_frames(1, b"m", queue) for _ in range(count)))
    world.flush()
    channel.client.lose()


def test_all_errands_together_have_one_budget_a_turn(world: World) -> None:
    errands = [Counting(100, 100) for _ in range(5)]
    for errand in errands:
        world.node.errands.add(errand)
    world.node.flush()
    assert sum(100 - errand.left for errand in errands) == UNITS // 100
    # The dearest turn so far is known.
    assert world.node.errands.budget.most == UNITS
    assert turns_of(world) == 5 * 100 * 100 // UNITS


def test_who_used_up_the_budget_waits_behind_the_others(world: World) -> None:
    long, short = Counting(1000, 100), Counting(1, 100)
    world.node.errands.add(long)
    world.node.errands.add(short)
    world.node.flush()
    assert (long.left, short.left) == (960, 1)
    world.node.flush()
    assert short.left == 0


class Patient(Errand):
    """Costs nothing, and is over when it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.is_over = False

    def step(self, budget: Budget) -> bool:
        self.steps += 1
        return self.is_over


def test_each_is_asked_once_a_turn_as_long_as_something_is_left_of_it(world: World) -> None:
    many = [Patient() for _ in range(3)]
    for patient in many:
        world.node.errands.add(patient)
    world.node.flush()
    assert [patient.steps for patient in many] == [1, 1, 1]
    world.node.errands.waiting.appendleft(Counting(1, UNITS))
    world.node.flush()
    # Of that turn nothing was left, to the last unit; of the next all is.
    assert [patient.steps for patient in many] == [1, 1, 1]
    world.node.flush()
    assert [patient.steps for patient in many] == [2, 2, 2]


def test_the_loop_is_asked_for_turns_until_nothing_is_left(world: World) -> None:
    patient = Patient()
    world.host.woken = False
    world.node.errands.add(patient)
    for _ in range(3):
        assert world.host.woken
        world.host.woken = False
        world.node.flush()
    patient.is_over = True
    world.node.flush()
    world.host.woken = False
    world.node.flush()
    assert not world.host.woken


def test_what_is_begun_in_a_turn_of_which_nothing_is_left_waits_for_the_next(world: World) -> None:
    connection = world.channel().client.connection
    for left, waiter, steps in ((1, None, 1), (0, None, 0), (-5, connection, 0)):
        patient = Patient()
        patient.is_over = True
        world.node.errands.budget.left = left
        world.node.errands.begin(patient, waiter)
        assert patient.steps == steps
        world.node.flush()
        assert patient.steps == 1


def test_who_used_up_a_turn_is_read_on_in_the_next_and_who_left_a_unit_in_this_one(world: World) -> None:
    for left, is_read in ((1, True), (0, False)):
        client = world.channel().client
        world.node.flush()
        world.node.errands.budget.left = UNITS
        world.node.errands.charge(UNITS - left, client.connection)
        assert world.node.errands.budget.left == left
        assert len(world.node.errands.waiting) == (0 if is_read else 1)
        assert client.wire.reading == is_read
        world.node.flush()
        assert client.wire.reading


def test_one_that_fails_harms_no_other(world: World) -> None:
    counting = Counting(50, 100)
    world.node.errands.add(Failing())
    world.node.errands.add(counting)
    turns_of(world)
    assert counting.left == 0
    assert "work of more than one turn failed" in world.host.logged()


# Each begins something that is in proportion to how much there is, and says whether it is over.


def purge(world: World, channel: ChannelClient) -> Callable[[], bool]:
    channel.declare("q")
    fill(world, "q", MANY)
    channel.client.connection.feed(frame(methods.QueuePurge(queue="q"), 1))
    return lambda: world.queue("q").backing.length == 0


def purge_priorities(world: World, channel: ChannelClient) -> Callable[[], bool]:
    channel.declare("q", x_max_priority=3)
    fill(world, "q", MANY)
    channel.client.connection.feed(frame(methods.QueuePurge(queue="q"), 1))
    return lambda: world.queue("q").backing.length == 0


def delete(world: World, channel: ChannelClient) -> Callable[[], bool]:
    channel.declare("q")
    fill(world, "q", MANY)
    backing = world.queue("q").backing
    channel.client.connection.feed(frame(methods.QueueDelete(queue="q"), 1))
    return lambda: not backing._entries


def trim(world: World, channel: ChannelClient) -> Callable[[], bool]:
    channel.declare("q")
    fill(world, "q", MANY)
    administer.set_policy(world.node, "/", "p", "q", {"max-length": 10}, 0, "all")
    return lambda: world.queue("q").backing.length == 10


def expire_exactly(world: World, channel: ChannelClient) -> Callable[[], bool]:
    channel.declare("q", x_message_ttl=1_000_000)
    fill(world, "q", MANY)
    administer.set_policy(world.node, "/", "p", "q", {"exact-message-ttl": True}, 0, "all")
    queue = world.queue("q")
    assert isinstance(queue, FifoQueue)
    return lambda: queue.exact_expiry is not None and queue.exact_expiry.is_complete


def reject_all(world: World, channel: ChannelClient) -> Callable[[], bool]:
    channel.declare("dead")
    channel.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    fill(world, "q", 3000)
    channel.consume("q")
    channel.client.connection.feed(frame(methods.BasicNack(delivery_tag=3000, multiple=True, requeue=False), 1))
    return lambda: world.queue("dead").backing.length == 3000


def settle_before_browsing(world: World, channel: ChannelClient) -> Callable[[], bool]:
    channel.declare("q")
    fill(world, "q", MANY)
    channel.qos(10)
    arguments: dict[str, object] = {"x-browse": True, "x-settle-to": MANY - 10}
    channel.client.connection.feed(frame(methods.BasicConsume(queue="q", arguments=table_of(arguments)), 1))
    return lambda: world.queue("q").backing.length == 10


def set_policy(world: World, channel: ChannelClient) -> Callable[[], bool]:
    for number in range(1000):
        world.vhost.add_queue(f"q{number}", False, False, {})
    administer.set_policy(world.node, "/", "p", ".*", {"max-length": 10}, 0, "all")
    return lambda: all(queue.policy == "p" for queue in world.vhost.queues.values())


def delete_policy(world: World, channel: ChannelClient) -> Callable[[], bool]:
    set_policy(world, channel)
    world.flush()
    administer.delete_policy(world.node, "/", "p", POLICY)
    return lambda: all(queue.policy is None for queue in world.vhost.queues.values())


def delete_vhost(world: World, channel: ChannelClient) -> Callable[[], bool]:
    vhost = world.node.add_vhost("full")
    for number in range(1000):
        vhost.add_queue(f"q{number}", False, False, {})
    administer.delete_vhost(world.node, "full")
    return lambda: "full" not in world.node.vhosts and not vhost.queues


def lose_a_connection_with_queues(world: World, channel: ChannelClient) -> Callable[[], bool]:
    owner = world.channel()
    for number in range(500):
        owner.declare(f"q{number}", exclusive=True)
    owner.client.connection.lost()
    return lambda: not world.vhost.queues


def strangers(world: World, vhost: str = "/") -> list[ChannelClient]:
    """A hundred connections of a user, each with a consumer."""
    administer.put_user(world.node, User("passer-by", "passer-by", "plain", [], {}))
    administer.set_permission(world.node, "passer-by", vhost, ".*", ".*", ".*")
    found = [world.connect("passer-by", vhost).channel() for _ in range(100)]
    for channel in found:
        channel.declare("q")
        channel.consume("q")
    return found


def are_closed(clients: list[ChannelClient], reason: str) -> bool:
    return all(client.client.connection.stage == CLOSING for client in clients) and all(
        client.client.expect_close() == (320, f"CONNECTION_FORCED - {reason}") for client in clients
    )


def delete_a_user(world: World, channel: ChannelClient) -> Callable[[], bool]:
    clients = strangers(world)
    administer.delete_user(world.node, "passer-by")
    return lambda: are_closed(clients, "user 'passer-by' is deleted")


def close_the_connections_of_a_user(world: World, channel: ChannelClient) -> Callable[[], bool]:
    clients = strangers(world)
    administer.close_connections_of(world.node, "passer-by", "enough")
    return lambda: are_closed(clients, "enough")


def delete_a_vhost_with_connections(world: World, channel: ChannelClient) -> Callable[[], bool]:
    vhost = world.node.add_vhost("full")
    clients = strangers(world, "full")
    administer.delete_vhost(world.node, "full")
    return lambda: (
        "full" not in world.node.vhosts and not vhost.queues and are_closed(clients, "vhost 'full' is deleted")
    )


def test_what_comes_into_a_vhost_while_its_connections_are_closed_goes_with_it(world: World) -> None:
    vhost = world.node.add_vhost("full")
    clients = strangers(world, "full")
    administer.delete_vhost(world.node, "full")
    late = next(channel for channel in reversed(clients) if channel.client.connection.stage == RUNNING)
    late.declare("late", durable=True)
    turns_of(world)
    assert "full" not in world.node.vhosts
    assert not vhost.queues
    assert not vhost.exchanges


def test_a_vhost_that_is_being_deleted_is_not_found_by_who_opens_it(world: World) -> None:
    world.node.add_vhost("full")
    strangers(world, "full")
    late = world.dial()
    late.log_in("passer-by", "passer-by")
    tune = late.expect(methods.ConnectionTune)
    late.send(methods.ConnectionTuneOk(tune.channel_max, tune.frame_max))
    administer.delete_vhost(world.node, "full")
    assert "full" in world.node.vhosts
    late.send(methods.ConnectionOpen("full"))
    assert late.expect_close() == (530, "NOT_ALLOWED - vhost full not found")
    turns_of(world)
    assert "full" not in world.node.vhosts
    assert late.connection.vhost is None


def test_a_vhost_that_could_not_be_deleted_is_found_again(world: World) -> None:
    world.node.add_vhost("full")
    strangers(world, "full")
    administer.delete_vhost(world.node, "full")
    assert world.node.errands.waiting.pop().failed()
    world.connect("passer-by", "full")


def withdraw_permissions(world: World, channel: ChannelClient) -> Callable[[], bool]:
    clients = strangers(world)
    administer.clear_permission(world.node, "passer-by", "/")
    return lambda: not any(client.client.connection.channels[1].consumers for client in clients)


WORK = [
    delete_a_user,
    close_the_connections_of_a_user,
    delete_a_vhost_with_connections,
    withdraw_permissions,
    purge,
    purge_priorities,
    delete,
    trim,
    expire_exactly,
    reject_all,
    settle_before_browsing,
    set_policy,
    delete_policy,
    delete_vhost,
    lose_a_connection_with_queues,
]


@pytest.mark.parametrize("work", WORK)
def test_work_in_proportion_to_what_is_there_is_done_in_pieces(
    world: World, work: Callable[[World, ChannelClient], Callable[[], bool]]
) -> None:
    other = world.channel()
    is_over = work(world, world.channel())
    assert not is_over()
    other.client.connection.feed(frame(methods.QueueDeclare(queue="other"), 1))
    world.node.flush()
    # Somebody else is answered in the turn in which they ask, whatever is going on.
    other.expect(methods.QueueDeclareOk)
    world.vhost.delete_queue(world.queue("other"))
    assert turns_of(world) > 1
    assert is_over()


def test_a_purge_is_answered_when_it_is_done_and_only_then_the_next_method(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", MANY)
    channel.client.connection.feed(
        frame(methods.QueuePurge(queue="q"), 1) + frame(methods.QueueDeclare(queue="q", passive=True), 1)
    )
    world.node.flush()
    assert channel.names() == []
    turns_of(world)
    world.flush()
    purged, declared = channel.heard()
    assert isinstance(purged, methods.QueuePurgeOk)
    assert purged.message_count == MANY
    assert isinstance(declared, methods.QueueDeclareOk)
    assert declared.message_count == 0


def test_what_comes_during_a_purge_stays(world: World) -> None:
    channel, other = world.channel(), world.channel()
    channel.declare("q")
    fill(world, "q", MANY)
    channel.client.connection.feed(frame(methods.QueuePurge(queue="q"), 1))
    assert world.node.errands.waiting
    other.client.connection.feed(publish_frames(1, b"new", "q"))
    world.flush()
    assert other.bodies_in("q") == [b"new"]


def test_a_connection_that_goes_during_its_purge_leaves_the_queue_purged(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", MANY)
    channel.client.connection.feed(frame(methods.QueuePurge(queue="q"), 1))
    channel.client.connection.lost()
    world.flush()
    assert world.queue("q").backing.length == 0


def test_a_queue_may_go_during_its_purge(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", MANY)
    channel.client.connection.feed(frame(methods.QueuePurge(queue="q"), 1))
    world.vhost.delete_queue(world.queue("q"))
    world.flush()
    assert channel.names() == ["queue.purge-ok"]


def test_a_million_that_expire_at_once_go_in_batches(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=10)
    fill(world, "q", 5000)
    world.advance(10)
    assert world.queue("q").backing.length == 4000
    for _ in range(4):
        world.advance(1)
    assert world.queue("q").backing.length == 0


def test_publishes_take_out_no_more_of_what_has_expired_than_a_turn_takes(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=10)
    fill(world, "q", MANY)
    world.node.now += 10
    channel.client.connection.feed(publish_frames(1, b"m", "q") * 100)
    assert world.queue("q").backing.length >= MANY + 100 - UNITS
    assert world.node.errands.budget.most <= UNITS + ONE_PIECE


def test_very_many_queues_in_which_messages_expire_share_a_turn(world: World) -> None:
    for number in range(200):
        world.vhost.add_queue(f"q{number}", False, False, table_of({"x-message-ttl": 10}))
        fill(world, f"q{number}", 100)
    world.node.tick(world.node.now + 10)
    left = sum(queue.backing.length for queue in world.vhost.queues.values())
    assert 20_000 - UNITS <= left < 20_000
    for _ in range(10):
        world.advance(1)
    assert all(queue.backing.length == 0 for queue in world.vhost.queues.values())


def test_who_asks_for_one_behind_very_many_that_have_expired_gets_it(world: World) -> None:
    channel, other = world.channel(), world.channel()
    channel.declare("q")
    short = Properties()
    short.expiration = "10"
    channel.client.connection.feed(publish_frames(1, b"m", "q", properties=short) * MANY)
    channel.client.connection.feed(publish_frames(1, b"wanted", "q"))
    world.flush()
    world.node.now += 10
    channel.client.connection.feed(
        frame(methods.BasicGet(queue="q", no_ack=True), 1) + frame(methods.BasicGet(queue="q"), 1)
    )
    other.client.connection.feed(frame(methods.QueueDeclare(queue="other"), 1))
    world.node.flush()
    assert channel.names() == []
    other.expect(methods.QueueDeclareOk)
    assert turns_of(world) > 1
    world.flush()
    assert channel.names() == ["basic.get-ok", "basic.get-empty"]


class KeepingStore(FakeStore):
    """One in which a queue that failed is found as it was."""

    def __init__(self) -> None:
        super().__init__()
        self._backings: dict[str, Backing] = {}

    def open(self, queue: Queue, level: int) -> Backing:
        if queue.name not in self._backings:
            self._backings[queue.name] = super().open(queue, level)
        self._backings[queue.name].has_expiring = True
        return self._backings[queue.name]


@pytest.mark.parametrize("is_late", [False, True])
def test_who_asks_for_one_of_a_queue_that_fails_again_and_again_does_not_wait_for_it(is_late: bool) -> None:
    world = World(store=KeepingStore())
    channel = world.channel()
    channel.declare("q", x_message_ttl=10)
    fill(world, "q", MANY)
    world.node.now += 10
    if is_late:
        channel.client.connection.feed(frame(methods.BasicGet(queue="q"), 1))
        assert channel.names() == []
    world.store.failing.add(("q", "fetch"))
    if not is_late:
        channel.client.connection.feed(frame(methods.BasicGet(queue="q"), 1))
    # What has expired is still there, and would be the next time.
    world.flush()
    assert channel.names() == ["basic.get-empty"]
    assert world.node.monitor.failures == 1 + is_late
    assert world.queue("q").is_behind()


def test_who_waits_for_one_of_a_queue_that_goes_is_told(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=10)
    fill(world, "q", MANY)
    world.node.now += 10
    channel.client.connection.feed(frame(methods.BasicGet(queue="q"), 1))
    world.vhost.delete_queue(world.queue("q"))
    turns_of(world)
    world.flush()
    assert channel.expect_close() == (404, "NOT_FOUND - no queue 'q' in vhost '/'")


def test_a_message_of_its_own_time_that_has_left_costs_as_much_as_one_that_is_there(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=10, x_exact_message_ttl=True)
    fill(world, "q", MANY)
    channel.client.send(methods.QueuePurge(queue="q"), 1)
    turns_of(world)
    world.node.errands.budget.left = UNITS
    world.node.tick(world.node.now + 10)
    assert world.node.errands.budget.left == UNITS - BATCH


def test_very_many_that_wait_for_their_next_try_come_back_in_order_in_several_turns(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_delayed_retry_min=10)
    publish_numbers(world, "q", 1, 6000)
    tag = channel.consume("q")
    assert len(channel.delivered()) == 6000
    channel.cancel(tag)
    channel.client.send(methods.BasicNack(delivery_tag=6000, multiple=True, requeue=True), 1)
    turns_of(world)
    assert world.queue("q").waiting() == 6000
    world.node.errands.budget.left = UNITS
    world.node.tick(world.node.now + 10)
    assert world.queue("q").waiting() == 6000 - UNITS
    for _ in range(3):
        world.advance(1)
    assert [int(body) for body in channel.bodies_in("q")] == list(range(1, 6001))


def test_very_many_queues_that_nobody_uses_go_in_several_turns(world: World) -> None:
    for number in range(3000):
        world.vhost.add_queue(f"q{number}", False, False, table_of({"x-expires": 10}))
    world.node.tick(world.node.now + 10)
    world.node.flush()
    assert len(world.vhost.queues) > 1000
    for _ in range(5):
        world.advance(0)
        turns_of(world)
    assert not world.vhost.queues


def test_publishes_take_out_little_while_a_queue_is_trimmed(slow: World) -> None:
    channel = slow.channel()
    channel.declare("q")
    fill(slow, "q", MANY)
    administer.set_policy(slow.node, "/", "p", "q", {"max-length": 10}, 0, "all")
    before = slow.queue("q").backing.length
    channel.client.connection.feed(publish_frames(1, b"m", "q") * 50)
    assert slow.queue("q").backing.length == before - 50
    turns_of(slow)
    assert slow.queue("q").backing.length == 10


def test_none_that_has_expired_is_handed_out_because_others_expired_first(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=10)
    fill(world, "q", 5000)
    world.node.now += 10
    assert channel.get("q") is None


# -- what is in pieces keeps what was promised of it as a whole --------------------------------------------------------


LOTS = 2000


def holding(world: World, count: int, name: str = "q") -> ChannelClient:
    """A channel that holds so many messages of the queue, numbered."""
    channel = world.channel()
    channel.declare(name)
    channel.consume(name)
    publish_numbers(world, name, 1, count)
    channel.take()
    assert world.queue(name).unacked == count
    return channel


def publish_numbers(world: World, name: str, first: int, last: int) -> None:
    publisher = world.channel()
    publisher.client.connection.feed(b"".join(publish_frames(1, b"%d" % n, name) for n in range(first, last + 1)))
    world.flush()


def numbers(channel: ChannelClient) -> list[int]:
    return [int(body) for body in channel.delivered()]


def begin(channel: ChannelClient, *asked: methods.Method) -> None:
    channel.client.connection.feed(b"".join(frame(method, channel.number) for method in asked))
    assert channel.client.world.node.errands.waiting


def test_what_comes_behind_an_ack_of_very_many_waits_for_it(slow: World) -> None:
    channel = holding(slow, LOTS)
    begin(channel, methods.BasicAck(delivery_tag=LOTS, multiple=True), methods.QueueDeclare(queue="q", passive=True))
    assert channel.names() == []
    assert turns_of(slow) > 1
    slow.flush()
    assert channel.names() == ["queue.declare-ok"]
    assert slow.queue("q").unacked == 0


def test_what_was_acked_is_acked_though_the_connection_goes_meanwhile(slow: World) -> None:
    channel = holding(slow, LOTS)
    begin(channel, methods.BasicAck(delivery_tag=LOTS - 10, multiple=True))
    channel.client.connection.lost()
    slow.flush()
    other = slow.channel()
    other.consume("q")
    assert numbers(other) == list(range(LOTS - 9, LOTS + 1))
    assert slow.queue("q").counters.acked == LOTS - 10


def test_nothing_overtakes_what_a_channel_gives_back(slow: World) -> None:
    channel = holding(slow, LOTS)
    other = slow.channel()
    other.consume("q")
    other.qos(1)
    begin(channel, methods.ChannelClose(reply_code=200))
    # It comes while some are back and others are not.
    publish_numbers(slow, "q", LOTS + 1, LOTS + 5)
    slow.flush()
    assert numbers(other) == list(range(1, LOTS + 6))
    assert channel.names() == ["channel.close-ok"]


def test_a_client_hears_close_ok_when_what_it_held_is_back(slow: World) -> None:
    channel = holding(slow, LOTS)
    channel.client.connection.feed(frame(methods.ConnectionClose(reply_code=200), 0))
    slow.node.flush()
    assert channel.client.take() == []
    assert 0 < slow.queue("q").backing.length < LOTS
    slow.flush()
    channel.client.expect(methods.ConnectionCloseOk)
    assert slow.queue("q").backing.length == LOTS
    assert channel.client.wire.is_closed()


def test_a_queue_that_fails_while_it_is_given_back_has_nothing_twice(slow: World) -> None:
    channel = holding(slow, LOTS)
    channel.client.connection.feed(frame(methods.ChannelClose(reply_code=200), 1))
    queue = slow.queue("q")
    assert 0 < queue.backing.length < LOTS
    slow.node.monitor.failed(queue)
    slow.flush()
    # It began anew with what its store has; what was still on its way back belongs to before.
    assert queue.backing.length == 0
    assert queue.returning == 0


def test_a_nack_of_very_many_goes_to_the_dead_letters_in_order(slow: World) -> None:
    dead = slow.channel()
    dead.declare("dead")
    channel = slow.channel()
    channel.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    channel.consume("q")
    publish_numbers(slow, "q", 1, LOTS)
    begin(channel, methods.BasicNack(delivery_tag=LOTS, multiple=True, requeue=False))
    while slow.node.errands.waiting:
        slow.node.flush()
        # They die no faster than they can be buried.
        assert all(line.count <= LINE_LETTERS + 400 for line in slow.node.dead_letters.lines.values())
    slow.flush()
    dead.consume("dead")
    assert numbers(dead) == list(range(1, LOTS + 1))


def test_commit_ok_comes_when_all_of_a_huge_transaction_is_there_and_durable(slow: World) -> None:
    channel = slow.channel()
    channel.declare("q", durable=True)
    slow.store.holds = True
    channel.begin()
    frames = b"".join(publish_frames(1, b"%d" % n, "q", properties=persistent()) for n in range(LOTS))
    channel.client.connection.feed(frames)
    slow.flush()
    assert slow.queue("q").backing.length == 0
    begin(channel, methods.TxCommit())
    # What is there already becomes durable, and is not the whole.
    slow.store.synced = slow.store.position
    slow.node.flush()
    assert 0 < slow.queue("q").backing.length < LOTS
    assert channel.names() == []
    turns_of(slow)
    assert channel.names() == []
    slow.sync()
    slow.flush()
    assert channel.names() == ["tx.commit-ok"]
    assert slow.queue("q").backing.length == LOTS


def test_a_transaction_that_is_being_committed_is_committed_though_its_client_goes(slow: World) -> None:
    channel = holding(slow, LOTS)
    channel.declare("out")
    channel.begin()
    channel.client.connection.feed(publish_frames(1, b"result", "out") * LOTS)
    channel.client.connection.feed(frame(methods.BasicAck(delivery_tag=0, multiple=True), 1))
    slow.flush()
    begin(channel, methods.TxCommit())
    channel.client.connection.lost()
    slow.flush()
    assert slow.queue("out").backing.length == LOTS
    assert (slow.queue("q").unacked, slow.queue("q").backing.length) == (0, 0)


def test_what_is_not_rolled_back_yet_goes_back_with_the_rest_once(slow: World) -> None:
    channel = holding(slow, LOTS)
    channel.begin()
    channel.client.connection.feed(frame(methods.BasicAck(delivery_tag=0, multiple=True), 1))
    slow.flush()
    begin(channel, methods.TxRollback())
    channel.client.connection.lost()
    slow.flush()
    other = slow.channel()
    other.consume("q")
    assert numbers(other) == list(range(1, LOTS + 1))


def test_what_is_being_acked_in_a_transaction_goes_back_when_the_client_goes(slow: World) -> None:
    channel = holding(slow, LOTS)
    channel.begin()
    begin(channel, methods.BasicAck(delivery_tag=0, multiple=True))
    channel.client.connection.lost()
    slow.flush()
    assert (slow.queue("q").unacked, slow.queue("q").backing.length) == (0, LOTS)


def wide_exchange(slow: World, count: int) -> ChannelClient:
    channel = slow.channel()
    channel.declare_exchange("wide", "fanout")
    for number in range(count):
        slow.vhost.add_queue(f"q{number}", False, False, {})
        slow.vhost.add_binding("wide", "queue", f"q{number}", "", {})
    return channel


def test_a_publish_to_very_many_queues_is_confirmed_when_it_is_in_all_of_them(slow: World) -> None:
    channel = wide_exchange(slow, LOTS)
    channel.confirm()
    both = publish_frames(1, b"1", exchange="wide") + publish_frames(1, b"2", "q1999")
    channel.client.connection.feed(both)
    slow.node.flush()
    assert channel.confirms() == []
    assert slow.queue("q1999").backing.length == 0
    turns_of(slow)
    slow.flush()
    assert channel.confirms() in ([("ack", 2, True)], [("ack", 1, False), ("ack", 2, False)])
    # What the same client published later is behind it.
    assert channel.bodies_in("q1999") == [b"1", b"2"]
    assert all(slow.queue(f"q{number}").backing.length == 1 for number in range(1999))


def three_dying(slow: World, durable: bool = False) -> ChannelClient:
    """Their way to very many queues has begun."""
    channel = wide_exchange(slow, LOTS)
    channel.declare("grave", durable=durable, x_dead_letter_exchange="wide")
    publish_numbers(slow, "grave", 1, 3)
    for _ in range(3):
        channel.get("grave")
    begin(channel, *[methods.BasicReject(delivery_tag=tag, requeue=False) for tag in (1, 2, 3)])
    slow.node.flush()
    return channel


def test_dead_letters_come_to_very_many_queues_in_the_order_in_which_they_died(slow: World) -> None:
    channel = three_dying(slow)
    # Until it is everywhere, a letter has not left its queue.
    assert slow.queue("q0").backing.length == 1
    assert slow.queue("q1999").backing.length == 0
    assert slow.queue("grave").counters.dead_lettered == 0
    turns_of(slow)
    assert slow.queue("grave").counters.dead_lettered == 3
    for name in ("q0", "q1000", "q1999"):
        assert channel.bodies_in(name) == [b"1", b"2", b"3"]


def test_a_letter_for_very_many_queues_is_routed_once(slow: World) -> None:
    channel = slow.channel()
    channel.declare_exchange("wide", "headers")
    for number in range(LOTS):
        slow.vhost.add_queue(f"q{number}", False, False, {})
        slow.vhost.add_binding("wide", "queue", f"q{number}", "", {})
    channel.declare("grave", x_dead_letter_exchange="wide")
    publish_numbers(slow, "grave", 1, 1)
    channel.get("grave")
    # One for each time that a message is matched.
    draws = slow.host.draws
    begin(channel, methods.BasicReject(delivery_tag=1, requeue=False))
    turns_of(slow)
    assert channel.bodies_in("q1999") == [b"1"]
    assert slow.host.draws == draws + 1


def test_an_expired_letter_does_not_come_back_to_its_own_queue_among_very_many(slow: World) -> None:
    channel = wide_exchange(slow, LOTS)
    channel.declare("grave", x_dead_letter_exchange="wide", x_message_ttl=10)
    slow.vhost.add_binding("wide", "queue", "grave", "", {})
    channel.publish(b"m", "grave")
    slow.advance(10)
    turns_of(slow)
    assert slow.queue("grave").count() == 0
    assert channel.bodies_in("q1999") == [b"m"]


def test_what_was_delayed_comes_to_very_many_queues_in_the_order_in_which_it_was_due(slow: World) -> None:
    channel = slow.channel()
    channel.declare_exchange("late", DELAYED, x_delayed_type="fanout")
    for number in range(LOTS):
        slow.vhost.add_queue(f"q{number}", False, False, {})
        slow.vhost.add_binding("late", "queue", f"q{number}", "", {})
    for body, delay in ((b"3", 30), (b"1", 10), (b"2", 20)):
        channel.publish(body, exchange="late", properties=Properties(headers=table_of({"x-delay": delay})))
    slow.node.tick(slow.node.now + 30)
    slow.node.flush()
    assert slow.queue("q0").backing.length == 1
    assert slow.queue("q1999").backing.length == 0
    while slow.queue("q1999").backing.length < 3:
        turns_of(slow)
        slow.advance(1)
    for name in ("q0", "q1000", "q1999"):
        assert channel.bodies_in(name) == [b"1", b"2", b"3"]


def test_nobody_gets_a_message_that_is_being_moved_to_very_many_queues(slow: World) -> None:
    channel = wide_exchange(slow, LOTS)
    channel.declare("source")
    publish_numbers(slow, "source", 1, 2)
    first = slow.queue("source").browse(0, 1)[0]
    moving = relocate.move(slow.vhost, first, Address("wide", ["k"]), {})
    assert moving is not None
    assert not moving.is_done
    assert channel.bodies_in("source") == [b"2"]
    turns_of(slow)
    assert moving.has_moved
    assert slow.queue("source").count() == 0
    assert channel.bodies_in("q1999") == [b"1"]


def test_what_none_of_very_many_queues_took_is_back_in_its_place(slow: World) -> None:
    channel = wide_exchange(slow, 0)
    for number in range(LOTS):
        full = table_of({"x-max-length": 0, "x-overflow": "reject-publish"})
        slow.vhost.add_queue(f"q{number}", False, False, full)
        slow.vhost.add_binding("wide", "queue", f"q{number}", "", {})
    channel.declare("source")
    publish_numbers(slow, "source", 1, 2)
    first = slow.queue("source").browse(0, 1)[0]
    moving = relocate.move(slow.vhost, first, Address("wide", ["k"]), {})
    turns_of(slow)
    assert moving is not None
    assert moving.is_done
    assert not moving.has_moved
    assert channel.bodies_in("source") == [b"1", b"2"]


def bind_widely(slow: World, exchange: str, key: str) -> None:
    for number in range(LOTS):
        slow.vhost.add_queue(f"q{number}", False, False, {})
        slow.vhost.add_binding(exchange, "queue", f"q{number}", key, {})


def test_copies_of_what_is_traced_go_to_very_many_queues_in_pieces_and_in_order(slow: World) -> None:
    channel, other = slow.channel(), slow.channel()
    bind_widely(slow, "amq.rabbitmq.trace", "publish.#")
    administer.set_tracing(slow.node, "/", True)
    channel.client.connection.feed(b"".join(publish_frames(1, b"%d" % n, "nowhere") for n in range(3)))
    slow.node.flush()
    assert slow.queue("q0").backing.length == 1
    assert slow.queue("q1999").backing.length == 0
    # Whoever published it is not read on, or copies would come faster than they go.
    assert not channel.client.wire.reading
    other.declare("other")
    turns_of(slow)
    administer.set_tracing(slow.node, "/", False)
    for name in ("q0", "q1000", "q1999"):
        assert channel.bodies_in(name) == [b"0", b"1", b"2"]


def test_events_come_to_very_many_queues_in_pieces_and_in_order(slow: World) -> None:
    bind_widely(slow, "amq.rabbitmq.event", "policy.#")
    channel = slow.channel()
    channel.declare("few")
    channel.bind("few", "amq.rabbitmq.event", "vhost.#")
    for name in ("first", "second", "third"):
        administer.set_policy(slow.node, "/", name, "nothing", {"max-length": 1}, 0, "all")
    assert slow.queue("q1999").backing.length == 0
    # One that goes to few waits behind those that go to many.
    slow.node.add_vhost("another")
    assert slow.queue("few").backing.length == 0
    turns_of(slow)
    assert slow.queue("few").backing.length == 1
    for queue in ("q0", "q1000", "q1999"):
        found = [entry.message.properties().headers or {} for entry in slow.queue(queue).browse(0, 10)]
        assert [headers["name"].value for headers in found] == ["first", "second", "third"]


def test_a_queue_with_very_many_bindings_is_there_until_it_is_gone(slow: World) -> None:
    channel, other = slow.channel(), slow.channel()
    channel.declare_exchange("x", "direct")
    channel.declare("q")
    for number in range(LOTS):
        slow.vhost.add_binding("x", "queue", "q", f"k{number}", {})
    begin(channel, methods.QueueDelete(queue="q"), methods.QueueDeclare(queue="q"))
    slow.node.flush()
    assert channel.names() == []
    # Another may declare what is there; what they get is gone with it, as if they had come before.
    other.client.connection.feed(frame(methods.QueueDeclare(queue="q", passive=True), 1))
    slow.node.flush()
    assert other.names() == ["queue.declare-ok"]
    turns_of(slow)
    slow.flush()
    assert channel.names() == ["queue.delete-ok", "queue.declare-ok"]
    assert slow.vhost.bindings_to(slow.queue("q")) == []
    assert slow.vhost.exchanges["x"].bindings == {}


def much_bound(slow: World) -> ChannelClient:
    channel = slow.channel()
    channel.declare_exchange("x", "direct")
    channel.declare("q")
    for number in range(LOTS):
        slow.vhost.add_binding("x", "queue", "q", f"k{number}", {})
    return channel


def sent(client: ChannelClient, *asked: methods.Method) -> list[str]:
    """What is answered in the same turn."""
    client.client.connection.feed(b"".join(frame(method, 1) for method in asked))
    client.client.world.node.flush()
    return client.names()


@pytest.mark.parametrize("condition", ["if_empty", "if_unused"])
def test_a_queue_that_goes_if_nobody_uses_it_is_there_for_nobody_while_its_bindings_go(
    slow: World, condition: str
) -> None:
    channel, other = much_bound(slow), slow.channel()
    other.confirm()
    asked: list[methods.Method] = [
        methods.BasicConsume(queue="q"),
        methods.BasicGet(queue="q"),
        methods.QueueDeclare(queue="q", passive=True),
        methods.QueueBind(queue="q", exchange="x", routing_key="k"),
    ]
    others = [slow.channel() for _ in asked]
    begin(channel, methods.QueueDelete(queue="q", if_empty=condition == "if_empty", if_unused=condition == "if_unused"))
    for exchange, key in (("", "q"), ("x", "k1999")):
        other.client.connection.feed(publish_frames(1, b"late", key, exchange))
    slow.node.flush()
    assert slow.queue("q").backing.length == 0
    assert other.confirms() in ([("ack", 2, True)], [("ack", 1, False), ("ack", 2, False)])
    for late, method in zip(others, asked, strict=True):
        assert sent(late, method) == ["channel.close"]
    # One more deletion finds nothing; who declares it gets a new one, when the old one is gone.
    assert sent(other, methods.QueueDelete(queue="q"), methods.QueueDeclare(queue="q")) == ["queue.delete-ok"]
    assert channel.names() == []
    turns_of(slow)
    slow.flush()
    assert channel.names() == ["queue.delete-ok"]
    assert other.names() == ["queue.declare-ok"]
    assert slow.vhost.exchanges["x"].bindings == {}
    channel.publish(b"kept", "q")
    assert channel.bodies_in("q") == [b"kept"]


def test_a_queue_in_use_keeps_every_binding(slow: World) -> None:
    channel, other = much_bound(slow), slow.channel()
    channel.publish(b"kept", "q")
    assert channel.refused(methods.QueueDelete(queue="q", if_empty=True))[0] == 406
    other.consume("q")
    again = slow.channel()
    assert again.refused(methods.QueueDelete(queue="q", if_unused=True))[0] == 406
    assert len(slow.vhost.bindings_to(slow.queue("q"))) == LOTS


@pytest.mark.parametrize("asked", ["queue.delete", "exchange.delete", "queue.purge", "tx.commit"])
def test_nothing_is_answered_on_a_channel_that_has_closed_meanwhile(slow: World, asked: str) -> None:
    channel = much_bound(slow)
    channel.declare("timed", x_consumer_timeout=1000)
    channel.consume("timed")
    publish_numbers(slow, "q", 1, LOTS)
    if asked == "tx.commit":
        channel.call(methods.TxSelect(), methods.TxSelectOk)
        for _ in range(LOTS):
            channel.publish("m", "q")
    publish_numbers(slow, "timed", 1, 1)
    channel.take()
    questions = {
        "queue.delete": methods.QueueDelete(queue="q"),
        "exchange.delete": methods.ExchangeDelete(exchange="x"),
        "queue.purge": methods.QueuePurge(queue="q"),
        "tx.commit": methods.TxCommit(),
    }
    begin(channel, questions[asked])
    # The consumer of the same channel holds its message for too long.
    slow.node.tick(slow.node.now + 1000)
    assert slow.node.errands.waiting
    slow.flush()
    assert channel.names() == ["channel.close"]


def test_small_messages_are_handed_out_in_several_turns(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    count = HAND_OUT * 2 + 1
    fill(world, "q", count)
    channel.client.connection.feed(frame(methods.BasicConsume(queue="q", no_ack=True), 1))
    world.node.flush()
    assert world.queue("q").backing.length == count - 2 * HAND_OUT
    world.node.flush()
    assert world.queue("q").backing.length == 0


def test_very_many_consumers_of_one_client_go_without_taking_the_square_of_it(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    for number in range(600):
        channel.client.connection.feed(frame(methods.BasicConsume(queue="q", consumer_tag=f"c{number}"), 1))
        world.flush()
    for number in range(599):
        channel.client.connection.feed(frame(methods.BasicCancel(consumer_tag=f"c{number}"), 1))
        world.flush()
        members = sum(len(group.members) for group in world.queue("q").consumers.groups)
        left = 599 - number
        # Who is gone leaves the list soon, and not one by one.
        assert members <= left * 8 // 7 + 20
    channel.take()
    assert [consumer.tag for consumer in world.queue("q").consumers.all()] == ["c599"]
    publish_numbers(world, "q", 1, 1)
    assert numbers(channel) == [1]
