"""Work of more than one turn: what a turn costs is counted, and others are served between two pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.broker.operate import administer
from warren.broker.queue.errands import UNITS, Budget, Errand
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
    assert turns_of(world) == 5 * 100 * 100 // UNITS


def test_who_used_up_the_budget_waits_behind_the_others(world: World) -> None:
    long, short = Counting(1000, 100), Counting(1, 100)
    world.node.errands.add(long)
    world.node.errands.add(short)
    world.node.flush()
    assert (long.left, short.left) == (960, 1)
    world.node.flush()
    assert short.left == 0


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


WORK = [
    purge,
    purge_priorities,
    delete,
    trim,
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


def test_none_that_has_expired_is_handed_out_because_others_expired_first(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_message_ttl=10)
    fill(world, "q", 5000)
    world.node.now += 10
    assert channel.get("q") is None
