"""x-exact-message-ttl: a message leaves when its own time is over, wherever it stands."""

from __future__ import annotations

import pytest

from tests.broker.harness import FakeStore, World
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.queue.backing import Backing
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue


def test_a_short_life_behind_a_long_one_ends_in_time(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_exact_message_ttl=True, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    channel.declare("dead")
    channel.publish("long", "q", properties=Properties(expiration="10000"))
    channel.publish("short", "q", properties=Properties(expiration="100"))
    channel.publish("for ever", "q")
    world.advance(99)
    assert world.queue("q").backing.length == 3
    world.advance(1)
    assert channel.bodies_in("dead") == [b"short"]
    assert world.queue("q").backing.length == 2
    world.advance(9900)
    assert channel.bodies_in("q") == [b"for ever"]


def test_without_it_only_the_head_expires(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("long", "q", properties=Properties(expiration="10000"))
    channel.publish("short", "q", properties=Properties(expiration="100"))
    world.advance(200)
    assert world.queue("q").backing.length == 2


def test_what_was_given_back_expires_in_its_time(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_exact_message_ttl=True)
    channel.publish("long", "q", properties=Properties(expiration="10000"))
    channel.publish("short", "q", properties=Properties(expiration="100"))
    tags = [channel.get("q"), channel.get("q")]
    world.advance(50)
    for seen in tags:
        assert seen is not None
        channel.nack(seen.tag)
    world.advance(50)
    assert channel.bodies_in("q") == [b"long"]


def test_a_policy_turns_it_on_for_what_waits_already(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("long", "q", properties=Properties(expiration="10000"))
    channel.publish("short", "q", properties=Properties(expiration="100"))
    world.set_policy("q", {"exact-message-ttl": True})
    world.advance(100)
    assert channel.bodies_in("q") == [b"long"]


def test_many_at_once_go_in_batches(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_exact_message_ttl=True)
    channel.publish("long", "q", properties=Properties(expiration="10000"))
    for _ in range(2500):
        channel.publish("short", "q", properties=Properties(expiration="100"))
    world.advance(100)
    assert world.queue("q").backing.length == 1501
    world.advance(1)
    world.advance(1)
    assert world.queue("q").backing.length == 1


def test_priorities_expire_at_every_level(world: World) -> None:
    channel = world.channel()
    channel.declare("q", x_exact_message_ttl=True, x_max_priority=3)
    channel.publish("low", "q", properties=Properties(priority=0, expiration="100"))
    channel.publish("high", "q", properties=Properties(priority=3))
    world.advance(100)
    assert channel.bodies_in("q") == [b"high"]


class Unreadable(Backing):
    """What a restart finds as it was, and for two attempts cannot read."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def take(self, sequence: int) -> Entry | None:
        self.attempts += 1
        if self.attempts <= 2:
            raise OSError("the disk failed")
        return super().take(sequence)


class UnreadableStore(FakeStore):
    def __init__(self) -> None:
        super().__init__()
        self.unreadable = Unreadable()

    def open(self, queue: Queue, level: int) -> Backing:
        return self.unreadable if queue.name == "unreadable" else super().open(queue, level)


@pytest.mark.parametrize("kind", ["queue", "schedule"])
def test_what_cannot_be_read_is_tried_again_after_a_while_and_not_at_once(kind: str) -> None:
    store = UnreadableStore()
    world = World(store=store)
    channel = world.channel()
    channel.declare("heir")
    if kind == "queue":
        channel.declare(
            "unreadable", x_exact_message_ttl=True, x_dead_letter_exchange="", x_dead_letter_routing_key="heir"
        )
        channel.publish("m", "unreadable", properties=Properties(expiration="100"))
    else:
        arguments = table_of({"x-delayed-type": "fanout"})
        declare = methods.ExchangeDeclare(exchange="unreadable", type="x-delayed-message", arguments=arguments)
        channel.call(declare, methods.ExchangeDeclareOk)
        channel.bind("heir", "unreadable")
        channel.publish("m", "", "unreadable", properties=Properties(headers=table_of({"x-delay": 100})))
    world.advance(100)
    assert store.unreadable.attempts == 1
    world.advance(999)
    assert store.unreadable.attempts == 1
    world.advance(1)
    assert store.unreadable.attempts == 2
    world.advance(1000)
    assert channel.bodies_in("heir") == [b"m"]
