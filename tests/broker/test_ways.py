"""A message reaches an exchange in many ways. Whichever it is, it comes to the same queues and is counted alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.harness import ChannelClient, Seen, World
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.exchanges.base import Exchange
from warren.broker.exchanges.types import KNOWN_TYPES
from warren.broker.operate import relocate
from warren.broker.publish.x_death import Address, origin_queue
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.queue.queue import Queue
from warren.broker.session.channel import Channel
from warren.broker.session.interceptors import Interceptor
from warren.broker.watch.journey import Journey
from warren.broker.watch.own_messages import OwnMessages
from warren.broker.watch.rehearsal import rehearse

TARGETS = ("q0", "q1", "q2", "q3")
DELAYED = "x-delayed-message"
# A pipeline's exchange sends results where it sends nothing else, and its own stream is no queue of these.
ROUTING_TYPES = [type_ for type_ in KNOWN_TYPES if type_ not in (DELAYED, "x-pipeline")]


class StuckWorld(World):
    """Draws the same number again and again, so that chance is the same for every way."""

    def __init__(self, draw: int) -> None:
        super().__init__()
        self.host.draw = lambda: draw  # type: ignore[method-assign]


def bind(channel: ChannelClient, queue: str, exchange: str, key: str, arguments: dict[str, object]) -> None:
    method = methods.QueueBind(queue=queue, exchange=exchange, routing_key=key, arguments=table_of(arguments))
    channel.call(method, methods.QueueBindOk)


def declare_target(channel: ChannelClient, exchange: str, type_: str, delayed: bool, hash_on: str) -> None:
    arguments: dict[str, object] = {}
    if type_ == "x-consistent-hash" and hash_on:
        arguments["hash-header" if hash_on == "h" else "hash-property"] = hash_on
    if delayed:
        arguments["x-delayed-type"] = type_
    declared = methods.ExchangeDeclare(
        exchange=exchange, type=DELAYED if delayed else type_, arguments=table_of(arguments)
    )
    channel.call(declared, methods.ExchangeDeclareOk)


def binding_key(type_: str, key: str) -> str:
    if type_ in ("x-consistent-hash", "x-modulus-hash"):
        return "1"
    return "" if type_ == "x-local-random" else key


Send = Callable[[World, ChannelClient, str, Properties], None]


def by_publish(world: World, channel: ChannelClient, key: str, properties: Properties) -> None:
    channel.publish("m", key, "x", properties=properties)


def by_transaction(world: World, channel: ChannelClient, key: str, properties: Properties) -> None:
    own = world.channel()
    own.call(methods.TxSelect(), methods.TxSelectOk)
    own.publish("m", key, "x", properties=properties)
    own.call(methods.TxCommit(), methods.TxCommitOk)


def by_move(world: World, channel: ChannelClient, key: str, properties: Properties) -> None:
    channel.declare("source")
    channel.publish("m", "source", properties=properties)
    (entry,) = world.queue("source").browse(0, 1)
    relocate.move(world.vhost, entry, Address("x", [key]), {})
    world.node.flush()


def by_death(world: World, channel: ChannelClient, key: str, properties: Properties) -> None:
    channel.declare("grave", x_dead_letter_exchange="x", x_dead_letter_routing_key=key)
    channel.publish("m", "grave", properties=properties)
    channel.get("grave")
    channel.reject(1)


def by_delay(world: World, channel: ChannelClient, key: str, properties: Properties) -> None:
    headers = {**(properties.headers or {}), **table_of({"x-delay": 100})}
    properties.headers = headers
    channel.publish("m", key, "x", properties=properties)
    world.advance(100)


def by_the_broker(world: World, channel: ChannelClient, key: str, properties: Properties) -> None:
    OwnMessages(world.node.errands).publish(world.vhost, "x", key, properties, b"m", None)
    world.node.flush()


WAYS: dict[str, Send] = {
    "publish": by_publish,
    "transaction": by_transaction,
    "move": by_move,
    "dead letter": by_death,
    "delay": by_delay,
    "the broker itself": by_the_broker,
}


@given(
    type_=st.sampled_from(ROUTING_TYPES),
    hash_on=st.sampled_from(["", "h", "message_id", "correlation_id", "timestamp"]),
    bindings=st.lists(st.tuples(st.sampled_from(TARGETS), st.sampled_from(["a", "a.b", "*", "#"])), max_size=5),
    through=st.sampled_from(["", "bound", "alternate"]),
    key=st.sampled_from(["a", "a.b", "c"]),
    header=st.sampled_from([None, "one", "two"]),
    identity=st.integers(0, 50),
    draw=st.integers(0, 7),
)
@settings(max_examples=60, deadline=None)
def test_the_same_message_comes_to_the_same_queues_and_is_counted_alike(
    type_: str,
    hash_on: str,
    bindings: list[tuple[str, str]],
    through: str,
    key: str,
    header: str | None,
    identity: int,
    draw: int,
) -> None:
    results = {}
    for name, send in WAYS.items():
        world = StuckWorld(draw)
        channel = world.channel()
        for queue in TARGETS:
            channel.declare(queue)
        declare_target(channel, "x", type_, delayed=True, hash_on=hash_on)
        for queue, pattern in bindings:
            wanted: dict[str, object] = {"h": header or "none", "x-match": "all"} if type_ == "headers" else {}
            bind(channel, queue, "x", binding_key(type_, pattern), wanted)
        if through and type_ != "x-local-random":
            channel.declare_exchange("behind", "fanout")
            channel.bind("q3", "behind")
            if through == "bound":
                bound = methods.ExchangeBind(destination="behind", source="x", routing_key=binding_key(type_, "#"))
                channel.call(bound, methods.ExchangeBindOk)
            else:
                world.set_policy("^x$", {"alternate-exchange": "behind"})
        properties = Properties(
            headers=None if header is None else table_of({"h": header}),
            message_id=f"m{identity}",
            correlation_id=f"c{identity}",
            timestamp=identity,
        )
        send(world, channel, key, properties)
        exchange: Exchange = world.vhost.exchanges["x"]
        counted = (exchange.published_in, exchange.published_out)
        results[name] = ({queue: len(channel.bodies_in(queue)) for queue in TARGETS}, counted)
    if world.vhost.exchanges["x"].leads_nowhere():
        # Nobody has bound anything: the broker's own messages are not even made.
        del results["the broker itself"]
    assert len({repr(result) for result in results.values()}) == 1, results


@pytest.mark.parametrize("way", WAYS)
def test_a_fan_out_to_two_queues_counts_one_in_and_two_out(way: str) -> None:
    world = World()
    channel = world.channel()
    declare_target(channel, "x", "fanout", delayed=True, hash_on="")
    for name in ("q0", "q1"):
        channel.declare(name)
        channel.bind(name, "x")
    WAYS[way](world, channel, "k", Properties())
    exchange = world.vhost.exchanges["x"]
    assert (exchange.published_in, exchange.published_out) == (1, 2)


# ---- the cases that showed that there were several ways ----


def spread_over(world: World, channel: ChannelClient, type_: str, hash_on: str = "") -> Callable[[], Counter[str]]:
    declare_target(channel, "x", type_, delayed=False, hash_on=hash_on)
    for name in TARGETS:
        channel.declare(name)
        channel.bind(name, "x", "1")
    return lambda: Counter({name: int(world.queue(name).backing.length) for name in TARGETS})


def test_messages_moved_to_a_random_exchange_are_spread(world: World) -> None:
    channel = world.channel()
    counted = spread_over(world, channel, "x-random")
    channel.declare("source")
    for number in range(100):
        channel.publish(str(number), "source")
    for entry in world.queue("source").browse(0, 100):
        moving = relocate.move(world.vhost, entry, Address("x", ["k"]), {})
        assert moving is not None
        assert moving.has_moved
    assert min(counted().values()) >= 20


def test_dead_letters_are_spread_by_their_message_id(world: World) -> None:
    channel = world.channel()
    counted = spread_over(world, channel, "x-consistent-hash", "message_id")
    channel.declare("grave", x_dead_letter_exchange="x")
    for number in range(100):
        channel.publish("m", "grave", properties=Properties(message_id=f"message {number}"))
        channel.get("grave")
        channel.reject(number + 1)
    assert min(counted().values()) >= 10


def binding_named(journey: Journey) -> list[str]:
    route = next(stage for stage in journey.stages if stage.name == "route")
    return [match.binding.destination.name for match in route.steps[0].matches]


def test_a_journey_names_the_binding_that_was_drawn(world: World) -> None:
    channel = world.channel()
    spread_over(world, channel, "x-random")
    world.node.journeys.sample(1)
    for _ in range(40):
        channel.publish("m", "k", "x")
    assert len(world.node.journeys.kept) == 40
    assert len({tuple(journey.queues) for journey in world.node.journeys.kept}) == len(TARGETS)
    for journey in world.node.journeys.kept:
        assert binding_named(journey) == journey.queues


def test_a_rehearsal_refuses_a_cc_that_is_no_list(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    properties = Properties(headers=table_of({"CC": "q"}))
    journey = rehearse(world.node.watch, world.vhost, "guest", "", "q", properties)
    channel.publish("m", "q", properties=properties)
    code, text = channel.expect_close()
    assert journey.outcome == "refused"
    assert f"{code} {text}" == journey.stages[-1].text.replace(": ", " - ", 1)


def test_a_rehearsal_counts_nothing_and_leaves_nothing_behind(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.vhost.tracing = True
    channel.declare("trace")
    channel.bind("trace", "amq.rabbitmq.trace", "#")
    opened = world.node.counters.channels_opened
    assert rehearse(world.node.watch, world.vhost, "guest", "", "q", Properties()).queues == ["q"]
    assert rehearse(world.node.watch, world.vhost, "guest", "", "none", Properties()).queues == []
    exchange = world.vhost.exchanges[""]
    assert (exchange.published_in, exchange.published_out, world.node.counters.sizes.bytes) == (0, 0, 0)
    assert (world.node.counters.channels_opened, len(world.node.connections)) == (opened, 1)
    assert world.node.next_deadline() == -1
    assert channel.bodies_in("trace") == []


# ---- the walk and its fast lane ----


@given(
    publishes=st.lists(
        st.tuples(
            st.sampled_from(["", "amq.direct", "amq.fanout", "amq.topic", "missing"]),
            st.sampled_from(["q0", "q1", "a.b", "none"]),
            st.sampled_from([None, 1, 2, 3]),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    ),
    mode=st.sampled_from(["plain", "confirm", "tx"]),
    unbinds_after=st.integers(0, 6),
)
@settings(max_examples=60, deadline=None)
def test_the_fast_lane_and_the_walk_come_to_the_same(
    publishes: list[tuple[str, str, int | None, bool]], mode: str, unbinds_after: int
) -> None:
    results = []
    for walks in (False, True):
        world = World()
        # Watched, but by nobody who is interested in any of these.
        world.node.journeys.sample(10**9 if walks else 0)
        channel = world.channel()
        for name in ("q0", "q1"):
            channel.declare(name, durable=True)
            channel.bind(name, "amq.fanout")
            channel.bind(name, "amq.direct", name)
        channel.bind("q0", "amq.topic", "a.*")
        if mode == "confirm":
            channel.confirm()
        elif mode == "tx":
            channel.call(methods.TxSelect(), methods.TxSelectOk)
        heard = []
        for number, (exchange, key, delivery_mode, mandatory) in enumerate(publishes):
            if number == unbinds_after:
                other = world.channel()
                unbind = methods.QueueUnbind(queue="q0", exchange="amq.direct", routing_key="q0")
                other.call(unbind, methods.QueueUnbindOk)
            properties = None if delivery_mode is None else Properties(delivery_mode=delivery_mode)
            channel.publish(str(number), key, exchange, mandatory, properties)
            heard += [str(received) for received in channel.take()]
        if mode == "tx" and not any("channel.close" in line or "ChannelClose" in line for line in heard):
            channel.send(methods.TxCommit())
            heard += [str(received) for received in channel.take()]
        reader = world.channel()
        exchanges = [(name, each.published_in, each.published_out) for name, each in world.vhost.exchanges.items()]
        left = [str(iter_get(reader, name)) for name in ("q0", "q1")]
        counters = world.node.counters
        results.append((heard, exchanges, left, counters.routed, counters.returned, counters.dropped))
    assert results[0] == results[1]


def iter_get(channel: ChannelClient, queue: str) -> list[Seen]:
    found = []
    seen = channel.get(queue, no_ack=True)
    while seen is not None:
        found.append(seen)
        seen = channel.get(queue, no_ack=True)
    return found


class Passing(Interceptor):
    def __init__(self, body: bytes | None = None) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        self.body = body

    def applies_to(self) -> list[str]:
        return ["basic.publish"]

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        self.bodies.append(body)
        return properties, body if self.body is None else self.body


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("frame_max", [131072, 4096])
def test_a_message_that_is_too_large_is_refused_whoever_intercepts(world: World, watched: bool, frame_max: int) -> None:
    world.node.settings.max_message_size = 10_000
    interceptor = Passing()
    world.node.install_interceptor(interceptor)
    world.node.journeys.sample(1 if watched else 0)
    channel = world.connect(frame_max=frame_max).channel()
    channel.declare("q")
    channel.confirm()
    channel.publish("x" * 10_001, "q")
    assert channel.expect_close() == (
        406,
        "PRECONDITION_FAILED - message size 10001 is larger than configured max size 10000",
    )
    assert world.queue("q").backing.length == 0
    other = world.connect(frame_max=frame_max).channel()
    other.publish("y" * 10_000, "q")
    assert interceptor.bodies == [b"y" * 10_000]
    assert other.bodies_in("q") == [b"y" * 10_000]


def test_what_an_interceptor_makes_of_a_message_is_weighed_too(world: World) -> None:
    world.node.settings.max_message_size = 10
    world.node.install_interceptor(Passing(b"much longer than that"))
    channel = world.channel()
    channel.publish("short", "q")
    assert channel.expect_close()[1].startswith("PRECONDITION_FAILED - message size 21 is larger")


# ---- what queues say ----


def test_a_message_that_broke_its_queue_is_no_duplicate_when_it_comes_again(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True, x_message_deduplication=True)
    channel.confirm()
    properties = Properties(headers=table_of({"x-deduplication-header": "1"}), delivery_mode=2)
    world.store.failing.add(("q", "publish"))
    channel.publish("m", "q", properties=properties)
    world.store.failing.clear()
    channel.publish("m", "q", properties=properties)
    assert channel.confirms() == [("nack", 1, False), ("ack", 2, False)]
    assert channel.bodies_in("q") == [b"m"]


def test_what_was_nacked_because_its_queue_broke_later_may_come_again(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True, x_message_deduplication=True)
    channel.confirm()

    def publish(identity: str) -> None:
        headers = table_of({"x-deduplication-header": identity})
        channel.publish(identity, "q", properties=Properties(headers=headers, delivery_mode=2))

    publish("durable")
    world.store.holds = True
    publish("lost")
    world.store.failing.add(("q", "publish"))
    channel.publish("the last straw", "q")
    world.store.failing.clear()
    world.store.holds = False
    world.sync()
    channel.take()
    publish("durable")
    publish("lost")
    assert [kind for kind, _, _ in channel.confirms()] == ["ack", "ack"]
    assert channel.bodies_in("q") == [b"lost"]


class Noting(QueueDecorator):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bool] = []

    def consumer_state_changed(self, queue: Queue) -> None:
        self.heard.append(queue.consumers.is_any_able())


def test_a_queue_decorator_hears_when_delivering_changes_whether_consumers_can_take_more(world: World) -> None:
    decorator = Noting()
    world.node.install_queue_decorator(decorator)
    channel, consumer = world.channel(), world.channel()
    channel.declare("q")
    consumer.qos(2)
    consumer.consume("q", "c")
    assert decorator.heard == [True]
    channel.publish("1", "q")
    assert decorator.heard == [True]
    channel.publish("2", "q")
    assert decorator.heard == [True, False]
    channel.publish("3", "q")
    consumer.ack(1)
    # The third went out at once: nothing has changed.
    assert decorator.heard == [True, False]
    consumer.ack(3, multiple=True)
    assert decorator.heard == [True, False, True]


def test_a_dead_letter_comes_from_where_it_died_first() -> None:
    world = World()
    channel = world.channel()
    channel.declare("third")
    channel.declare("second", x_dead_letter_exchange="", x_dead_letter_routing_key="third")
    channel.declare("first", x_dead_letter_exchange="", x_dead_letter_routing_key="second")
    channel.publish("m", "first")
    for tag, queue in enumerate(("first", "second"), 1):
        channel.get(queue)
        channel.reject(tag)
    seen = channel.got("third")
    headers = seen.received.properties.headers
    assert origin_queue(headers) == "first"
    assert headers is not None
    del headers["x-first-death-queue"]
    assert origin_queue(headers) == "first"
