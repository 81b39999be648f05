"""Every piece of work on the loop has a budget: every method of AMQP, with much and with three times as much of what it
works on. The lines of the broker that run in the longest turn are counted, which is the same on every machine; they may
not grow with it. What is compiled has no lines to count: then only that the work is done and counted in units.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.broker.harness import ChannelClient, World, frame, publish_frames
from tests.faults.test_stalls import understood
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.exchanges.delayed import DELAYED
from warren.broker.node import Node
from warren.broker.operate import relocate
from warren.broker.publish.x_death import Address
from warren.broker.session.connection import Connection
from warren.core import IS_COMPILED

LITTLE = 400
# What all errands of a turn have together, so that little is more than enough for several turns.
UNITS = 120


class Lines:
    """Counts the lines that run in the broker."""

    def __init__(self) -> None:
        self.count = 0
        self.most = 0

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if "/warren/" not in frame.f_code.co_filename:
            return None
        self.count += 1
        return self._trace

    def turn(self, work: Callable[[], None]) -> None:
        self.count = 0
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            work()
        finally:
            sys.settrace(before)
        self.most = max(self.most, self.count)


def lines_of_the_longest_turn(world: World, begin: Callable[[], None]) -> tuple[int, int]:
    """From when it begins until nothing is left to do; and how many turns that took."""
    lines = Lines()
    world.node.errands.budget.units = UNITS
    world.node.flush()
    world.node.errands.budget.most = 0
    lines.turn(begin)
    turns = 0
    while turns == 0 or world.node.errands.waiting or world.node.next_turn or world.node.draining_later:
        lines.turn(world.node.flush)
        turns += 1
        assert turns < 10_000
    assert world.node.errands.budget.most <= UNITS + 700
    return lines.most, turns


def feed(connection: Connection, data: bytes) -> Callable[[], None]:
    return lambda: connection.feed(data)


def asked(channel: ChannelClient, *asked: methods.Method) -> Callable[[], None]:
    return feed(channel.client.connection, b"".join(frame(method, 1) for method in asked))


# -- what there may be very much of, and who works on all of it --------------------------------------------------------


def fill(world: World, queue: str, count: int) -> None:
    publisher = world.channel()
    publisher.client.connection.feed(publish_frames(1, b"m", queue) * count)
    world.flush()
    publisher.client.lose()


def holding(world: World, size: int, dead_letters: str | None = None) -> ChannelClient:
    """A channel that was handed so many messages, of two queues in turn."""
    channel = world.channel()
    for name in ("one", "two"):
        if dead_letters is None:
            channel.declare(name)
        else:
            channel.declare(name, x_dead_letter_exchange="", x_dead_letter_routing_key=dead_letters)
        channel.consume(name)
    publisher = world.channel()
    # Large enough that not all of them fit into what a connection sends in a turn.
    pair = publish_frames(1, bytes(4000), "one") + publish_frames(1, bytes(4000), "two")
    publisher.client.connection.feed(pair * (size // 2))
    world.flush()
    assert channel.client.connection.channels[1].unacked.count == size
    channel.take()
    return channel


def wide(world: World, size: int, type: str = "fanout") -> ChannelClient:
    """An exchange that leads to so many queues."""
    channel = world.channel()
    if type == DELAYED:
        channel.declare_exchange("wide", DELAYED, x_delayed_type="fanout")
    else:
        channel.declare_exchange("wide", type)
    for number in range(size):
        world.vhost.add_queue(f"q{number}", False, False, {})
        world.vhost.add_binding("wide", "queue", f"q{number}", "", {})
    return channel


def led(world: World, channel: ChannelClient) -> ChannelClient:
    """Where it leads is found in one piece, and remembered."""
    channel.publish(b"first", exchange="wide")
    world.flush()
    return channel


def publish_to_all(world: World, size: int) -> Callable[[], None]:
    channel = led(world, wide(world, size))
    return feed(channel.client.connection, publish_frames(1, b"m", exchange="wide"))


def publish_to_some_often(world: World, size: int) -> Callable[[], None]:
    channel = led(world, wide(world, 40))
    return feed(channel.client.connection, publish_frames(1, b"m", exchange="wide") * (size // 20))


def dying(world: World, size: int, arguments: dict[str, object]) -> ChannelClient:
    """A queue of some messages whose letters go to all of so many; one has gone before."""
    channel = wide(world, size)
    channel.declare("grave", x_dead_letter_exchange="wide", more=arguments)
    fill(world, "grave", 3)
    channel.get("grave")
    channel.reject(1)
    settled(world)
    assert world.queue(f"q{size - 1}").backing.length > 0
    return channel


def reject_to_all(world: World, size: int) -> Callable[[], None]:
    channel = dying(world, size, {})
    channel.get("grave")
    return asked(channel, methods.BasicReject(delivery_tag=2, requeue=False))


def reject_all_to_all(world: World, size: int) -> Callable[[], None]:
    channel = dying(world, size, {})
    channel.get("grave")
    channel.get("grave")
    return asked(channel, methods.BasicNack(delivery_tag=0, multiple=True, requeue=False))


def expire_to_all(world: World, size: int) -> Callable[[], None]:
    dying(world, size, {"x-message-ttl": 1000})
    return lambda: world.node.tick(world.node.now + 1000)


def displace_to_all(world: World, size: int) -> Callable[[], None]:
    channel = dying(world, size, {"x-max-length": 2})
    channel.publish(b"m", "grave")
    return feed(channel.client.connection, publish_frames(1, b"m", "grave"))


def delay_to_all(world: World, size: int) -> Callable[[], None]:
    channel = wide(world, size, DELAYED)
    late = Properties(headers=table_of({"x-delay": 1000}))
    channel.publish(b"m", exchange="wide", properties=late)
    world.node.tick(world.node.now + 1000)
    settled(world)
    assert world.queue(f"q{size - 1}").backing.length == 1
    channel.publish(b"m", exchange="wide", properties=late)
    return lambda: world.node.tick(world.node.now + 1000)


def move_to_all(world: World, size: int) -> Callable[[], None]:
    led(world, wide(world, size)).declare("source")
    fill(world, "source", 2)
    first, second = world.queue("source").browse(0, 2)
    relocate.move(world.vhost, first, Address("wide", ["k"]), {})
    settled(world)

    def begin() -> None:
        assert relocate.move(world.vhost, second, Address("wide", ["k"]), {}) is not None

    return begin


def settled(world: World) -> None:
    """Until nothing is left of what has begun."""
    while world.node.errands.waiting:
        world.flush()


def ack(world: World, size: int) -> Callable[[], None]:
    return asked(holding(world, size), methods.BasicAck(delivery_tag=size, multiple=True))


def ack_in_parts(world: World, size: int) -> Callable[[], None]:
    parts = [methods.BasicAck(delivery_tag=tag, multiple=True) for tag in range(20, size, 20)]
    return asked(holding(world, size), *parts)


def nack(world: World, size: int) -> Callable[[], None]:
    return asked(holding(world, size), methods.BasicNack(delivery_tag=0, multiple=True, requeue=True))


def nack_to_death(world: World, size: int) -> Callable[[], None]:
    world.vhost.add_queue("dead", False, False, {})
    channel = holding(world, size // 2, "dead")
    return asked(channel, methods.BasicNack(delivery_tag=0, multiple=True, requeue=False))


def recover(world: World, size: int) -> Callable[[], None]:
    return asked(holding(world, size), methods.BasicRecover(requeue=True))


def recover_async(world: World, size: int) -> Callable[[], None]:
    return asked(holding(world, size), methods.BasicRecoverAsync(requeue=True))


def close_a_channel(world: World, size: int) -> Callable[[], None]:
    return asked(holding(world, size), methods.ChannelClose(reply_code=200))


def close_a_connection(world: World, size: int) -> Callable[[], None]:
    connection = holding(world, size).client.connection
    return feed(connection, frame(methods.ConnectionClose(reply_code=200), 0))


def lose_a_connection(world: World, size: int) -> Callable[[], None]:
    return holding(world, size).client.connection.lost


def close_with_queues(world: World, size: int) -> Callable[[], None]:
    channel = world.channel()
    for number in range(size):
        channel.declare(f"q{number}", exclusive=True)
    return feed(channel.client.connection, frame(methods.ConnectionClose(reply_code=200), 0))


def commit_publishes(world: World, size: int) -> Callable[[], None]:
    channel = world.channel()
    channel.declare("q")
    channel.begin()
    channel.client.connection.feed(publish_frames(1, b"m", "q") * size)
    world.flush()
    return asked(channel, methods.TxCommit())


def settled_in_a_transaction(world: World, size: int) -> ChannelClient:
    channel = holding(world, size)
    channel.begin()
    channel.client.connection.feed(frame(methods.BasicAck(delivery_tag=0, multiple=True), 1))
    world.flush()
    return channel


def commit_acks(world: World, size: int) -> Callable[[], None]:
    return asked(settled_in_a_transaction(world, size), methods.TxCommit())


def roll_back(world: World, size: int) -> Callable[[], None]:
    return asked(settled_in_a_transaction(world, size), methods.TxRollback())


def ack_in_a_transaction(world: World, size: int) -> Callable[[], None]:
    channel = holding(world, size)
    channel.begin()
    return asked(channel, methods.BasicAck(delivery_tag=0, multiple=True))


def purge(world: World, size: int) -> Callable[[], None]:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", size)
    return asked(channel, methods.QueuePurge(queue="q"))


def bound(world: World, size: int) -> ChannelClient:
    channel = world.channel()
    channel.declare_exchange("x", "direct")
    channel.declare("q")
    for number in range(size):
        world.vhost.add_binding("x", "queue", "q", f"k{number}", {})
    return channel


def delete_a_bound_queue(world: World, size: int) -> Callable[[], None]:
    return asked(bound(world, size), methods.QueueDelete(queue="q"))


def delete_a_full_queue(world: World, size: int) -> Callable[[], None]:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", size)
    return asked(channel, methods.QueueDelete(queue="q"))


def delete_an_exchange(world: World, size: int) -> Callable[[], None]:
    return asked(bound(world, size), methods.ExchangeDelete(exchange="x"))


def unbind_the_last(world: World, size: int) -> Callable[[], None]:
    """An auto-delete exchange goes with it, and all that leads to that exchange."""
    channel = world.channel()
    channel.declare("q")
    channel.declare_exchange("x", "direct")
    world.vhost.add_exchange("passing", "direct", False, True, False, {})
    world.vhost.add_binding("passing", "queue", "q", "k", {})
    for number in range(size):
        world.vhost.add_binding("x", "exchange", "passing", f"k{number}", {})
    return asked(channel, methods.QueueUnbind(queue="q", exchange="passing", routing_key="k"))


def cancel_the_last(world: World, size: int) -> Callable[[], None]:
    """An auto-delete queue goes with its last consumer, and all that leads to it."""
    channel = world.channel()
    channel.declare_exchange("x", "direct")
    channel.declare("q", auto_delete=True)
    for number in range(size):
        world.vhost.add_binding("x", "queue", "q", f"k{number}", {})
    channel.consume("q", tag="last")
    return asked(channel, methods.BasicCancel(consumer_tag="last"))


def crowded(world: World, size: int, queue: str = "q") -> ChannelClient:
    channel = world.channel()
    channel.declare(queue)
    for number in range(size):
        channel.client.connection.feed(frame(methods.BasicConsume(queue=queue, consumer_tag=f"c{number}"), 1))
    world.flush()
    return channel


def cancel_one_of_many(world: World, size: int) -> Callable[[], None]:
    return asked(crowded(world, size), methods.BasicCancel(consumer_tag="c0"))


def consume_as_one_of_many(world: World, size: int) -> Callable[[], None]:
    return asked(crowded(world, size), methods.BasicConsume(queue="q"))


def settle_before_browsing(world: World, size: int) -> Callable[[], None]:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", size)
    channel.qos(10)
    arguments: dict[str, object] = {"x-browse": True, "x-settle-to": size}
    return asked(channel, methods.BasicConsume(queue="q", arguments=table_of(arguments)))


def declare_many(world: World, size: int) -> Callable[[], None]:
    return asked(world.channel(), *[methods.QueueDeclare(queue=f"q{number}") for number in range(size // 4)])


def declare_many_exchanges(world: World, size: int) -> Callable[[], None]:
    many = [methods.ExchangeDeclare(exchange=f"x{number}", type="topic") for number in range(size // 4)]
    return asked(world.channel(), *many)


def bind_many(world: World, size: int) -> Callable[[], None]:
    channel = bound(world, 1)
    return asked(
        channel,
        *[methods.QueueBind(queue="q", exchange="x", routing_key=f"new{number}") for number in range(size // 4)],
    )


def get_many(world: World, size: int) -> Callable[[], None]:
    channel = world.channel()
    channel.declare("q")
    fill(world, "q", size)
    return asked(channel, *[methods.BasicGet(queue="q") for _ in range(size)])


def reject_many(world: World, size: int) -> Callable[[], None]:
    channel = holding(world, size)
    return asked(channel, *[methods.BasicReject(delivery_tag=tag + 1, requeue=False) for tag in range(size)])


# By the method that begins it, or by what is none.
OTHERS = {"socket", "time", "operator"}
WORK: dict[Callable[[World, int], Callable[[], None]], str] = {
    publish_to_all: "basic.publish",
    publish_to_some_often: "basic.publish",
    ack: "basic.ack",
    ack_in_parts: "basic.ack",
    ack_in_a_transaction: "basic.ack",
    nack: "basic.nack",
    nack_to_death: "basic.nack",
    reject_many: "basic.reject",
    reject_to_all: "basic.reject",
    reject_all_to_all: "basic.nack",
    displace_to_all: "basic.publish",
    expire_to_all: "time",
    delay_to_all: "time",
    move_to_all: "operator",
    recover: "basic.recover",
    recover_async: "basic.recover-async",
    close_a_channel: "channel.close",
    close_a_connection: "connection.close",
    close_with_queues: "connection.close",
    lose_a_connection: "socket",
    commit_publishes: "tx.commit",
    commit_acks: "tx.commit",
    roll_back: "tx.rollback",
    purge: "queue.purge",
    delete_a_bound_queue: "queue.delete",
    delete_a_full_queue: "queue.delete",
    delete_an_exchange: "exchange.delete",
    unbind_the_last: "queue.unbind",
    cancel_the_last: "basic.cancel",
    cancel_one_of_many: "basic.cancel",
    consume_as_one_of_many: "basic.consume",
    settle_before_browsing: "basic.consume",
    declare_many: "queue.declare",
    declare_many_exchanges: "exchange.declare",
    bind_many: "queue.bind",
    get_many: "basic.get",
}
SMALL: dict[str, str] = {
    "one number or name of the connection or the channel": """
        access.request basic.qos channel.flow channel.open confirm.select tx.select connection.open
        connection.secure-ok connection.start-ok connection.tune-ok connection.update-secret""",
    "the way of one that is here": "exchange.bind exchange.unbind",
}


def test_every_method_that_clients_may_send_is_here() -> None:
    small = {name for names in SMALL.values() for name in names.split()}
    large = set(WORK.values()) - OTHERS
    assert small & large == set()
    assert small | large == understood()


@pytest.mark.parametrize("work", WORK, ids=lambda work: str(work.__name__))
def test_three_times_as_much_makes_no_turn_longer(work: Callable[[World, int], Callable[[], None]]) -> None:
    little, much = World(), World()
    most, turns = lines_of_the_longest_turn(little, work(little, LITTLE))
    most_of_much, more_turns = lines_of_the_longest_turn(much, work(much, LITTLE * 3))
    assert more_turns >= turns
    if not IS_COMPILED:
        assert most_of_much <= most * 1.3 + 300


def test_the_lines_of_a_turn_are_counted() -> None:
    """The negative control: work without a budget is longer for more."""
    if IS_COMPILED:
        pytest.skip("compiled code has no lines to count")

    def restart(node: Node, count: int) -> None:
        for _ in range(count):
            node.vhosts["/"].bindings_to(node.vhosts["/"].reply_queue)

    world = World()
    few, _ = lines_of_the_longest_turn(world, lambda: restart(world.node, 100))
    many, _ = lines_of_the_longest_turn(world, lambda: restart(world.node, 1000))
    assert many > few * 3
