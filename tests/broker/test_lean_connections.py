"""What connections cost: objects while they are idle, nothing for the collector when they are gone."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.broker.harness import Client, World, publish_frames
from warren.amqp import methods
from warren.broker.timers import Timer, Timers

MANY = 20


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def objects_of_the_core() -> Counter[str]:
    """By the name of their class; those of a client in this process are not the core's."""
    kinds = [type(each) for each in gc.get_objects()]
    return Counter(kind.__name__ for kind in kinds if str(kind.__module__).startswith(("warren.broker", "warren.amqp")))


def busy_client(world: World) -> Client:
    """One that has used all that a connection can have."""
    client = world.connect(heartbeat=60)
    channel = client.channel()
    channel.declare("q")
    channel.confirm()
    channel.send(methods.BasicConsume(queue="q", consumer_tag="c"))
    client.feed(publish_frames(1, "m", "q"))
    return client


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_connection_that_is_gone_leaves_nothing_for_the_collector(world: World, says_goodbye: bool) -> None:
    before = objects_of_the_core()
    for _ in range(MANY):
        client = busy_client(world)
        if says_goodbye:
            client.send(methods.ConnectionClose(200, "bye"))
        client.lose()
    del client
    left = objects_of_the_core() - before
    assert not {"Connection", "Reader", "Handshake", "Channel", "Confirms", "Consumer"} & set(left)
    # Some rows of timers that were taken down may wait for their time, but nothing hangs on them.
    world.advance(100_000)
    assert objects_of_the_core()["Connection"] == before["Connection"]


def test_a_password_that_is_checked_too_late_is_counted_and_leaves_nothing(world: World) -> None:
    before = objects_of_the_core()["Connection"]
    world.host.holds_passwords = True
    client = world.dial()
    client.log_in("guest", "wrong")
    client.lose()
    del client
    world.host.answer_passwords()
    assert "invalid credentials" in world.host.logged()
    assert objects_of_the_core()["Connection"] == before


def test_an_idle_connection_has_few_objects(world: World) -> None:
    world.connect(heartbeat=60).channel()
    before = objects_of_the_core()
    clients = [world.connect(heartbeat=60) for _ in range(MANY)]
    for client in clients:
        client.channel()
    # The timers of handshakes are gone when their time has passed.
    world.advance(20_000)
    added = objects_of_the_core() - before
    each = {name: count / MANY for name, count in added.items() if count >= MANY}
    # No timer of the handshake, no credit, and what the client says of itself is taken apart once for all.
    wanted = {"Connection", "Reader", "Handshake", "HeartbeatTimer", "Channel", "ChannelCounters", "Unacked"}
    ours = {name: count for name, count in each.items() if name not in ("Session", "Field")}
    assert ours == dict.fromkeys(wanted, 1.0)
    assert len({id(client.connection.client_properties) for client in clients}) == 1


def test_clients_that_differ_are_told_apart(world: World) -> None:
    one = world.connect(capabilities={"basic.nack": True})
    other = world.connect(capabilities={"consumer_cancel_notify": True})
    again = world.connect(capabilities={"basic.nack": True})
    assert [client.connection.can("basic.nack") for client in (one, other, again)] == [True, False, True]
    assert one.connection.client_properties is again.connection.client_properties


def test_clients_that_all_differ_are_not_all_remembered(world: World) -> None:
    for number in range(200):
        world.connect(capabilities={f"c{number}": True}).lose()
    assert len(world.node.clients) <= 64
    world.connect(capabilities={"long": "x" * 5000})
    assert all(len(said) <= 2048 for said in world.node.clients)


def timers_alive() -> int:
    return sum(type(each) is Timer for each in gc.get_objects())


def test_timers_that_were_taken_down_are_forgotten_before_their_time() -> None:
    timers = Timers()
    kept = [Timer() for _ in range(10)]
    for number, timer in enumerate(kept):
        timers.schedule(timer, 1000 - number)
    before = timers_alive()
    for _ in range(10_000):
        gone = Timer()
        timers.schedule(gone, 500)
        timers.schedule(gone, 700)
        timers.cancel(gone)
    del gone
    assert timers_alive() <= before + 200
    assert timers.pending() == kept[::-1]
    assert timers.next_deadline() == 991
    for timer in kept:
        timers.cancel(timer)
    assert timers.next_deadline() == -1
